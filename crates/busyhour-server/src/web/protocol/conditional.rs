//! Changes of what the client has seen, and of nothing else (RFC 9110 §13.1.1).
//!
//! A change with If-Match reads what is there, as GET does, and goes on if its tag is one of those that the client names. The
//! changes of one path by HTTP wait for each other, so nothing is changed between the look and the change. Programs that write to
//! the database themselves do not wait.

use super::{
    etag::{TAGGED_LEN_MAX, of_bytes},
    version::ROOT,
};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{Extensions, HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use foldhash::quality::RandomState;
use std::{array, hash::BuildHasher, sync::Arc};
use tokio::sync::{Mutex, MutexGuard};

/// The routes, whose changes may have a condition. Each answer to PUT and PATCH has the tag of what is there then.
pub(in crate::web) fn conditional(routes: Router) -> Router {
    // So `Next` is all routes, and a change can read by GET.
    let outer = Router::new().fallback_service(routes);
    outer.layer(middleware::from_fn_with_state(
        Arc::new(ChangeOrder::new()),
        check,
    ))
}

/// Lets the changes of one path wait for each other; some paths share a place.
struct ChangeOrder {
    places: [Mutex<()>; PLACES],
    hasher: RandomState,
}

impl ChangeOrder {
    fn new() -> Self {
        Self {
            places: array::from_fn(|_| Mutex::new(())),
            hasher: RandomState::default(),
        }
    }

    async fn turn(&self, path: &str) -> MutexGuard<'_, ()> {
        let place = self.hasher.hash_one(path) as usize % PLACES;
        self.places[place].lock().await
    }
}

async fn check(State(order): State<Arc<ChangeOrder>>, request: Request, next: Next) -> Response {
    let is_change = CHANGES.contains(request.method());
    let wanted = request.headers().get(header::IF_MATCH).cloned();
    let is_ours = request.uri().path().starts_with(ROOT);
    if !is_ours || !is_change && (wanted.is_none() || request.method().is_safe()) {
        return next.run(request).await;
    }
    let _turn = match is_change {
        true => Some(order.turn(request.uri().path()).await),
        false => None,
    };
    let look = ReadBefore::of(&request);
    if let Some(wanted) = wanted {
        let now = tag(next.clone().run(look.request()).await).await;
        if !now.as_deref().is_some_and(|now| names(&wanted, now)) {
            return changed_since(now);
        }
    }
    let is_told = matches!(*request.method(), Method::PUT | Method::PATCH);
    let mut response = next.clone().run(request).await;
    if is_told
        && response.status().is_success()
        && let Some(tag) = tag(next.run(look.request()).await).await
        && let Ok(tag) = HeaderValue::try_from(tag)
    {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// What reads what another request changes, by the same visitor.
struct ReadBefore {
    path: Uri,
    extensions: Extensions,
}

impl ReadBefore {
    fn of(request: &Request) -> Self {
        Self {
            path: request.uri().path().parse().unwrap_or_default(),
            extensions: request.extensions().clone(),
        }
    }

    fn request(&self) -> Request {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = self.path.clone();
        *request.extensions_mut() = self.extensions.clone();
        request
    }
}

/// The tag of what GET gives; `None` if it gives nothing.
async fn tag(answer: Response) -> Option<String> {
    if answer.status() != StatusCode::OK {
        return None;
    }
    if let Some(tag) = answer.headers().get(header::ETAG) {
        return tag.to_str().ok().map(str::to_owned);
    }
    let bytes = to_bytes(answer.into_body(), TAGGED_LEN_MAX).await.ok()?;
    Some(of_bytes(&bytes))
}

fn changed_since(now: Option<String>) -> Response {
    let reason = match now {
        Some(now) => format!("it has changed since it was read: its ETag is {now} now; read it again\n"),
        None => "there is nothing that GET reads under this path, so If-Match is never true: leave the header out, or read a list of what there is\n".to_owned(),
    };
    (StatusCode::PRECONDITION_FAILED, reason).into_response()
}

/// Whether a header If-Match has the tag, compared strongly.
fn names(wanted: &HeaderValue, tag: &str) -> bool {
    let wanted = wanted.to_str().unwrap_or_default();
    let mut tags = wanted.split(',').map(str::trim);
    tags.any(|one| one == tag || one == "*")
}

const CHANGES: [Method; 3] = [Method::PUT, Method::PATCH, Method::DELETE];
const PLACES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_strongly() {
        let named = |text: &'static str| names(&HeaderValue::from_static(text), "\"a\"");
        assert!(named("\"a\"") && named("\"b\", \"a\"") && named("*"));
        assert!(!named("W/\"a\"") && !named("\"b\"") && !named(""));
    }
}
