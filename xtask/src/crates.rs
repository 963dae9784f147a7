//! The crates of the product: which crates each one depends on, and that each can be
//! used alone.

use crate::{
    rules::{CRATES, LAYERS},
    tidy::{MAP, TextFile, Tree},
};

/// Checks that each crate's manifest, and the table of crates in ARCHITECTURE.md,
/// agree with the rules, and that each crate has layers and a README.
pub fn check_crates(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    let text = |path: &str| tree.text.iter().find(|file| file.path == path);
    for arrow in CRATES {
        let name = arrow.module;
        let source = format!("crates/{name}/src");
        if !LAYERS.iter().any(|layers| layers.source == source) {
            complaints.push(format!("xtask/src/rules.rs: `{name}` has no layers"));
        }
        if text(&format!("crates/{name}/README.md")).is_none() {
            complaints.push(format!("crates/{name}/README.md: there is none"));
        }
        let manifest = format!("crates/{name}/Cargo.toml");
        let found = text(&manifest).map(|file| known_crates(&file.text));
        if found.as_deref() != Some(arrow.may_use) {
            complaints.push(format!(
                "{manifest}: knows {found:?}; xtask/src/rules.rs says {:?}",
                arrow.may_use
            ));
        }
        let row = format!("| `{name}` | ");
        let knows = format!(" | {} |", listed(arrow.may_use));
        let has_row = |map: &TextFile| {
            (map.text.lines()).any(|line| line.starts_with(&row) && line.ends_with(&knows))
        };
        if !text(MAP).is_some_and(has_row) {
            complaints.push(format!("{MAP}: no row `{row}…{knows}`"));
        }
    }
    for file in &tree.text {
        let name = (file.path.strip_prefix("crates/"))
            .and_then(|path| path.strip_suffix("/Cargo.toml"))
            .filter(|name| !CRATES.iter().any(|arrow| arrow.module == *name));
        complaints.extend(name.map(|name| format!("xtask/src/rules.rs: no arrows of `{name}`")));
    }
    complaints
}

/// The product's crates among the dependencies of a manifest, without those for
/// tests.
fn known_crates(manifest: &str) -> Vec<&str> {
    let lines = manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]");
    let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
    let mut names: Vec<&str> = lines
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| name.split('-').next() == Some("busyhour"))
        .collect();
    names.sort_unstable();
    names
}

/// Names in the form of the tables in ARCHITECTURE.md.
pub fn listed(modules: &[&str]) -> String {
    match modules {
        [] => "–".to_owned(),
        modules => modules.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_whose_manifest_and_row_differ_from_the_rules_is_named() {
        let mut tree = Tree::default();
        let manifest = "[dependencies]\nserde = \"1\"\nbusyhour-server.workspace = true\n\
                        [dev-dependencies]\nbusyhour-x.workspace = true\n";
        tree.add("crates/busyhour/Cargo.toml".to_owned(), manifest.to_owned());
        tree.add("crates/other/Cargo.toml".to_owned(), String::new());
        tree.add(MAP.to_owned(), "| `busyhour` | it | – |\n".to_owned());
        let complaints = check_crates(&tree);
        for expected in [
            "crates/busyhour/README.md: there is none",
            "crates/busyhour/Cargo.toml: knows Some([\"busyhour-server\"]); xtask/src/rules.rs says []",
            "ARCHITECTURE.md: no row `| `busyhour-pcp` | … | busyhour |`",
            "xtask/src/rules.rs: no arrows of `other`",
        ] {
            assert!(
                complaints.iter().any(|one| one == expected),
                "{expected}: {complaints:#?}"
            );
        }
        let row = "ARCHITECTURE.md: no row `| `busyhour` | … | – |`";
        assert!(!complaints.iter().any(|one| one == row));
    }
}
