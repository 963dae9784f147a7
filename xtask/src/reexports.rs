//! Where a name comes from: follows the imports of a crate's root and of its modules to
//! the module that has the item.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    rules::LAYERS,
    source::Source,
    tidy::{RustFile, Tree},
};

/// The modules of one crate, by their paths from its root.
pub struct Modules<'a>(BTreeMap<Vec<String>, &'a Source>);

impl<'a> Modules<'a> {
    /// The modules of the crate whose source is `folder`, or around it.
    pub fn around(tree: &'a Tree, folder: &str) -> Self {
        let source = crate_source(folder).unwrap_or(folder);
        let mut modules = BTreeMap::new();
        for file in &tree.rust {
            let is_here = file.path.strip_prefix(source);
            if is_here.is_some_and(|inside| inside.starts_with('/')) {
                // A program beside a library has a root of its own, without modules.
                let is_program = file.path.ends_with("/main.rs");
                let path = module_path(file);
                if !is_program || !modules.contains_key(&path) {
                    modules.insert(path, &file.source);
                }
            }
        }
        Self(modules)
    }

    /// The path with the imports followed that are in modules of fewer than
    /// `depth` words: 1 follows those of the crate's root, 2 also those of the
    /// modules below it.
    pub fn resolve(&self, path: &[String], depth: usize) -> Vec<String> {
        let mut path = path.to_vec();
        for _ in 0..IMPORTS_IN_A_ROW_MAX {
            match self.follow(&path, depth) {
                Some(next) => path = next,
                None => break,
            }
        }
        path
    }

    fn follow(&self, path: &[String], depth: usize) -> Option<Vec<String>> {
        (0..depth.min(path.len())).find_map(|len| {
            let (module, rest) = path.split_at(len);
            let target = self.import(module, &rest[0], IMPORTS_IN_A_ROW_MAX)?;
            Some([&target, &rest[1..]].concat())
        })
    }

    /// What `name` stands for in a module that imports it.
    fn import(&self, module: &[String], name: &String, steps: usize) -> Option<Vec<String>> {
        let source = self.0.get(module)?;
        if self.defines(module, name) {
            return None;
        }
        let mut imports = source.imports.iter();
        if let Some(import) = imports.find(|import| import.name.as_ref() == Some(name)) {
            return Some(from_root(module, &import.path));
        }
        let globs = source.imports.iter().filter(|import| import.name.is_none());
        let mut modules = globs.map(|glob| from_root(module, &glob.path));
        let has = |it: &Vec<String>| {
            steps > 0 && (self.defines(it, name) || self.import(it, name, steps - 1).is_some())
        };
        let found = modules.find(has)?;
        Some([&found[..], std::slice::from_ref(name)].concat())
    }

    /// Whether the item is the module's own.
    fn defines(&self, module: &[String], name: &String) -> bool {
        let below = [module, std::slice::from_ref(name)].concat();
        let source = self.0.get(module);
        self.0.contains_key(&below) || source.is_some_and(|source| source.items.contains(name))
    }
}

/// No crate has longer chains; imports in a circle end here.
const IMPORTS_IN_A_ROW_MAX: usize = 8;

/// The paths that a file names, from the root of its crate, with the line of each.
pub fn known_paths(file: &RustFile) -> BTreeSet<(Vec<String>, usize)> {
    let module = module_path(file);
    let paths = file.source.paths.iter();
    paths
        .map(|(path, line)| (from_root(&module, path), *line))
        .collect()
}

fn module_path(file: &RustFile) -> Vec<String> {
    let source = crate_source(&file.path).unwrap_or("");
    let inside = file.path.strip_prefix(source).unwrap_or(&file.path);
    let inside = inside.trim_start_matches('/').trim_end_matches(".rs");
    let mut module: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if module
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
    {
        module.pop();
    }
    module
}

fn crate_source(path: &str) -> Option<&'static str> {
    let is_inside = |source: &&str| {
        let inside = path.strip_prefix(source);
        inside.is_some_and(|inside| inside.is_empty() || inside.starts_with('/'))
    };
    LAYERS.iter().map(|layers| layers.source).find(is_inside)
}

fn from_root(module: &[String], path: &[String]) -> Vec<String> {
    let mut resolved = module.to_vec();
    for part in path {
        match part.as_str() {
            "crate" => resolved.clear(),
            "super" => _ = resolved.pop(),
            "self" => {}
            _ => resolved.push(part.clone()),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(files: &[(&str, &str)], path: &str, depth: usize) -> String {
        let mut tree = Tree::default();
        for (name, text) in files {
            let name = format!("crates/busyhour/src/{name}");
            tree.add(name, (*text).to_owned());
        }
        let modules = Modules::around(&tree, "crates/busyhour/src");
        let path: Vec<_> = path.split("::").map(str::to_owned).collect();
        modules.resolve(&path, depth).join("::")
    }

    #[test]
    fn a_name_at_the_root_leads_to_its_module() {
        for root in [
            "pub use pool::worker::Worker;",
            "pub(crate) use crate::pool::worker::{Other, Worker};",
            "use self::pool::worker::Inner as Worker;",
            "pub use pool::*;",
        ] {
            let files = [("lib.rs", root), ("pool/mod.rs", "pub struct Worker;")];
            let found = resolved(&files, "Worker::new", 1);
            assert!(found.starts_with("pool::"), "{root}: {found}");
        }
    }

    #[test]
    fn a_name_is_followed_from_module_to_module() {
        let files = [
            ("lib.rs", "pub use pool::*;"),
            ("pool/mod.rs", "pub use worker::*;"),
            ("pool/worker/mod.rs", "mod slot; pub use slot::Worker;"),
        ];
        assert_eq!(resolved(&files, "Worker", 1), "pool::Worker");
        assert_eq!(resolved(&files, "Worker", 2), "pool::worker::Worker");
        assert_eq!(resolved(&files, "Worker", 3), "pool::worker::slot::Worker");
        assert_eq!(resolved(&files, "Unknown", 3), "Unknown");
    }

    #[test]
    fn a_module_and_an_own_item_are_not_followed_and_a_circle_ends() {
        let files = [
            (
                "lib.rs",
                "pub use bus::pool; pub use bus::Own; pub struct Own;",
            ),
            ("pool.rs", "pub use crate::bus::Turn;"),
            ("bus.rs", "pub use crate::pool::Turn;"),
        ];
        assert_eq!(resolved(&files, "pool::Task", 1), "pool::Task");
        assert_eq!(resolved(&files, "Own", 1), "Own");
        assert!(resolved(&files, "bus::Turn", 2).ends_with("::Turn"));
    }
}
