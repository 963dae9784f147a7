//! `/api/v1/…` is the interface. `/api/…` without a version is what it was before there were versions: the same, but
//! refusals are lines of text.

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, Uri, header},
    middleware::{self, Next},
    response::Response,
};

/// Marks a request whose path has no version.
#[derive(Debug, Clone, Copy)]
pub(in crate::web) struct Unversioned;

/// The routes, which are found without a version too.
pub(in crate::web) fn versioned(routes: Router) -> Router {
    let outer = Router::new().fallback_service(routes);
    outer.layer(middleware::from_fn(find_version))
}

async fn find_version(mut request: Request, next: Next) -> Response {
    let Some(uri) = with_version(request.uri()) else {
        return next.run(request).await;
    };
    let link = format!("<{}>; rel=\"successor-version\"", uri.path());
    *request.uri_mut() = uri;
    request.extensions_mut().insert(Unversioned);
    let mut response = next.run(request).await;
    if let Ok(link) = HeaderValue::try_from(link) {
        response.headers_mut().append(header::LINK, link);
    }
    response
}

/// The path with the version that it lacks.
fn with_version(uri: &Uri) -> Option<Uri> {
    let rest = uri.path().strip_prefix("/api/")?;
    let first = rest.split('/').next().unwrap_or_default();
    let number = first.strip_prefix('v').unwrap_or_default();
    let has_version = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if rest.is_empty() || has_version {
        return None;
    }
    let query = uri
        .query()
        .map_or(String::new(), |query| format!("?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{ROOT}/{rest}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Where the paths of the interface begin.
pub(in crate::web) const ROOT: &str = "/api/v1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_a_version_is_found_and_others_stay() {
        let found = |path: &str| with_version(&path.parse().unwrap()).map(|uri| uri.to_string());
        for (old, new) in [
            ("/api/stats", "/api/v1/stats"),
            (
                "/api/bindings?limit=2&after=a",
                "/api/v1/bindings?limit=2&after=a",
            ),
            ("/api/hints/v", "/api/v1/hints/v"),
            ("/api/view", "/api/v1/view"),
            (
                "/api/accounts/alice%40a.example",
                "/api/v1/accounts/alice%40a.example",
            ),
        ] {
            assert_eq!(found(old).as_deref(), Some(new));
        }
        for other in [
            "/api/v1/stats",
            "/api/v2/stats",
            "/api/",
            "/api",
            "/",
            "/metrics",
            "/apis/x",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
