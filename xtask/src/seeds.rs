//! The tables of docs/seeds.md: each row names files and tests that exist, or says what
//! is missing.

use crate::{named_tests::functions_of, tidy::Tree};

/// Checks the rows of the tables.
pub fn check_seeds(tree: &Tree) -> Vec<String> {
    let Some(document) = tree.text.iter().find(|file| file.path == SEEDS) else {
        return Vec::new();
    };
    let rows = (1..).zip(document.text.lines());
    let rows = rows.filter(|(_, line)| line.starts_with("| ") && !line.ends_with(HEADING));
    let check = |(number, line): (usize, &str)| {
        let complaints = check_row(tree, line);
        let named = move |complaint| format!("{SEEDS}:{number}: {complaint}");
        complaints.into_iter().map(named)
    };
    rows.flat_map(check).collect()
}

fn check_row(tree: &Tree, line: &str) -> Vec<String> {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [_, here, shown_by] = cells[..] else {
        return vec!["a row has three columns: the paper, here, shown by".to_owned()];
    };
    let mut complaints = missing_files(tree, here);
    let (mut files, mut names) = (Vec::new(), 0);
    for name in quoted(shown_by) {
        names += 1;
        if name.ends_with(".rs") {
            files = named(tree, name);
            if files.is_empty() {
                complaints.push(format!("there is no file `{name}`"));
            }
        } else if !files
            .iter()
            .any(|text| functions_of(text).any(|one| one == name))
        {
            complaints.push(format!("the file named before it has no test `{name}`"));
        }
    }
    if here.is_empty() || (names == 0 && shown_by != NOT_SHOWN) {
        complaints.push(format!(
            "say where it is, and name a file or write {NOT_SHOWN}"
        ));
    }
    complaints
}

fn missing_files(tree: &Tree, here: &str) -> Vec<String> {
    let files = quoted(here).filter(|name| name.ends_with(".rs"));
    let missing = files.filter(|name| named(tree, name).is_empty());
    missing
        .map(|name| format!("there is no file `{name}`"))
        .collect()
}

/// What stands between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The texts of the files whose paths end with `name`.
fn named<'a>(tree: &'a Tree, name: &str) -> Vec<&'a str> {
    let end = format!("/{name}");
    let files = tree.text.iter().filter(|file| file.path.ends_with(&end));
    files.map(|file| file.text.as_str()).collect()
}

const SEEDS: &str = "docs/seeds.md";
const HEADING: &str = "shown by |";
const NOT_SHOWN: &str = "–";

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(row: &str) -> Vec<String> {
        let mut tree = Tree::default();
        tree.add(
            "crates/x/src/heap.rs".to_owned(),
            "fn push() {}\n".to_owned(),
        );
        let test = "fn a_test_of_the_heap_is_here() {}\n";
        tree.add("crates/x/tests/heap.rs".to_owned(), test.to_owned());
        let table = format!("| the paper | here | shown by |\n|---|---|---|\n{row}\n");
        tree.add(SEEDS.to_owned(), table);
        check_seeds(&tree)
    }

    #[test]
    fn a_row_that_names_what_exists_is_accepted() {
        for row in [
            "| a heap | `Heap`, `src/heap.rs` | `heap.rs`: `a_test_of_the_heap_is_here` |",
            "| a heap | `Heap` | `heap.rs` |",
            "| a lock | absent: nobody needs it | – |",
        ] {
            assert_eq!(complaints(row), [""; 0]);
        }
    }

    #[test]
    fn a_row_that_names_what_does_not_exist_is_named() {
        let missing_test = ["docs/seeds.md:3: the file named before it has no test `gone`"];
        assert_eq!(
            complaints("| a heap | `Heap` | `heap.rs`: `gone` |"),
            missing_test
        );
        assert_eq!(complaints("| a heap | `Heap` | `gone` |"), missing_test);
        let missing_file = ["docs/seeds.md:3: there is no file `tree.rs`"];
        assert_eq!(complaints("| a heap | `Heap` | `tree.rs` |"), missing_file);
        assert_eq!(complaints("| a heap | `tree.rs` | – |"), missing_file);
    }

    #[test]
    fn a_row_that_says_nothing_is_named() {
        assert_eq!(complaints("| a heap | `Heap` |").len(), 1);
        assert_eq!(complaints("| a heap | `Heap` | it works |").len(), 1);
    }
}
