//! Names of tests in documents: a test that is renamed must be renamed there, too.

use std::collections::BTreeSet;

use crate::tidy::Tree;

/// Checks that each test that a document names exists.
pub fn check_named_tests(tree: &Tree) -> Vec<String> {
    let code = tree.text.iter().filter(|file| file.path.ends_with(".rs"));
    let functions: BTreeSet<&str> = code.flat_map(|file| functions_of(&file.text)).collect();
    let documents = (tree.text.iter()).filter(|file| {
        let is_history = file.path == "CHANGELOG.md" || file.path.starts_with("bench/record/");
        file.path.ends_with(".md") && !is_history
    });
    let mut complaints = Vec::new();
    for document in documents {
        for (index, line) in document.text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2);
            let names = quoted.filter(|word| is_test_name(word) && !functions.contains(word));
            let place = format!("{}:{}", document.path, index + 1);
            complaints.extend(names.map(|name| format!("{place}: there is no test `{name}`")));
        }
    }
    complaints
}

/// The names of all functions in a text. Tests count, which is why this does not ask
/// the syntax tree of [`crate::source`].
pub fn functions_of(text: &str) -> impl Iterator<Item = &str> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let definitions = code.filter_map(|line| Some(line.split_once("fn ")?.1));
    definitions.filter_map(|rest| Some(&rest[..rest.find(['(', '<'])?]))
}

/// Names of tests are sentences; other functions have shorter names.
fn is_test_name(word: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && (part.bytes()).all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    word.split('_').count() > WORDS_OF_OTHERS_MAX && word.split('_').all(is_part)
}

/// The most words in the name of something that is no test: a function, setting or counter.
const WORDS_OF_OTHERS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_names_a_renamed_test_is_named() {
        let mut tree = Tree::default();
        let code =
            "fn a_test_has_its_new_name_here() {}\n// fn a_test_had_its_old_name_here() {}\n";
        tree.add("crates/x/tests/a.rs".to_owned(), code.to_owned());
        let text = "See `a_test_has_its_new_name_here`.\n\nAnd `a.rs`: `a_test_had_its_old_name_here`, \
                    `limits.device_queue_len_max_of_all`, `short_name`.\n";
        for path in ["README.md", "CHANGELOG.md", "bench/record/x/tables.md"] {
            tree.add(path.to_owned(), text.to_owned());
        }
        let expected = "README.md:3: there is no test `a_test_had_its_old_name_here`";
        assert_eq!(check_named_tests(&tree), [expected]);
    }
}
