//! What a request says behind `?` and in its path. What is wrong with it is said in our words:
//! which parameter, why, and what to give instead.

use axum::{
    extract::{FromRequestParts, Path, Query},
    http::{StatusCode, request::Parts},
};
use serde::{Deserialize, de::DeserializeOwned};

/// The parameters of a request. `T` denies unknown fields.
pub(super) struct Parameters<T>(pub(super) T);

/// There are none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParameters {}

/// The name in the path of a request.
pub(super) struct PathName(pub(super) String);

/// Two of them.
pub(super) struct PathNames(pub(super) String, pub(super) String);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = (StatusCode, String);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let read = Query::try_from_uri(&parts.uri);
        let read = read.map(|Query(parameters)| Self(parameters));
        read.map_err(|rejection| {
            let text = rejection.body_text();
            (StatusCode::BAD_REQUEST, mistake(&text) + "\n")
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = (StatusCode, String);

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let read = Path::from_request_parts(parts, state).await;
        let read = read.map(|Path(name)| Self(name));
        read.map_err(|_| not_in_utf8(parts))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathNames {
    type Rejection = (StatusCode, String);

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let read = Path::from_request_parts(parts, state).await;
        let read = read.map(|Path((first, second))| Self(first, second));
        read.map_err(|_| not_in_utf8(parts))
    }
}

fn not_in_utf8(parts: &Parts) -> (StatusCode, String) {
    let path = parts.uri.path();
    let reason = format!(
        "{path}: the name is not in UTF-8: write other characters than letters, digits and -._~ as the % escapes of their bytes in UTF-8\n"
    );
    (StatusCode::BAD_REQUEST, reason)
}

/// What is wrong, from what the deserializer says: `PARAMETER: PROBLEM`, or the problem alone.
fn mistake(text: &str) -> String {
    let said = text.strip_prefix(FRAMEWORK).unwrap_or(text);
    let (parameter, problem) = said.split_once(": ").unwrap_or(("", said));
    let mut quoted = problem.split('`').skip(1).step_by(2);
    if problem.starts_with("unknown field") {
        let unknown = quoted.next().unwrap_or(parameter);
        let known: Vec<_> = quoted.collect();
        return match known.is_empty() {
            true => format!("{unknown}: there is no such parameter, and no other; leave it out"),
            false => format!(
                "{unknown}: there is no such parameter; give {}, or leave it out",
                known.join(", ")
            ),
        };
    }
    let named = quoted.next().unwrap_or(parameter);
    match problem {
        _ if problem.starts_with("missing field") => format!("{named}: it is missing; give it"),
        _ if problem.starts_with("duplicate field") => {
            format!("{named}: it is there more than once; give it once")
        }
        _ if problem.contains("`true` or `false`") => format!("{parameter}: give true or false"),
        _ if NO_NUMBER.iter().any(|part| problem.contains(part)) => {
            format!("{parameter}: give a whole number")
        }
        _ => format!("{said}; give parameters such as name=value, with & between them"),
    }
}

const FRAMEWORK: &str = "Failed to deserialize query string: ";
/// Parts of what is said of a text that is no number in its range.
const NO_NUMBER: [&str; 4] = ["invalid digit", "empty string", "too large", "too small"];

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct All {
        user: String,
        limit: Option<u8>,
        #[serde(default)]
        snapshot: bool,
    }

    fn read<T: DeserializeOwned>(query: &str) -> Result<T, String> {
        let uri = format!("/api/things?{query}").parse().expect("a URI");
        let read = Query::try_from_uri(&uri).map(|Query(all)| all);
        read.map_err(|rejection| mistake(&rejection.body_text()))
    }

    #[test]
    fn each_mistake_says_what_where_and_what_to_do() {
        let all = All {
            user: "a".to_owned(),
            limit: Some(7),
            snapshot: true,
        };
        assert_eq!(read("user=a&limit=7&snapshot=true"), Ok(all));
        for (query, said) in [
            ("user=a&limit=x", "limit: give a whole number"),
            ("user=a&limit=", "limit: give a whole number"),
            ("user=a&limit=-1", "limit: give a whole number"),
            ("user=a&limit=256", "limit: give a whole number"),
            ("user=a&snapshot=yes", "snapshot: give true or false"),
            ("limit=1", "user: it is missing; give it"),
            (
                "user=a&user=b",
                "user: it is there more than once; give it once",
            ),
            (
                "usr=a",
                "usr: there is no such parameter; give user, limit, snapshot, or leave it out",
            ),
        ] {
            assert_eq!(read::<All>(query), Err(said.to_owned()), "{query}");
        }
        let said = "x: there is no such parameter, and no other; leave it out";
        assert_eq!(read::<NoParameters>("x=1").err().as_deref(), Some(said));
    }
}
