//! The parts of the server: which other parts each one uses. None uses the whole server.

use std::collections::BTreeMap;

use crate::{
    reexports::known_paths,
    rules::TEST_FILES,
    server_part_rules::{SERVER_PARTS, ServerPart},
    tidy::Tree,
};

/// Checks the parts of the server and their table; returns complaints.
pub fn check_server_parts(tree: &Tree) -> Vec<String> {
    let mut complaints = check_order(SERVER_PARTS);
    complaints.extend(check_uses(SERVER_PARTS, &used_by_parts(tree, SERVER_PARTS)));
    complaints.extend(check_table(tree, SERVER_PARTS));
    complaints
}

/// A part, what it uses, and the first place where it does.
type Used = BTreeMap<(&'static str, &'static str), String>;

fn used_by_parts(tree: &Tree, parts: &'static [ServerPart]) -> Used {
    let mut used = Used::new();
    for file in &tree.rust {
        let inside = file.path.strip_prefix(FOLDER);
        let inside = inside.and_then(|inside| inside.strip_suffix(".rs"));
        let Some(part) = inside.and_then(|inside| part_of(parts, inside.split('/'))) else {
            continue;
        };
        if TEST_FILES.iter().any(|name| file.path.ends_with(name)) {
            continue;
        }
        used.entry((part, part)).or_insert(file.path.clone());
        for (path, line) in known_paths(file) {
            if path.first().is_none_or(|first| first != "server") {
                continue;
            }
            let names = || path[1..].iter().map(String::as_str);
            let other = match names().next() {
                Some("core") => Some(WHOLE),
                _ => part_of(parts, names()),
            };
            if let Some(other) = other {
                let place = format!("{}:{line}", file.path);
                used.entry((part, other)).or_insert(place);
            }
        }
    }
    used
}

/// The part whose module is the longest beginning of these names.
fn part_of<'a>(
    parts: &'static [ServerPart],
    names: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'static str> {
    let is_below = |part: &&ServerPart| {
        let mut names = names.clone();
        part.module
            .split("::")
            .all(|name| names.next() == Some(name))
    };
    let fitting = parts.iter().filter(is_below);
    Some(fitting.max_by_key(|part| part.module.len())?.name)
}

fn check_order(parts: &[ServerPart]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let is_before = |name: &&&str| !parts[..index].iter().any(|one| one.name == **name);
        complaints.extend(part.uses.iter().filter(is_before).map(|name| {
            format!(
                "{RULES}: `{}` uses `{name}`, which does not come before it",
                part.name
            )
        }));
    }
    complaints
}

fn check_uses(parts: &[ServerPart], used: &Used) -> Vec<String> {
    let mut complaints = Vec::new();
    for part in parts {
        if !used.contains_key(&(part.name, part.name)) {
            let module = part.module;
            complaints.push(format!("{RULES}: there is no module `server::{module}`"));
        }
        let of_part = used.iter().filter(|((one, _), _)| *one == part.name);
        for ((_, other), place) in of_part {
            if *other != part.name && !part.uses.contains(other) {
                complaints.push(format!(
                    "{place}: part `{}` of the server may not use `{other}`",
                    part.name
                ));
            }
        }
        let is_unused = |name: &&&'static str| !used.contains_key(&(part.name, **name));
        complaints.extend(part.uses.iter().filter(is_unused).map(|name| {
            format!(
                "{RULES}: `{}` may use `{name}` and does not: take it out",
                part.name
            )
        }));
    }
    complaints
}

/// Checks that the rows `| part (file) | has | counters | uses |` agree with the rules.
fn check_table(tree: &Tree, parts: &[ServerPart]) -> Vec<String> {
    let Some(page) = tree.text.iter().find(|file| file.path == README) else {
        return vec![format!("{README}: there is none")];
    };
    let rows = page.text.lines().map(|line| line.split('|').map(str::trim));
    let rows: Vec<Vec<&str>> = rows.map(Iterator::collect).collect();
    let mut complaints = Vec::new();
    for part in parts {
        let begin = format!("`{}` (", part.name);
        let is_row = |cells: &&Vec<&str>| cells.len() == 6 && cells[1].starts_with(&begin);
        let expected = match part.uses {
            [] => "–".to_owned(),
            uses => uses.join(", "),
        };
        match rows.iter().find(is_row) {
            Some(cells) if cells[4] == expected => {}
            Some(cells) => complaints.push(format!(
                "{README}: `{}` uses `{}`; {RULES} says `{expected}`",
                part.name, cells[4]
            )),
            None => complaints.push(format!("{README}: `{}` has no row", part.name)),
        }
    }
    complaints
}

const FOLDER: &str = "crates/busyhour-server/src/server/";
const README: &str = "crates/busyhour-server/src/server/README.md";
const RULES: &str = "xtask/src/rules.rs";
const WHOLE: &str = "Core";

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &[ServerPart] = &[
        ServerPart {
            name: "Responder",
            module: "sip::responder",
            uses: &[],
        },
        ServerPart {
            name: "DeviceContext",
            module: "device",
            uses: &["Responder"],
        },
    ];

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let mut tree = Tree::default();
        for (name, text) in files {
            tree.add(format!("{FOLDER}{name}"), (*text).to_owned());
        }
        check_uses(PARTS, &used_by_parts(&tree, PARTS))
    }

    #[test]
    fn a_part_that_uses_the_whole_server_or_a_part_that_it_may_not_is_named() {
        let device = ("device.rs", "use super::sip::responder::Responder;");
        let responder = ("sip/responder.rs", "use super::request::Request;");
        assert_eq!(complaints(&[device, responder]), [""; 0]);
        for text in [
            "use crate::server::core::Core;",
            "fn f() { super::super::core::f() }",
        ] {
            let flows = ("device/flows.rs", text);
            let place = format!("{FOLDER}device/flows.rs:1");
            let expected =
                format!("{place}: part `DeviceContext` of the server may not use `Core`");
            assert_eq!(
                complaints(&[device, responder, flows]),
                [expected],
                "{text}"
            );
        }
        let back = ("sip/responder.rs", "use crate::server::device::Device;");
        let found = complaints(&[device, back]);
        assert!(found[0].ends_with("`Responder` of the server may not use `DeviceContext`"));
    }

    #[test]
    fn what_tests_use_does_not_count() {
        let device = ("device.rs", "use super::sip::responder::Responder;");
        let responder = (
            "sip/responder.rs",
            "#[cfg(test)] mod tests { use crate::server::core::Core; }",
        );
        let tests = ("device/tests.rs", "use crate::server::core::Core;");
        assert_eq!(complaints(&[device, responder, tests]), [""; 0]);
    }

    #[test]
    fn a_part_without_files_and_a_use_that_is_none_are_named() {
        let found = complaints(&[("device.rs", "")]);
        assert!(
            found[0].ends_with("there is no module `server::sip::responder`"),
            "{found:?}"
        );
        assert!(
            found[1].ends_with("`DeviceContext` may use `Responder` and does not: take it out"),
            "{found:?}"
        );
    }

    #[test]
    fn a_use_of_a_later_part_is_named() {
        let [responder, device] = [0, 1].map(|index| ServerPart { ..PARTS[index] });
        assert_eq!(check_order(&[responder, device]), [""; 0]);
        let [responder, device] = [0, 1].map(|index| ServerPart { ..PARTS[index] });
        let found = check_order(&[device, responder]);
        assert!(
            found[0].ends_with("uses `Responder`, which does not come before it"),
            "{found:?}"
        );
    }
}
