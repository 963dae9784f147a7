//! The fuzz targets, which `make test` does not build: each has its body in a file that exists, and a test that holds it
//! for changed seeds.

use crate::tidy::Tree;

/// Checks each program in `fuzz/fuzz_targets/`.
pub fn check_fuzz_targets(tree: &Tree) -> Vec<String> {
    let programs = (tree.text.iter()).filter_map(|file| Some((file, target(&file.path)?)));
    let holding = (tree.text.iter()).filter(|file| file.text.contains("hold_for("));
    let holding: Vec<String> = holding.map(|file| squeezed(&file.text)).collect();
    let check = |(file, target): (&crate::tidy::TextFile, &str)| {
        let mut complaints = Vec::new();
        for body in bodies(&file.text) {
            let exists =
                (tree.text.iter()).any(|other| Some(other.path.as_str()) == body.as_deref());
            if !exists {
                complaints.push(format!("{}: its `#[path]` names no file", file.path));
            }
        }
        let held = format!("hold_for(\"{target}\"");
        if !holding.iter().any(|text| text.contains(&held)) {
            complaints.push(format!("{}: no test calls {held}", file.path));
        }
        complaints
    };
    programs.flat_map(check).collect()
}

/// The target that a path is the program of.
fn target(path: &str) -> Option<&str> {
    path.strip_prefix(FOLDER)?.strip_suffix(".rs")
}

/// The files that a program takes in, as paths from the root; none for a path that leads out of it.
fn bodies(text: &str) -> impl Iterator<Item = Option<String>> {
    let named = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("#[path = \""));
    named.map(|rest| Some(rest.split('"').next()?.strip_prefix("../../")?.to_owned()))
}

/// Without what a formatter may put between a parenthesis and its argument.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

const FOLDER: &str = "fuzz/fuzz_targets/";

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(program: &str, test: &str) -> Vec<String> {
        let mut tree = Tree::default();
        tree.add("fuzz/fuzz_targets/frame.rs".to_owned(), program.to_owned());
        tree.add("crates/x/tests/frames.rs".to_owned(), test.to_owned());
        check_fuzz_targets(&tree)
    }

    #[test]
    fn a_target_whose_body_or_test_is_missing_is_named() {
        let held = "hold_for(\n        \"frame\", 100, hold);\n";
        let whole = "#[path = \"../../crates/x/tests/frames.rs\"]\nmod frames;\n";
        assert!(complaints(whole, held).is_empty());
        let moved = whole.replace("frames.rs", "moved.rs");
        assert_eq!(complaints(&moved, held).len(), 1);
        assert_eq!(
            complaints(whole, "hold_for(\"frames\", 100, hold);").len(),
            1
        );
    }
}
