//! What the service is asked, and what its answer means. Pure.

use super::credentials_config::CredentialsConfig;
use crate::{
    percent_encoding::put_percent_encoded,
    server::{HttpAnswer, HttpFailure, HttpPurpose, HttpRequest},
};
use busyhour_sip::auth::Secret;
use busyhour_store::AccountEntry;
use hyper::{
    Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, HeaderValue},
};
use serde::Deserialize;

/// What came of asking.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CredentialVerdict {
    Found(Secret),
    Missing,
    /// An answer that cannot be used.
    Unusable(String),
    /// The service is not reached, or says that it cannot answer now.
    Unanswered(String),
    /// There is no answer in time.
    Late,
}

/// A hash for each algorithm, in hexadecimal digits; fields that are not known here are ignored.
#[derive(Deserialize)]
struct Hashes {
    md5: Option<String>,
    sha256: Option<String>,
    sha512_256: Option<String>,
    md5_address: Option<String>,
    sha256_address: Option<String>,
    sha512_256_address: Option<String>,
}

/// A GET with the user, the realm and, if the account is `user@domain`, the domain in the query.
pub(super) fn request(
    config: &CredentialsConfig,
    user: &str,
    realm: &str,
    domain: Option<&str>,
) -> Option<HttpRequest> {
    let mut url = config.url.to_string();
    let fields = [
        ("user", Some(user)),
        ("realm", Some(realm)),
        ("domain", domain),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(name);
            url.push('=');
            put_percent_encoded(&mut url, value);
        }
    }
    let mut request = HttpRequest::new(HttpPurpose::Credentials, Method::GET, url.parse().ok()?);
    let json = HeaderValue::from_static("application/json");
    request.headers.insert(ACCEPT, json);
    if let Some(value) = &config.authorization {
        request.headers.insert(AUTHORIZATION, value.clone());
    }
    request.time_limit = config.time_limit;
    request.answer_bytes_max = ANSWER_BYTES_MAX;
    request.needs_body = true;
    Some(request)
}

pub(super) fn verdict(
    outcome: &Result<HttpAnswer, HttpFailure>,
    user: &str,
    realm: &str,
) -> CredentialVerdict {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(HttpFailure::TooLong) => {
            let reason = format!("its answer has more than {ANSWER_BYTES_MAX} bytes");
            return CredentialVerdict::Unusable(reason);
        }
        Err(HttpFailure::Late) => return CredentialVerdict::Late,
        Err(failure) => return CredentialVerdict::Unanswered(failure.to_string()),
    };
    match answer.status {
        StatusCode::OK => match secret_in(&answer.body, user, realm) {
            Ok(secret) => CredentialVerdict::Found(secret),
            Err(reason) => CredentialVerdict::Unusable(reason),
        },
        StatusCode::NOT_FOUND | StatusCode::GONE => CredentialVerdict::Missing,
        StatusCode::GATEWAY_TIMEOUT => CredentialVerdict::Late,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE => {
            CredentialVerdict::Unanswered(answer.status.to_string())
        }
        status => CredentialVerdict::Unusable(status.to_string()),
    }
}

/// No mistake quotes what was sent, which may be a secret.
fn secret_in(body: &[u8], user: &str, realm: &str) -> Result<Secret, String> {
    let parsed = serde_json::from_slice(body);
    let hashes: Hashes = parsed.map_err(|_| "its answer is no JSON object of hashes".to_owned())?;
    let entry = AccountEntry {
        user: user.to_owned(),
        md5: hashes.md5,
        sha256: hashes.sha256,
        sha512_256: hashes.sha512_256,
        md5_address: hashes.md5_address,
        sha256_address: hashes.sha256_address,
        sha512_256_address: hashes.sha512_256_address,
        ..AccountEntry::default()
    };
    let is_any = [&entry.md5, &entry.sha256, &entry.sha512_256]
        .into_iter()
        .chain([
            &entry.md5_address,
            &entry.sha256_address,
            &entry.sha512_256_address,
        ])
        .any(Option::is_some);
    match is_any {
        true => entry.check(realm).map(|account| account.secret),
        false => Err("its answer has no hash: give md5, sha256 or sha512_256".to_owned()),
    }
}

const ANSWER_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_sip::auth::Algorithm;
    use hyper::HeaderMap;

    fn said(status: u16, body: &str) -> CredentialVerdict {
        let answer = HttpAnswer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.to_owned().into(),
        };
        verdict(&Ok(answer), "alice", "example.com")
    }

    #[test]
    fn the_query_names_the_user_the_realm_and_the_domain() {
        let asked = |url: &str, domain| {
            let config = CredentialsConfig::new(url).unwrap();
            let config = config.authorized_by("Bearer x\n").unwrap();
            config.request("a+b&c=1", "Our Realm", domain).unwrap()
        };
        let request = asked("https://a.example/credentials", None);
        let expected = "https://a.example/credentials?user=a%2Bb%26c%3D1&realm=Our%20Realm";
        assert_eq!(request.url.to_string(), expected);
        assert_eq!(request.headers[AUTHORIZATION], "Bearer x");
        assert!(!format!("{request:?}").contains("Bearer"));
        let request = asked("http://a.example/x?k=1", Some("b.example"));
        assert!(
            request
                .url
                .to_string()
                .ends_with("/x?k=1&user=a%2Bb%26c%3D1&realm=Our%20Realm&domain=b.example")
        );
        assert!(CredentialsConfig::new("https://u:p@a.example/").is_err());
        let config = CredentialsConfig::new("http://a.example/").unwrap();
        assert!(config.authorized_by("two\nlines").is_err());
    }

    #[test]
    fn an_answer_means_one_of_four_things() {
        let hash = Algorithm::Md5.hash(&[b"alice", b"example.com", b"wonder"]);
        let found = said(200, &format!("{{\"md5\": \"{hash}\", \"plan\": \"gold\"}}"));
        let CredentialVerdict::Found(secret) = found else {
            panic!("{found:?}");
        };
        assert_eq!(secret.hashes(), [(Algorithm::Md5, hash)]);
        assert_eq!(said(404, ""), CredentialVerdict::Missing);
        assert_eq!(said(410, ""), CredentialVerdict::Missing);
        for (status, body) in [
            (200, ""),
            (200, "{}"),
            (200, "[]"),
            (200, "{\"md5\": \"secret\"}"),
            (200, "{\"md5\": 5}"),
            (204, ""),
            (301, ""),
            (401, ""),
            (500, ""),
        ] {
            let verdict = said(status, body);
            let CredentialVerdict::Unusable(reason) = verdict else {
                panic!("{status} {body}: {verdict:?}");
            };
            assert!(!reason.contains("secret"), "{reason}");
        }
        for status in [429, 502, 503] {
            let verdict = said(status, "");
            assert!(
                matches!(verdict, CredentialVerdict::Unanswered(_)),
                "{status}"
            );
        }
        let late = verdict(&Err(HttpFailure::Late), "alice", "example.com");
        assert_eq!(late, CredentialVerdict::Late);
        assert_eq!(said(504, ""), CredentialVerdict::Late);
        let long = verdict(&Err(HttpFailure::TooLong), "alice", "example.com");
        assert!(matches!(long, CredentialVerdict::Unusable(_)));
    }
}
