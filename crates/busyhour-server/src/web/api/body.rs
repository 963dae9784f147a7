//! Bodies in JSON.

use super::pending_commit::Rejection;
use crate::json;
use axum::http::StatusCode;
use serde::de::DeserializeOwned;

/// The object in a body.
///
/// # Errors
///
/// What is wrong with it, and where. A list of the values, which serde would take as well, is no object.
pub(in crate::web) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Rejection> {
    let wrong = |mistake: String| (StatusCode::BAD_REQUEST, format!("body: {mistake}\n"));
    if body
        .trim_ascii_start()
        .first()
        .is_some_and(|first| *first != b'{')
    {
        return Err(wrong("give a JSON object, which begins with {".into()));
    }
    serde_json::from_slice(body).map_err(|error| wrong(json::mistake_at(&error)))
}

/// The same; what has a default may be left out altogether.
pub(in crate::web) fn object_or_nothing<T: DeserializeOwned + Default>(
    body: &[u8],
) -> Result<T, Rejection> {
    match body.is_empty() {
        true => Ok(T::default()),
        false => object(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Size {
        width: u32,
    }

    #[test]
    fn only_an_object_is_an_object() {
        assert_eq!(object::<Size>(b" {\"width\": 3}"), Ok(Size { width: 3 }));
        assert_eq!(object_or_nothing::<Size>(b""), Ok(Size::default()));
        for wrong in ["[3]", "3", "null", "", "{", "{\"width\": -1}"] {
            let (status, text) = object::<Size>(wrong.as_bytes()).unwrap_err();
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert!(text.starts_with("body: "), "{wrong}: {text}");
        }
    }
}
