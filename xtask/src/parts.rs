//! The folders of a module: which folders each one uses, and how many files each one
//! contains.

use std::collections::BTreeMap;

use crate::{
    reexports::{Modules, known_paths},
    rules::{Arrow, FOLDER_FILES_MAX, LAYERS, PARTS, Parts},
    tidy::Tree,
};

/// Checks the folders inside of crates; returns complaints.
pub fn check_parts(tree: &Tree) -> Vec<String> {
    let mut complaints = crowded_folders(tree);
    for parts in PARTS {
        let used = used_by_parts(tree, parts);
        complaints.extend(check_uses(parts, &used));
        complaints.extend(unused(parts, &used));
        let readme = format!("{}/README.md", parts.folder);
        complaints.extend(check_table(tree, &readme, parts.arrows));
    }
    complaints
}

/// A part that uses another one, and the first place where it does. A part is a
/// folder of the module; the files beside the folders are the module itself.
type Used = BTreeMap<(String, String), String>;

fn used_by_parts(tree: &Tree, parts: &Parts) -> Used {
    let mut used = Used::new();
    let modules = Modules::around(tree, parts.folder);
    for file in &tree.rust {
        let inside = file.path.strip_prefix(parts.folder);
        let inside = inside.and_then(|inside| inside.strip_prefix('/'));
        let Some((part, _)) = inside.and_then(|inside| inside.split_once('/')) else {
            continue;
        };
        for (path, line) in known_paths(file) {
            let path = modules.resolve(&path, 1);
            if path.len() < 2 || path[0] != parts.module() {
                continue;
            }
            let other = parts.part_of(&modules.resolve(&path, 2));
            let key = (part.to_owned(), other.to_owned());
            used.entry(key).or_insert(format!("{}:{line}", file.path));
        }
        let key = (part.to_owned(), part.to_owned());
        used.entry(key).or_insert(file.path.clone());
    }
    used
}

impl Parts {
    /// The part that a path leads into; the module itself if it leads to a file
    /// beside the parts, or out of the module.
    fn part_of(&self, path: &[String]) -> &str {
        let names = |arrow: &&Arrow| path.len() > 1 && arrow.module == path[1];
        let part = self.arrows.iter().find(names);
        match part {
            Some(part) if path[0] == self.module() => part.module,
            _ => self.module(),
        }
    }
}

fn check_uses(parts: &Parts, used: &Used) -> Vec<String> {
    let mut complaints = Vec::new();
    for ((part, other), place) in used {
        let module = parts.module();
        match parts.arrows.iter().find(|arrow| arrow.module == part) {
            None => complaints.push(format!(
                "{place}: part `{part}` of `{module}` has no arrows in xtask/src/rules.rs"
            )),
            Some(arrow) if part != other && !arrow.may_use.contains(&other.as_str()) => {
                complaints.push(format!(
                    "{place}: part `{part}` of `{module}` may not know `{other}`"
                ));
            }
            Some(_) => {}
        }
    }
    complaints
}

fn unused(parts: &Parts, used: &Used) -> Vec<String> {
    let arrows = parts.arrows.iter();
    let pairs = arrows.flat_map(|arrow| arrow.may_use.iter().map(move |it| (arrow.module, *it)));
    pairs
        .filter(|(part, other)| !used.contains_key(&((*part).to_owned(), (*other).to_owned())))
        .map(|(part, other)| {
            format!(
                "xtask/src/rules.rs: part `{part}` of `{}` may know `{other}` and does not: take the arrow out",
                parts.module()
            )
        })
        .collect()
}

/// Checks that the rows of a README's table `| part | what | knows |` agree with the
/// arrows.
fn check_table(tree: &Tree, path: &str, arrows: &[Arrow]) -> Vec<String> {
    let Some(page) = tree.text.iter().find(|file| file.path == path) else {
        return vec![format!("{path}: there is none")];
    };
    let rows = page.text.lines();
    let rows: Vec<Vec<&str>> = rows
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let knows = |module: &str| {
        let name = format!("`{module}`");
        let row = rows
            .iter()
            .find(|cells| cells.len() == 5 && cells[1].split(", ").any(|one| one == name))?;
        Some(row[3])
    };
    let mut complaints = Vec::new();
    for arrow in arrows {
        let expected = match arrow.may_use {
            [] => "–".to_owned(),
            modules => modules.join(", "),
        };
        match knows(arrow.module) {
            Some(found) if found == expected => {}
            Some(found) => complaints.push(format!(
                "{path}: `{}` knows `{found}`; xtask/src/rules.rs says `{expected}`",
                arrow.module
            )),
            None => complaints.push(format!("{path}: `{}` has no row", arrow.module)),
        }
    }
    complaints
}

fn crowded_folders(tree: &Tree) -> Vec<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    let is_source = |folder: &str| {
        LAYERS
            .iter()
            .any(|layers| folder.starts_with(layers.source))
    };
    let folders = tree
        .rust
        .iter()
        .filter_map(|file| file.path.rsplit_once('/'));
    for (folder, _) in folders.filter(|(folder, _)| is_source(folder)) {
        *counts.entry(folder).or_default() += 1;
    }
    let is_full = |count: usize| count > FOLDER_FILES_MAX;
    let full = counts.iter().filter(|(_, count)| is_full(**count));
    let complaint = |(folder, count)| {
        format!(
            "{folder}: {count} files; at most {FOLDER_FILES_MAX}: give its parts folders of their own"
        )
    };
    full.map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::arrow;

    const POOL: Parts = Parts {
        folder: "crates/busyhour/src/pool",
        arrows: &[arrow("queue", &[]), arrow("worker", &["queue", "pool"])],
    };

    fn used(path: &str, text: &str) -> Used {
        let mut tree = Tree::default();
        tree.add(path.to_owned(), text.to_owned());
        used_by_parts(&tree, &POOL)
    }

    #[test]
    fn an_arrow_between_parts_that_points_back_is_named() {
        let path = "crates/busyhour/src/pool/queue/fifo.rs";
        for text in [
            "use crate::pool::worker::Worker;",
            "use super::super::worker::Worker;",
            "fn f() { super::super::worker::f() }",
        ] {
            let complaints = check_uses(&POOL, &used(path, text));
            let expected = format!("{path}:1: part `queue` of `pool` may not know `worker`");
            assert_eq!(complaints, [expected], "{text}");
        }
        let module = "crates/busyhour/src/pool/mod.rs";
        for exports in [
            "pub use worker::{Inline, Other};",
            "pub use worker::inline::{Inline, Other};",
            "pub(crate) use self::worker::Inline as Other;",
            "pub use worker::*;",
        ] {
            let mut tree = Tree::default();
            tree.add(module.to_owned(), exports.to_owned());
            let worker = "crates/busyhour/src/pool/worker/mod.rs".to_owned();
            tree.add(worker, "pub struct Other;".to_owned());
            tree.add(path.to_owned(), "use crate::pool::Other;".to_owned());
            let complaints = check_uses(&POOL, &used_by_parts(&tree, &POOL));
            let expected = format!("{path}:1: part `queue` of `pool` may not know `worker`");
            assert_eq!(complaints, [expected], "{exports}");
        }
        let own = "pub(in crate::pool) fn f() {}\nuse super::Local;\nuse self::inner::X;";
        assert_eq!(check_uses(&POOL, &used(path, own)), [""; 0]);
    }

    #[test]
    fn a_part_without_arrows_and_an_arrow_that_nobody_uses_are_named() {
        let path = "crates/busyhour/src/pool/other/fifo.rs";
        assert!(
            check_uses(&POOL, &used(path, "fn f() {}"))[0].contains("`other` of `pool` has no")
        );
        let path = "crates/busyhour/src/pool/worker/mod.rs";
        let unused = unused(&POOL, &used(path, "use super::{queue::Local};"));
        assert_eq!(unused.len(), 1, "{unused:?}");
        assert!(unused[0].contains("`worker` of `pool` may know `pool` and does not"));
    }

    fn crowded(tree: &Tree) -> Vec<String> {
        let is_listed = |complaint: &String| complaint.ends_with("is not crowded");
        (crowded_folders(tree).into_iter())
            .filter(|complaint| !is_listed(complaint))
            .collect()
    }

    #[test]
    fn a_folder_of_too_many_files_is_named() {
        let mut tree = Tree::default();
        for number in 0..=FOLDER_FILES_MAX {
            let path = format!("crates/busyhour/src/pool/queue/f{number}.rs");
            tree.add(path, String::new());
        }
        let complaints = crowded(&tree);
        let expected = "crates/busyhour/src/pool/queue: 17 files";
        assert!(complaints[0].starts_with(expected), "{complaints:?}");
        tree.rust.pop();
        assert_eq!(crowded(&tree), [""; 0]);
    }
}
