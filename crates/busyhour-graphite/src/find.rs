//! `/metrics/find`, `/metrics/expand` and the lists: places in the tree of paths.

use super::{
    Error,
    error::Limit,
    functions::{FUNCTIONS, Function},
    paths::{
        glob::Pattern,
        index::{Index, Node, merged},
    },
    request::parameters::Parameters,
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Each walks over all paths.
const QUERIES_MAX: usize = 256;

/// The nodes that `query` matches, as `format` wants them.
pub(super) fn find(
    indexes: &[Arc<Index>],
    parameters: &Parameters,
    max: u64,
) -> Result<Value, Error> {
    let query = needed(parameters, "query")?;
    match parameters.get("format").unwrap_or("treejson") {
        "treejson" => {
            let nodes = nodes(indexes, query, max)?;
            Ok(nodes.iter().map(tree_node).collect())
        }
        "completer" => {
            let begun = if query.ends_with('*') {
                query.to_owned()
            } else {
                format!("{query}*")
            };
            let nodes = nodes(indexes, &begun, max)?;
            let metrics: Value = nodes.iter().map(completion).collect();
            Ok(json!({ "metrics": metrics }))
        }
        other => Err(Error::Request(format!(
            "format: `{other}` is not allowed; give one of: treejson, completer"
        ))),
    }
}

/// The paths of nodes that each query matches.
pub(super) fn expand(
    indexes: &[Arc<Index>],
    parameters: &Parameters,
    max: u64,
) -> Result<Value, Error> {
    needed(parameters, "query")?;
    let queries: BTreeSet<&str> = parameters.all("query").collect();
    if queries.len() > QUERIES_MAX {
        let what = format!(
            "{} queries (at most {QUERIES_MAX}); ask for fewer at once",
            queries.len()
        );
        return Err(Error::TooLarge(Limit::Series, what));
    }
    let leaves_only = parameters.flag("leavesOnly");
    let mut by_query = Map::new();
    let mut all = Vec::new();
    for query in queries {
        let nodes = nodes(indexes, query, max.saturating_sub(all.len() as u64))?.into_iter();
        let nodes = nodes.filter(|node| node.is_leaf || !leaves_only);
        let paths: Vec<String> = nodes.map(|node| node.path).collect();
        all.extend_from_slice(&paths);
        by_query.insert(query.to_owned(), paths.into());
    }
    if parameters.flag("groupByExpr") {
        return Ok(json!({ "results": by_query }));
    }
    all.sort_unstable();
    all.dedup();
    Ok(json!({ "results": all }))
}

/// Every path.
pub(super) fn list(indexes: &[Arc<Index>]) -> Value {
    let paths = indexes.iter().flat_map(|index| index.paths());
    paths.map(|path| Value::from(&**path)).collect()
}

/// Every function, as editors want them listed.
pub(super) fn functions() -> Value {
    let with_name = |function: &'static Function| {
        let names = std::iter::once(function.name).chain(function.aliases.iter().copied());
        names.map(|name| (name.to_owned(), described(function, name)))
    };
    Value::Object(FUNCTIONS.iter().flat_map(with_name).collect())
}

fn described(function: &Function, name: &str) -> Value {
    let parameters = function.parameters.iter();
    let signature: Vec<String> = parameters
        .clone()
        .map(
            |parameter| match (parameter.is_multiple, parameter.is_required) {
                (true, _) => format!("*{}", parameter.name),
                (false, true) => parameter.name.to_owned(),
                (false, false) => format!("{}=None", parameter.name),
            },
        )
        .collect();
    let described = |parameter: &super::functions::Parameter| {
        json!({
            "name": parameter.name,
            "type": parameter.kind.name(),
            "required": parameter.is_required,
            "multiple": parameter.is_multiple,
        })
    };
    json!({
        "name": name,
        "function": format!("{name}({})", signature.join(", ")),
        "description": function.help,
        "module": "graphite.render.functions",
        "group": function.group,
        "params": parameters.map(described).collect::<Value>(),
    })
}

fn nodes(indexes: &[Arc<Index>], query: &str, max: u64) -> Result<Vec<Node>, Error> {
    let mut nodes = Vec::new();
    for pattern in Pattern::alternatives(query)? {
        for index in indexes {
            nodes.append(&mut index.nodes(&pattern));
        }
    }
    let nodes = merged(nodes);
    if nodes.len() as u64 <= max {
        return Ok(nodes);
    }
    let found = nodes.len();
    let what = format!("{found} nodes match `{query}` (at most {max}); use a narrower pattern");
    Err(Error::TooLarge(Limit::Series, what))
}

/// A node that is a leaf and a branch is a branch here: it can be opened.
fn tree_node(node: &Node) -> Value {
    let is_open = u8::from(node.is_branch);
    json!({
        "text": node.name(),
        "id": node.path,
        "allowChildren": is_open,
        "expandable": is_open,
        "leaf": u8::from(!node.is_branch),
        "context": {},
    })
}

fn completion(node: &Node) -> Value {
    let dot = if node.is_branch { "." } else { "" };
    json!({
        "path": format!("{}{dot}", node.path),
        "name": node.name(),
        "is_leaf": if node.is_branch { "0" } else { "1" },
    })
}

fn needed<'a>(parameters: &'a Parameters, name: &str) -> Result<&'a str, Error> {
    parameters.get(name).ok_or_else(|| {
        Error::Request(format!(
            "{name} is missing; give a pattern such as busyhour.*"
        ))
    })
}
