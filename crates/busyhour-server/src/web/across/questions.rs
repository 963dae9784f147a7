//! What other nodes ask this one.

use super::{
    OfNode,
    asked_request::AskedRequest,
    node_request::{NodeAnswer, NodeRequest},
};
use crate::{
    server::NodeQuestion,
    web::{Backend, domain_scope::DomainScope},
};
use axum::{Router, extract::Request, http::StatusCode};
use std::sync::Arc;
use tokio::sync::{
    Semaphore,
    mpsc::{self, error::TrySendError},
};
use tower_service::Service;

/// Answers other nodes by these routes, so many questions at a time, until the thread of HTTP ends.
pub(super) fn answer(backend: &dyn Backend, routes: Router) {
    let (asked, mut questions) = mpsc::channel::<NodeQuestion>(WAITING_MAX);
    backend.hear_nodes(Box::new(move |question| {
        let refused = asked.try_send(question);
        if let Err(TrySendError::Full(question) | TrySendError::Closed(question)) = refused {
            question.answer(busy());
        }
    }));
    let places = Arc::new(Semaphore::new(RUNNING_MAX));
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            let routes = routes.clone();
            tokio::spawn(async move {
                let answer = answer_to(routes, &question.text).await;
                question.answer(answer.bytes());
                drop(place);
            });
        }
    });
}

async fn answer_to(mut routes: Router, question: &[u8]) -> NodeAnswer {
    let Some(request) = request_of(question) else {
        return NodeAnswer::refusal(StatusCode::NOT_IMPLEMENTED, NOT_UNDERSTOOD);
    };
    match routes.call(request).await {
        Ok(response) => NodeAnswer::of(response).await,
        Err(never) => match never {},
    }
}

/// A request, if it is one that nodes ask each other.
fn request_of(question: &[u8]) -> Option<Request> {
    let asked = NodeRequest::parse(question)?;
    let mut request = asked.request()?;
    AskedRequest::of(request.method(), request.uri())?;
    let scope = DomainScope::new(asked.domain.as_deref());
    request.extensions_mut().insert(scope);
    request.extensions_mut().insert(OfNode);
    Some(request)
}

fn busy() -> Vec<u8> {
    NodeAnswer::refusal(StatusCode::SERVICE_UNAVAILABLE, BUSY).bytes()
}

const WAITING_MAX: usize = 256;
const RUNNING_MAX: usize = 16;
const BUSY: &str = "the node has too much to do, or ends: try again\n";
const NOT_UNDERSTOOD: &str = "the node has another version and does not understand this one\n";
