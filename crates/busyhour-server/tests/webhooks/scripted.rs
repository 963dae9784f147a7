//! An HTTP client that answers when a test says so, in virtual time.

use busyhour_server::server::{HttpAnswer, HttpClient, HttpFailure, HttpListener, HttpRequest};
use hyper::{HeaderMap, StatusCode, body::Bytes};
use std::sync::Mutex;

#[derive(Default)]
pub struct ScriptedClient(Mutex<Vec<(HttpRequest, HttpListener)>>);

impl HttpClient for ScriptedClient {
    fn send(&self, request: HttpRequest, listener: HttpListener) -> Result<(), HttpFailure> {
        self.0.lock().unwrap().push((request, listener));
        Ok(())
    }
}

impl ScriptedClient {
    /// The URLs of the requests that wait for their answer.
    pub fn waiting(&self) -> Vec<String> {
        let waiting = self.0.lock().unwrap();
        waiting.iter().map(|(it, _)| it.url.to_string()).collect()
    }

    /// Ends the first request to this URL, and returns it.
    #[track_caller]
    pub fn end(&self, url: &str, outcome: Result<u16, HttpFailure>) -> HttpRequest {
        self.finish(url, outcome, "")
    }

    /// The same with a body.
    #[track_caller]
    #[allow(dead_code)] // webhooks read no bodies
    pub fn end_with(&self, url: &str, status: u16, body: &'static str) -> HttpRequest {
        self.finish(url, Ok(status), body)
    }

    #[track_caller]
    fn finish(
        &self,
        url: &str,
        outcome: Result<u16, HttpFailure>,
        body: &'static str,
    ) -> HttpRequest {
        let mut waiting = self.0.lock().unwrap();
        let place = waiting.iter().position(|(it, _)| it.url.to_string() == url);
        let (request, listener) = waiting.remove(place.expect("a request"));
        drop(waiting);
        listener(outcome.map(|status| HttpAnswer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from_static(body.as_bytes()),
        }));
        request
    }
}
