use crate::{Error, paths::glob::Pattern};
use std::sync::Arc;

/// Every path of a source, in order, so that all that begin alike lie together.
#[derive(Debug, Default)]
pub struct Index {
    paths: Box<[Arc<str>]>,
}

/// A place in the tree that paths make up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) path: String,
    /// Whether it has values of its own.
    pub(crate) is_leaf: bool,
    /// Whether others lie below it.
    pub(crate) is_branch: bool,
}

impl Index {
    /// The index of `paths`, in any order.
    pub fn new(paths: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut paths: Vec<Arc<str>> = paths.into_iter().collect();
        paths.sort_unstable();
        paths.dedup();
        Self {
            paths: paths.into_boxed_slice(),
        }
    }

    /// All paths, in order.
    pub fn paths(&self) -> &[Arc<str>] {
        &self.paths
    }

    /// The paths that `pattern` matches wholly.
    pub(crate) fn leaves(&self, pattern: &Pattern) -> Vec<Arc<str>> {
        let candidates = self.beginning_with(pattern.literal_prefix());
        let matching = candidates.iter().filter(|path| pattern.matches(path));
        matching.cloned().collect()
    }

    /// The nodes at the depth of `pattern` that it matches, in order.
    pub(crate) fn nodes(&self, pattern: &Pattern) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for path in self.beginning_with(pattern.literal_prefix()) {
            let Some((head, is_leaf)) = cut(path, pattern.depth()) else {
                continue;
            };
            if let Some(last) = nodes.last_mut().filter(|last| last.path == head) {
                last.is_leaf |= is_leaf;
                last.is_branch |= !is_leaf;
            } else if pattern.matches(head) {
                nodes.push(Node::new(head, is_leaf));
            }
        }
        merged(nodes)
    }

    /// Binary search: the paths that begin with `prefix` lie together.
    fn beginning_with(&self, prefix: &str) -> &[Arc<str>] {
        let first = self.paths.partition_point(|path| &**path < prefix);
        let rest = &self.paths[first..];
        let count = rest.partition_point(|path| path.starts_with(prefix));
        &rest[..count]
    }
}

impl Node {
    fn new(path: &str, is_leaf: bool) -> Self {
        Self {
            path: path.to_owned(),
            is_leaf,
            is_branch: !is_leaf,
        }
    }

    /// The last part of its path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }
}

/// The same node of several patterns or sources, once. `a.b` and what lies below
/// it may also be apart in an index: `a.b-c` sorts between the two.
pub(crate) fn merged(mut nodes: Vec<Node>) -> Vec<Node> {
    nodes.sort_unstable();
    nodes.dedup_by(|later, first| {
        let is_same = later.path == first.path;
        if is_same {
            first.is_leaf |= later.is_leaf;
            first.is_branch |= later.is_branch;
        }
        is_same
    });
    nodes
}

/// The first `depth` nodes of a path, and whether that is all of it.
fn cut(path: &str, depth: usize) -> Option<(&str, bool)> {
    let mut dots = path.match_indices('.').map(|(at, _)| at).skip(depth - 1);
    match dots.next() {
        Some(at) => Some((&path[..at], false)),
        None => (path.matches('.').count() + 1 == depth).then_some((path, true)),
    }
}

/// The paths of an index that any alternative of `expression` matches.
pub(crate) fn matching(index: &Index, expression: &str) -> Result<Vec<Arc<str>>, Error> {
    let mut paths = Vec::new();
    for pattern in Pattern::alternatives(expression)? {
        paths.append(&mut index.leaves(&pattern));
    }
    paths.sort_unstable();
    paths.dedup();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let paths = ["a.b", "a.b.c", "a.b-c", "a.d.e", "z"];
        Index::new(paths.map(Arc::from))
    }

    fn nodes(pattern: &str) -> Vec<(String, bool, bool)> {
        let pattern = &Pattern::alternatives(pattern).unwrap()[0];
        let nodes = index().nodes(pattern).into_iter();
        nodes
            .map(|node| (node.path, node.is_leaf, node.is_branch))
            .collect()
    }

    #[test]
    fn a_node_may_have_values_and_others_below_it() {
        let found = nodes("a.*");
        let expected = [
            ("a.b", true, true),
            ("a.b-c", true, false),
            ("a.d", false, true),
        ];
        assert_eq!(
            found,
            expected.map(|(path, leaf, branch)| (path.into(), leaf, branch))
        );
        assert_eq!(nodes("*").len(), 2);
        assert!(nodes("a.x.*").is_empty());
    }

    #[test]
    fn leaves_match_as_a_whole() {
        let found = matching(&index(), "a.{b,d.e}").unwrap();
        assert_eq!(found, ["a.b", "a.d.e"].map(Arc::from));
        assert!(matching(&index(), "a").unwrap().is_empty());
    }
}
