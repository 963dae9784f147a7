//! The description as a page.

use super::operation::Operation;
use crate::web::{Scope, access::needed};
use std::fmt::Write;

/// A page without a script.
pub(super) fn html(operations: &[Operation]) -> String {
    let mut out = String::from(HEAD);
    let mut tags: Vec<&str> = Vec::new();
    for operation in operations {
        if !tags.contains(&operation.tag) {
            tags.push(operation.tag);
        }
    }
    out.push_str("<nav aria-label=\"Sections\"><ul>");
    for tag in &tags {
        // A string takes everything.
        let _ = write!(out, "<li><a href=\"#{}\">{tag}</a></li>", anchor(tag));
    }
    out.push_str("</ul></nav><main id=\"main\">");
    out.push_str(ABOUT);
    for tag in tags {
        let _ = write!(out, "<h2 id=\"{}\">{tag}</h2>", anchor(tag));
        for operation in operations.iter().filter(|operation| operation.tag == tag) {
            one(&mut out, operation);
        }
    }
    out.push_str("</main></body></html>\n");
    out
}

fn one(out: &mut String, operation: &Operation) {
    let method = operation.method.as_str();
    let scope = match needed(&operation.method, operation.path) {
        Scope::Read => "read",
        Scope::Write => "write",
    };
    let _ = write!(
        out,
        "<section class=\"panel\"><h3><span class=\"method {lower}\">{method}</span> <code>{path}</code></h3>\
         <p>{summary}. <span class=\"tag\">scope {scope}</span></p>",
        lower = method.to_lowercase(),
        path = operation.path,
        summary = marked(operation.summary),
    );
    if !operation.parameters.is_empty() {
        out.push_str(
            "<table><thead><tr><th>parameter</th><th>in</th><th>what</th></tr></thead><tbody>",
        );
        for one in &operation.parameters {
            let place = if one.is_path { "path" } else { "query" };
            let _ = write!(
                out,
                "<tr><td><code>{}</code></td><td>{place}</td><td>{}{}</td></tr>",
                one.name,
                marked(one.about),
                values(&one.schema),
            );
        }
        out.push_str("</tbody></table>");
    }
    out.push_str("<table><thead><tr><th>status</th><th>meaning</th></tr></thead><tbody>");
    for answer in &operation.answers {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td></tr>",
            answer.status,
            marked(answer.about)
        );
    }
    let data = operation
        .body
        .as_ref()
        .map_or("", |_| " -H 'Content-Type: application/json' -d '{…}'");
    let token = if scope == "write" {
        " -H 'Authorization: Bearer TOKEN'"
    } else {
        ""
    };
    let verb = if method == "GET" {
        String::new()
    } else {
        format!(" -X {method}")
    };
    let _ = write!(
        out,
        "</tbody></table><pre tabindex=\"0\" aria-label=\"{method} {path} with curl\">curl{verb}{token} 'http://127.0.0.1:8080{path}'{data}</pre></section>",
        path = operation.path,
    );
}

/// The values that a parameter may have, if it is one of some.
fn values(schema: &serde_json::Value) -> String {
    let names = schema["enum"].as_array().into_iter().flatten();
    let names: Vec<_> = names
        .filter_map(|name| name.as_str())
        .map(|name| format!("<code>{name}</code>"))
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(": {}", names.join(", ")),
    }
}

/// Words between backticks are code; there is nothing else to mark.
fn marked(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let mut is_code = false;
    let pieces = escaped.split('`').map(|piece| {
        let marked = if is_code {
            format!("<code>{piece}</code>")
        } else {
            piece.to_owned()
        };
        is_code = !is_code;
        marked
    });
    pieces.collect()
}

fn anchor(tag: &str) -> String {
    tag.to_lowercase().replace([',', ' '], "-")
}

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <meta name=\"color-scheme\" content=\"light dark\"><title>Busyhour: the HTTP interface</title>\
    <link rel=\"stylesheet\" href=\"/assets/style.css\"></head><body class=\"reader\">\
    <header class=\"bar\"><a class=\"brand\" href=\"/\">Busyhour</a><h1>HTTP interface</h1></header>";
const ABOUT: &str = "<p>Programs find the same in <a href=\"/api/v1/openapi.json\">openapi.json</a>. Reading from the machine \
    itself needs no token; from elsewhere it needs one of scope <code>read</code>, and changing needs one of scope \
    <code>write</code>: <code>busyhour token add NAME --scope write</code>. Each request may also be refused with 400, 401, \
    403, 408, 421, 429 or 503; refusals say what is wrong and what to do (RFC 9457).</p>";
