use crate::server::{HttpPurpose, HttpRequest, HttpUrl, HttpUrlMistake};
use hyper::{
    Method,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use thiserror::Error;

/// The collector that spans go to, and how many requests are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanExportConfig {
    /// Where it takes OTLP over HTTP.
    pub url: HttpUrl,
    /// One of so many registrations and calls is followed; 0: none is.
    pub one_in: u64,
    /// Headers of each request to it.
    pub headers: HeaderMap,
    /// What tells this server from others of the same service.
    pub instance: Option<String>,
}

/// What is wrong with a [`SpanExportConfig`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpanExportMistake {
    /// The URL.
    #[error("{0}")]
    Url(#[from] HttpUrlMistake),
    /// A line that is no header.
    #[error("line {0}: give a header such as `Authorization: Bearer secret`")]
    Header(usize),
}

impl SpanExportConfig {
    /// A collector at a URL. Without a path it is the collector's own address, and spans go to
    /// `/v1/traces`, as the protocol says.
    ///
    /// # Errors
    ///
    /// When it is no URL of `http` or `https`, or has a password.
    pub fn new(endpoint: &str, one_in: u64) -> Result<Self, SpanExportMistake> {
        let url = endpoint.parse::<HttpUrl>()?;
        let is_bare = matches!(url.uri().path(), "" | "/") && url.uri().query().is_none();
        let url = match is_bare {
            true => format!("{}/v1/traces", endpoint.trim_end_matches('/')).parse()?,
            false => url,
        };
        Ok(Self {
            url,
            one_in,
            headers: HeaderMap::new(),
            instance: None,
        })
    }

    /// With headers, one a line; empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    ///
    /// The first line that is no header.
    pub fn with_headers(mut self, lines: &str) -> Result<Self, SpanExportMistake> {
        for (number, line) in lines.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, value) = header(line).ok_or(SpanExportMistake::Header(number + 1))?;
            self.headers.append(name, value);
        }
        Ok(self)
    }

    /// A request with spans in JSON.
    pub fn request(&self, body: Vec<u8>) -> HttpRequest {
        let mut request = HttpRequest::new(HttpPurpose::Spans, Method::POST, self.url.clone());
        request.headers = self.headers.clone();
        let json = HeaderValue::from_static("application/json");
        request.headers.insert(CONTENT_TYPE, json);
        request.body = body.into();
        request
    }
}

/// A header whose value logs do not show.
fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_by_its_address_or_by_the_whole_url() {
        let url = |endpoint: &str| SpanExportConfig::new(endpoint, 1).map(|it| it.url.to_string());
        let own = "http://127.0.0.1:4318/v1/traces";
        assert_eq!(url("http://127.0.0.1:4318"), Ok(own.to_owned()));
        assert_eq!(url("http://127.0.0.1:4318/"), Ok(own.to_owned()));
        let other = "https://otlp.example/tenant/v1/traces";
        assert_eq!(url(other), Ok(other.to_owned()));
        let mistake = SpanExportMistake::Url(HttpUrlMistake::NotAUrl);
        assert_eq!(url("127.0.0.1:4318"), Err(mistake));
    }

    #[test]
    fn headers_stand_one_a_line() {
        let config = SpanExportConfig::new("http://127.0.0.1:4318", 1).unwrap();
        let with = config
            .clone()
            .with_headers("# of the collector\n\nAuthorization: Bearer a:b\nX-Scope-OrgID: 7\n");
        let headers = with.unwrap().headers;
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert!(headers["authorization"].is_sensitive());
        assert_eq!(headers["x-scope-orgid"], "7");
        for (lines, number) in [("Bearer abc", 1), ("A: b\n\nC d: e", 3)] {
            let mistake = SpanExportMistake::Header(number);
            assert_eq!(config.clone().with_headers(lines), Err(mistake));
        }
    }
}
