//! The OpenAPI document.

use super::{
    operation::{Operation, OperationAnswer},
    schemas::Schemas,
};
use crate::web::{Scope, access::needed, protocol::problem::CONTENT_TYPE};
use axum::http::Method;
use serde_json::{Map, Value, json};

/// OpenAPI 3.1.
pub(super) fn document(operations: &[Operation]) -> Value {
    let mut paths = Map::new();
    for operation in operations {
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method.as_str().to_lowercase()] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Busyhour",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": Schemas::all(),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": TOKENS },
            },
        },
    })
}

fn described(operation: &Operation) -> Value {
    let scope = match needed(&operation.method, operation.path) {
        Scope::Read => "read",
        Scope::Write => "write",
    };
    let parameters: Vec<_> = operation
        .parameters
        .iter()
        .map(|one| {
            json!({
                "name": one.name,
                "in": if one.is_path { "path" } else { "query" },
                "required": one.is_required,
                "description": one.about,
                "schema": one.schema,
            })
        })
        .collect();
    let mut described = json!({
        "operationId": id(operation),
        "tags": [operation.tag],
        "summary": operation.summary,
        "security": [{ "token": [scope] }],
        "parameters": parameters,
        "responses": answers(operation),
    });
    if scope == "read" {
        // From the machine itself reading needs no token.
        described["security"] = json!([{ "token": [scope] }, {}]);
    }
    if let Some((schema, is_required)) = &operation.body {
        described["requestBody"] = json!({
            "required": is_required,
            "content": { "application/json": { "schema": schema } },
        });
    }
    described
}

/// Every operation may be refused for these reasons.
const ALWAYS: [(u16, &str); 7] = [
    (400, "A parameter or the body is wrong"),
    (401, "It needs a token, or the token is unknown"),
    (403, "The token does not allow it"),
    (408, "The body did not come in time"),
    (421, "The host of the request is not this server"),
    (
        429,
        "Too many requests in a second; Retry-After says when to come again",
    ),
    (503, "The server has too much to do, cannot write, or ends"),
];

fn answers(operation: &Operation) -> Value {
    let mut answers = Map::new();
    for one in &operation.answers {
        let answer = answers
            .entry(one.status.to_string())
            .or_insert_with(|| answer(one.about));
        add_content(answer, one);
    }
    let is_conditional = [Method::PUT, Method::PATCH, Method::DELETE].contains(&operation.method);
    let conditional = is_conditional.then_some((412, "It has changed since If-Match read it"));
    for (status, about) in ALWAYS.into_iter().chain(conditional) {
        answers.entry(status.to_string()).or_insert_with(|| {
            let mut answer = answer(about);
            answer["content"] =
                json!({ CONTENT_TYPE: { "schema": Schemas::reference("Problem") } });
            answer
        });
    }
    Value::Object(answers)
}

fn answer(about: &str) -> Value {
    json!({ "description": about })
}

fn add_content(answer: &mut Value, one: &OperationAnswer) {
    if let Some((kind, schema)) = &one.content {
        answer["content"][*kind] = json!({ "schema": schema });
    }
}

/// `get_bindings_aor`: what generated clients call the function.
fn id(operation: &Operation) -> String {
    let path = operation
        .path
        .trim_start_matches(crate::web::protocol::version::ROOT);
    let words = path
        .split(['/', '{', '}', '-', '.'])
        .filter(|word| !word.is_empty());
    let method = operation.method.as_str().to_lowercase();
    std::iter::once(method.as_str())
        .chain(words)
        .collect::<Vec<_>>()
        .join("_")
}

const ABOUT: &str = "Reads and changes a Busyhour server. Reading from the machine itself needs no token; from elsewhere it \
    needs one of scope `read`, and changing needs one of scope `write`, as `Authorization: Bearer TOKEN` \
    (`busyhour token add NAME`). A token for one domain reaches accounts, bindings, devices, mailboxes, hints, changes and \
    failures of that domain alone. Refusals are problems (RFC 9457). Answers in JSON have an ETag: with If-None-Match \
    the server answers 304 if nothing has changed, and with If-Match PUT, PATCH and DELETE change only what still has that ETag (412). Lists have pages: pass `next` as `after`. Within version 1, fields and \
    paths are added, and none is removed or changes its meaning.";
const TOKENS: &str = "A token of scope `read`, or of `write`, which includes it.";
