//! The invariants of ARCHITECTURE.md: each one names the functions that hold it, which
//! are code, tests or models.

use crate::{
    named_tests::functions_of,
    tidy::{MAP, Tree},
};

/// Checks that each invariant names a file and a function in it, and that they exist.
pub fn check_invariants(tree: &Tree) -> Vec<String> {
    let Some(map) = tree.text.iter().find(|file| file.path == MAP) else {
        return Vec::new();
    };
    let invariants = invariants_of(&map.text);
    if invariants.is_empty() {
        return vec![format!("{MAP}: has no invariants")];
    }
    let check = |invariant: &String| check_invariant(tree, invariant);
    invariants.iter().flat_map(check).collect()
}

/// The text of each invariant, on one line.
fn invariants_of(map: &str) -> Vec<String> {
    let lines = map.lines().skip_while(|line| *line != HEADING).skip(1);
    let mut invariants: Vec<String> = Vec::new();
    for line in lines.take_while(|line| !line.starts_with('#')) {
        if let Some(text) = line.strip_prefix("- ") {
            invariants.push(text.to_owned());
        } else if let Some(last) = invariants.last_mut() {
            last.push(' ');
            last.push_str(line.trim());
        }
    }
    invariants
}

fn check_invariant(tree: &Tree, invariant: &str) -> Vec<String> {
    let name = invariant.split("**").nth(1).unwrap_or(invariant);
    let (_, list) = invariant.split_once(HELD_BY).unwrap_or_default();
    let quoted: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    let mut complaints = Vec::new();
    if quoted.is_empty() {
        complaints.push(format!(
            "{MAP}: the invariant `{name}` names no place: write \"{HELD_BY}`FILE` `FUNCTION`\""
        ));
    }
    for place in quoted.chunks(2) {
        let (file, function) = (place[0], place.get(1).copied().unwrap_or(""));
        let found = (tree.text.iter()).find(|one| one.path == format!("crates/{file}"));
        match found {
            None => complaints.push(format!(
                "{MAP}: the invariant `{name}`: there is no file `crates/{file}`"
            )),
            Some(found) if !functions_of(&found.text).any(|one| one == function) => complaints
                .push(format!(
                    "{MAP}: the invariant `{name}`: `crates/{file}` has no function `{function}`"
                )),
            Some(_) => {}
        }
    }
    complaints
}

const HEADING: &str = "## Invariants";
const HELD_BY: &str = "Held by ";

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(invariants: &str) -> Vec<String> {
        let mut tree = Tree::default();
        let code = "// fn former() {}\nfn commit() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    \
                    fn it_holds() {}\n}\n";
        tree.add("crates/x/src/a.rs".to_owned(), code.to_owned());
        let map = format!("# Map\n- **No invariant.** It is in another section.\n\n{invariants}");
        tree.add(MAP.to_owned(), map);
        check_invariants(&tree)
    }

    #[test]
    fn an_invariant_that_names_its_function_and_its_test_is_accepted() {
        let text = "## Invariants\n\n- **Order.** One at a\n  time. Held by `x/src/a.rs` `commit`,\n  \
                    `x/src/a.rs` `it_holds`.\n\n## Next\n- **Not this one.**\n";
        assert_eq!(complaints(text), [""; 0]);
    }

    #[test]
    fn an_invariant_without_a_place_is_named() {
        let text = "## Invariants\n\n- **Order.** See `x/src/a.rs` `commit`.\n";
        let expected = "ARCHITECTURE.md: the invariant `Order.` names no place: write \
                        \"Held by `FILE` `FUNCTION`\"";
        assert_eq!(complaints(text), [expected]);
    }

    #[test]
    fn an_invariant_whose_file_or_function_does_not_exist_is_named() {
        let text = "## Invariants\n\
                    - **A.** Held by `x/src/b.rs` `commit`.\n\
                    - **B.** Held by `x/src/a.rs` `comm`, `x/src/a.rs` `commit`.\n\
                    - **C.** Held by `x/src/a.rs` `former`.\n\
                    - **D.** Held by `x/src/a.rs`.\n";
        let missing = |name, function| {
            format!(
                "ARCHITECTURE.md: the invariant `{name}`: `crates/x/src/a.rs` has no function \
                 `{function}`"
            )
        };
        assert_eq!(
            complaints(text),
            [
                "ARCHITECTURE.md: the invariant `A.`: there is no file `crates/x/src/b.rs`"
                    .to_owned(),
                missing("B.", "comm"),
                missing("C.", "former"),
                missing("D.", ""),
            ]
        );
    }

    #[test]
    fn a_map_without_invariants_is_named() {
        let expected = ["ARCHITECTURE.md: has no invariants"];
        assert_eq!(complaints("## Other\n- **A.** b\n"), expected);
        assert_eq!(complaints("## Invariants\n\nNone.\n"), expected);
    }
}
