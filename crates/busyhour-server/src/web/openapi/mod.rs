//! The interface described: `/api/v1/openapi.json` for programs, `/api/v1/` for people.
//!
//! `operations` is the one list of what there is. The scope of each operation is what the guard asks for, the schemas
//! are made of the structs that are sent. Tests look in the sources for paths that are not in the list, and ask a server
//! for each operation (`tests/web/api.rs`).

mod document;
mod operation;
mod operations;
mod reader_page;
mod schemas;

use crate::web::{
    parameters::{NoParameters, Parameters},
    protocol::version::ROOT,
};
use axum::{
    Router,
    http::header,
    response::{Html, IntoResponse},
    routing::get,
};
use std::sync::LazyLock;

/// The routes of the description.
pub(super) fn router() -> Router {
    let json = |_: Parameters<NoParameters>| async {
        (
            [(header::CONTENT_TYPE, "application/json")],
            DOCUMENT.as_str(),
        )
    };
    Router::new()
        .route(PATH, get(json))
        .route(ROOT, get(reader))
        .route(&format!("{ROOT}/"), get(reader))
}

async fn reader() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Html(PAGE.as_str()))
}

/// Where the description is.
const PATH: &str = "/api/v1/openapi.json";
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'";

static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| document::document(&operations::all()).to_string());
static PAGE: LazyLock<String> = LazyLock::new(|| reader_page::html(&operations::all()));

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, path::Path};

    #[test]
    fn every_schema_that_the_document_names_is_there() {
        let document: serde_json::Value = serde_json::from_str(&DOCUMENT).unwrap();
        assert!(document["paths"].as_object().unwrap().len() > 40);
        let mut names = DOCUMENT.split("\"#/components/schemas/").skip(1);
        let mut names = names.by_ref().map(|rest| rest.split('"').next().unwrap());
        let first = names.next().expect("some are named");
        for name in std::iter::once(first).chain(names) {
            assert!(
                document["components"]["schemas"][name].is_object(),
                "{name}"
            );
        }
    }

    #[test]
    fn every_path_in_the_sources_is_described() {
        let mut found = BTreeSet::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web");
        for part in ["api", "api/operating", "."] {
            for file in fs::read_dir(folder.join(part)).unwrap() {
                let Ok(text) = fs::read_to_string(file.unwrap().path()) else {
                    continue;
                };
                let pieces = text.split(".route(").skip(1);
                found.extend(pieces.filter_map(|piece| {
                    let path = piece.trim_start().strip_prefix('"')?.split('"').next()?;
                    path.starts_with("/api/").then(|| path.to_owned())
                }));
            }
        }
        let described: BTreeSet<_> = operations::all()
            .iter()
            .map(|it| it.path.to_owned())
            .collect();
        let missing: Vec<_> = found.difference(&described).collect();
        assert!(missing.is_empty(), "not described: {missing:?}");
        assert!(found.len() > 30, "{found:?}");
    }
}
