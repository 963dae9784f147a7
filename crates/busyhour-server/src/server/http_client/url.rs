use hyper::Uri;
use std::{fmt, str::FromStr};
use thiserror::Error;

/// An absolute URL of `http` or `https`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpUrl(Uri);

/// Why a text is no such URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HttpUrlMistake {
    /// It is not of the form.
    #[error("give a URL such as https://example.com/path")]
    NotAUrl,
    /// It holds a name or a password, which logs would show.
    #[error("a URL must not hold a password: anybody who sees it would know it")]
    Password,
}

impl HttpUrl {
    /// What the client connects to.
    pub fn uri(&self) -> &Uri {
        &self.0
    }

    /// The host with its port, if it has one.
    pub fn authority(&self) -> &str {
        self.0
            .authority()
            .map_or("", |authority| authority.as_str())
    }

    /// Whether it is `https`.
    pub fn is_tls(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }
}

impl FromStr for HttpUrl {
    type Err = HttpUrlMistake;

    fn from_str(text: &str) -> Result<Self, HttpUrlMistake> {
        let uri: Uri = text.parse().map_err(|_| HttpUrlMistake::NotAUrl)?;
        let is_known = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_known || uri.host().is_none_or(str::is_empty) {
            return Err(HttpUrlMistake::NotAUrl);
        }
        match uri.authority() {
            Some(authority) if authority.as_str().contains('@') => Err(HttpUrlMistake::Password),
            _ => Ok(Self(uri)),
        }
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_urls_without_passwords_are_taken() {
        let read = |text: &str| text.parse::<HttpUrl>();
        let url = read("https://hooks.example:8443/a?b=c").unwrap();
        assert!(url.is_tls());
        assert_eq!(url.authority(), "hooks.example:8443");
        assert_eq!(url.to_string(), "https://hooks.example:8443/a?b=c");
        assert!(!read("http://192.0.2.1/").unwrap().is_tls());
        for text in [
            "",
            "hooks.example",
            "/path",
            "ftp://a/",
            "http://",
            "http:///x",
            "http://a b/",
        ] {
            assert_eq!(read(text), Err(HttpUrlMistake::NotAUrl), "{text}");
        }
        assert_eq!(read("https://u:p@a/"), Err(HttpUrlMistake::Password));
    }
}
