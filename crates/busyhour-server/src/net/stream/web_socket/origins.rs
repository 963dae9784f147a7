use std::{
    fmt::{self, Display, Formatter},
    str::FromStr,
    sync::Arc,
};

/// The pages that may open a WebSocket, by the origin that their browser names (RFC 6454).
///
/// Who is no browser names no origin, and is not asked for one: the rule protects people whose
/// browser runs the page of another.
///
/// ```
/// use busyhour_server::net::Origins;
///
/// let same = Origins::default();
/// assert!(same.allow(Some("https://sip.example.org"), Some("sip.example.org:7443")));
/// assert!(!same.allow(Some("https://evil.example"), Some("sip.example.org:7443")));
/// assert!(same.allow(None, Some("sip.example.org")));
///
/// let listed: Origins = "same,https://phone.example.org".parse()?;
/// assert!(listed.allow(Some("https://phone.example.org"), Some("192.0.2.1")));
/// assert!(!listed.allow(Some("http://phone.example.org"), Some("192.0.2.1")));
/// # Ok::<(), busyhour_server::net::NotOrigins>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origins(Arc<[Origin]>);

#[derive(Debug, PartialEq, Eq)]
enum Origin {
    /// Every page.
    Any,
    /// Pages of the host that the WebSocket is at, whatever their port.
    Same,
    /// This one.
    Named(String),
}

/// Not a list of origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give same, any, or origins such as https://phone.example.org, separated by commas")]
pub struct NotOrigins;

impl Origins {
    /// Whether a page of this origin may open a WebSocket at the host that its request names.
    pub fn allow(&self, origin: Option<&str>, host: Option<&str>) -> bool {
        let Some(origin) = origin else {
            return true;
        };
        self.0.iter().any(|allowed| match allowed {
            Origin::Any => true,
            Origin::Same => host.is_some_and(|host| {
                let of_page = origin.split_once("://").map_or("", |(_, rest)| rest);
                without_port(of_page).eq_ignore_ascii_case(without_port(host)) && !host.is_empty()
            }),
            Origin::Named(own) => own.eq_ignore_ascii_case(origin),
        })
    }
}

impl Default for Origins {
    /// Pages of the same host.
    fn default() -> Self {
        Self([Origin::Same].into())
    }
}

impl FromStr for Origins {
    type Err = NotOrigins;

    fn from_str(text: &str) -> Result<Self, NotOrigins> {
        let origins = text.split(',').map(|one| match one.trim() {
            "any" => Ok(Origin::Any),
            "same" => Ok(Origin::Same),
            other => named(other),
        });
        origins.collect::<Result<_, _>>().map(Self)
    }
}

impl Display for Origins {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (place, origin) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let text = match origin {
                Origin::Any => "any",
                Origin::Same => "same",
                Origin::Named(name) => name,
            };
            write!(f, "{comma}{text}")?;
        }
        Ok(())
    }
}

/// Scheme, host and port, and nothing else: a browser names no more.
fn named(text: &str) -> Result<Origin, NotOrigins> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (scheme, host) = text.split_once("://").ok_or(NotOrigins)?;
    let is_scheme = ["http", "https"].contains(&scheme);
    let is_host = !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ', '*']);
    match is_scheme && is_host {
        true => Ok(Origin::Named(text.to_owned())),
        false => Err(NotOrigins),
    }
}

/// The host of `host:port`, where an IPv6 address has brackets.
fn without_port(host: &str) -> &str {
    let end = host.rfind(']').map_or(0, |bracket| bracket + 1);
    let port = host[end..].find(':');
    port.map_or(host, |colon| &host[..end + colon])
}
