//! The checks of `cargo xtask tidy`. Each check returns complaints, one line each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use ignore::WalkBuilder;

use crate::{
    crates::{check_crates, listed},
    examples::check_examples,
    forbidden_words::FORBIDDEN_WORDS,
    fuzz_targets::check_fuzz_targets,
    header::check_header,
    invariants::check_invariants,
    named_tests::check_named_tests,
    parts::check_parts,
    reexports::{Modules, known_paths},
    rules::{
        COMPONENTS, FILE_LINES_MAX, FUNCTION_LINES_MEDIAN_MAX, LAYERS, Layers, TEST_FILES,
        UNSAFE_FILES,
    },
    seeds::check_seeds,
    server_parts::check_server_parts,
    source::{Function, Source},
};

/// Every complaint about the tree below `root`; empty when it is clean.
pub fn check(root: &Path) -> Vec<String> {
    let tree = Tree::read(root);
    let mut complaints = tree.unreadable.clone();
    complaints.extend(tree.rust.iter().flat_map(check_rust_file));
    complaints.extend(tree.text.iter().flat_map(check_words));
    complaints.extend(LAYERS.iter().flat_map(|layers| check_layers(&tree, layers)));
    complaints.extend(
        LAYERS
            .iter()
            .flat_map(|layers| unused_arrows(&tree, layers)),
    );
    complaints.extend(
        LAYERS
            .iter()
            .flat_map(|layers| check_type_names(&tree, layers)),
    );
    complaints.extend(
        LAYERS
            .iter()
            .filter_map(|layers| check_median(&tree, layers)),
    );
    complaints.extend(
        COMPONENTS
            .iter()
            .filter_map(|component| check_example(root, component)),
    );
    complaints.extend(LAYERS.iter().flat_map(|layers| check_map(&tree, layers)));
    complaints.extend(check_parts(&tree));
    complaints.extend(check_server_parts(&tree));
    complaints.extend(check_crates(&tree));
    complaints.extend(check_header(root));
    complaints.extend(check_walks(&tree));
    complaints.extend(check_invariants(&tree));
    complaints.extend(check_named_tests(&tree));
    complaints.extend(check_fuzz_targets(&tree));
    complaints.extend(check_examples(&tree));
    complaints.extend(check_seeds(&tree));
    complaints.extend(check_glossary(&tree));
    complaints.extend(stale_unsafe_entries(&tree));
    complaints
}

/// The longest functions and the median of each layered crate.
pub fn lengths(root: &Path) -> String {
    let tree = Tree::read(root);
    let mut out = String::new();
    for layers in LAYERS {
        let mut functions = tree.functions_of(layers);
        functions.sort_by_key(|(_, function)| std::cmp::Reverse(function.lines));
        let median = median(&functions);
        let _ = writeln!(
            out,
            "{}: {} functions, median {median} lines",
            layers.source,
            functions.len()
        );
        for (path, function) in functions.iter().take(15) {
            let _ = writeln!(
                out,
                "  {:>4} {}:{} {}",
                function.lines, path, function.line, function.name
            );
        }
    }
    out
}

pub struct TextFile {
    pub path: String,
    pub text: String,
}

pub struct RustFile {
    pub path: String,
    line_count: usize,
    pub source: Source,
}

#[derive(Default)]
pub struct Tree {
    pub rust: Vec<RustFile>,
    pub text: Vec<TextFile>,
    unreadable: Vec<String>,
}

impl Tree {
    fn read(root: &Path) -> Self {
        let mut tree = Self {
            rust: Vec::new(),
            text: Vec::new(),
            unreadable: Vec::new(),
        };
        for path in files_below(root) {
            let name = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .display()
                .to_string();
            if let Ok(text) = fs::read_to_string(&path) {
                tree.add(name, text);
            }
        }
        tree
    }

    pub fn add(&mut self, path: String, text: String) {
        if path.ends_with(".rs") {
            match Source::parse(&text) {
                Ok(source) => self.rust.push(RustFile {
                    path: path.clone(),
                    line_count: text.lines().count(),
                    source,
                }),
                Err(error) => self.unreadable.push(format!("{path}: not Rust: {error}")),
            }
        }
        self.text.push(TextFile { path, text });
    }

    fn functions_of<'a>(&'a self, layers: &'a Layers) -> Vec<(&'a str, &'a Function)> {
        let files = self
            .rust
            .iter()
            .filter(|file| file.path.starts_with(layers.source));
        files
            .flat_map(|file| {
                file.source
                    .functions
                    .iter()
                    .map(move |function| (file.path.as_str(), function))
            })
            .collect()
    }
}

fn files_below(root: &Path) -> impl Iterator<Item = PathBuf> {
    WalkBuilder::new(root)
        .hidden(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_name(|a, b| a.cmp(b))
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(|entry| entry.into_path())
}

fn check_rust_file(file: &RustFile) -> Vec<String> {
    let mut complaints = Vec::new();
    if file.line_count > FILE_LINES_MAX {
        complaints.push(format!(
            "{}: {} lines; a file has at most {FILE_LINES_MAX}: give each noun its own",
            file.path, file.line_count
        ));
    }
    let is_of_library = file.path.starts_with(OLDEST_COMPILER_SOURCE);
    for line in file.source.let_chain_lines.iter().filter(|_| is_of_library) {
        complaints.push(format!(
            "{}:{line}: a `let` inside a longer condition needs Rust 1.88; the library promises 1.85: nest the conditions",
            file.path
        ));
    }
    let allowed = UNSAFE_FILES.iter().any(|(path, _)| *path == file.path);
    if let (Some(line), false) = (file.source.unsafe_lines.first(), allowed) {
        complaints.push(format!(
            "{}:{line}: unsafe outside the named files (xtask/src/rules.rs, UNSAFE_FILES)",
            file.path
        ));
    }
    complaints
}

fn stale_unsafe_entries(tree: &Tree) -> Vec<String> {
    let holds_unsafe = |path: &str| {
        tree.rust
            .iter()
            .any(|file| file.path == path && !file.source.unsafe_lines.is_empty())
    };
    UNSAFE_FILES
        .iter()
        .filter(|(path, _)| !holds_unsafe(path))
        .map(|(path, _)| format!("{path}: listed in UNSAFE_FILES but holds no unsafe code"))
        .collect()
}

fn check_words(file: &TextFile) -> Vec<String> {
    if file.path.ends_with(".lock") || file.path.ends_with("package-lock.json") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    // Nearly no file has one, so that whole files are searched, and lines only where there is something to find.
    for (word, why) in FORBIDDEN_WORDS
        .iter()
        .filter(|(word, _)| file.text.contains(word))
    {
        for (index, _) in (file.text.lines().enumerate()).filter(|(_, line)| line.contains(word)) {
            complaints.push(format!("{}:{}: `{word}`: {why}", file.path, index + 1));
        }
    }
    complaints
}

fn check_layers(tree: &Tree, layers: &Layers) -> Vec<String> {
    let mut complaints = Vec::new();
    if layers.arrows.is_empty() {
        return complaints;
    }
    let modules = Modules::around(tree, layers.source);
    for file in &tree.rust {
        let Some(module) = module_of(&file.path, layers) else {
            continue;
        };
        let Some(arrow) = layers.arrows.iter().find(|arrow| arrow.module == module) else {
            complaints.push(format!(
                "{}: module `{module}` has no arrows in xtask/src/rules.rs",
                file.path
            ));
            continue;
        };
        for (used, line) in &modules_of(file, &modules) {
            let known = used == module
                || layers.base.contains(&used.as_str())
                || arrow.may_use.contains(&used.as_str())
                || !layers.arrows.iter().any(|arrow| arrow.module == used);
            if !known {
                complaints.push(format!(
                    "{}:{line}: `{module}` may not know `{used}`",
                    file.path
                ));
            }
        }
    }
    complaints
}

/// The modules of its crate that a file uses, with the line of each.
fn modules_of(file: &RustFile, modules: &Modules<'_>) -> BTreeSet<(String, usize)> {
    let paths = known_paths(file).into_iter();
    paths
        .filter_map(|(path, line)| Some((modules.resolve(&path, 1).into_iter().next()?, line)))
        .collect()
}

/// Arrows that the rules allow and no file uses.
fn unused_arrows(tree: &Tree, layers: &Layers) -> Vec<String> {
    let modules = Modules::around(tree, layers.source);
    let uses = |module: &str, other: &str| {
        let mut files =
            (tree.rust.iter()).filter(|file| module_of(&file.path, layers) == Some(module));
        files.any(|file| (modules_of(file, &modules).iter()).any(|(used, _)| used == other))
    };
    let mut complaints = Vec::new();
    for arrow in layers.arrows {
        for other in arrow
            .may_use
            .iter()
            .filter(|other| !uses(arrow.module, other))
        {
            complaints.push(format!(
                "xtask/src/rules.rs: `{}` may know `{other}` and does not: take the arrow out",
                arrow.module
            ));
        }
    }
    complaints
}

/// Checks that the table of modules in ARCHITECTURE.md lists what each module uses.
fn check_map(tree: &Tree, layers: &Layers) -> Vec<String> {
    let Some(map) = tree.text.iter().find(|file| file.path == MAP) else {
        return vec![format!("{MAP}: there is none")];
    };
    let heading = format!("`{}`", layers.source.trim_end_matches("/src"));
    let rows = map.text.lines().skip_while(|line| !line.contains(&heading));
    let rows: Vec<Vec<&str>> = rows
        .map(|line| line.split('|').map(str::trim).collect())
        .take_while(|cells: &Vec<&str>| !cells[0].starts_with("## ") || cells[0].contains(&heading))
        .collect();
    let knows = |module: &str| {
        let name = format!("`{module}`");
        let row = rows
            .iter()
            .find(|cells| cells.len() == 5 && cells[1].split(", ").any(|one| one == name))?;
        Some(row[3])
    };
    let mut complaints = Vec::new();
    for arrow in layers.arrows {
        let expected = listed(arrow.may_use);
        match knows(arrow.module) {
            Some(found) if found == expected => {}
            Some(found) => complaints.push(format!(
                "{MAP}: `{}` knows `{found}`; xtask/src/rules.rs says `{expected}`",
                arrow.module
            )),
            None => complaints.push(format!("{MAP}: `{}` has no row", arrow.module)),
        }
    }
    complaints
}

pub const MAP: &str = "ARCHITECTURE.md";
/// The library's sources. They must compile with Rust 1.85, but the workspace's compiler takes more, and only
/// `scripts/hygiene.sh msrv` has the older one. What is inside macros is not looked at.
const OLDEST_COMPILER_SOURCE: &str = "crates/busyhour/src/";
const GLOSSARY: &str = "GLOSSARY.md";

/// Checks that each step of a walk in ARCHITECTURE.md names a file and a function in
/// it.
fn check_walks(tree: &Tree) -> Vec<String> {
    let Some(map) = tree.text.iter().find(|file| file.path == MAP) else {
        return Vec::new();
    };
    let (mut folder, mut complaints, mut step_count) = ("", Vec::new(), 0);
    for line in map.text.lines() {
        if line.starts_with('#') {
            folder = line
                .split('`')
                .find(|part| part.starts_with("crates/"))
                .unwrap_or("");
        }
        let Some((_, step)) = line.split_once(". `").filter(|(number, _)| {
            !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
        }) else {
            continue;
        };
        step_count += 1;
        let mut parts = step.split('`').step_by(2);
        let (file, function) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let path = format!("{folder}/{file}");
        // A step in another crate names the crate: `busyhour-sip/src/message.rs`.
        let elsewhere = format!("crates/{file}");
        let is_there = (tree.rust.iter()).any(|source| {
            (source.path == path || source.path == elsewhere)
                && source
                    .source
                    .functions
                    .iter()
                    .any(|one| one.name == function)
        });
        if !is_there {
            complaints.push(format!("{MAP}: `{path}` has no function `{function}`"));
        }
    }
    if step_count == 0 {
        complaints.push(format!("{MAP}: has no walk"));
    }
    complaints
}

/// Checks that each file in the glossary exists.
fn check_glossary(tree: &Tree) -> Vec<String> {
    let Some(glossary) = tree.text.iter().find(|file| file.path == GLOSSARY) else {
        return vec![format!("{GLOSSARY}: there is none")];
    };
    let mut complaints = Vec::new();
    let rows = glossary.text.lines().filter(|line| line.starts_with("| "));
    for cell in rows.filter_map(|row| row.split(" | ").last()) {
        for file in cell.split('`').filter(|part| part.contains('/')) {
            let is_there = (tree.rust.iter()).any(|source| {
                let Some((name, inside)) =
                    (source.path.strip_prefix("crates/")).and_then(|path| path.split_once("/src/"))
                else {
                    return false;
                };
                // The path is inside of any crate, or begins with the crate's name.
                [inside, format!("{name}/src/{inside}").as_str()]
                    .iter()
                    .any(|path| *path == file || (file.ends_with('/') && path.starts_with(file)))
            });
            if !is_there {
                complaints.push(format!("{GLOSSARY}: there is no `{file}`"));
            }
        }
    }
    complaints
}

/// Checks that each type name occurs once in the crate, so that one noun has one
/// meaning.
fn check_type_names(tree: &Tree, layers: &Layers) -> Vec<String> {
    let is_counted = |file: &&RustFile| {
        file.path.starts_with(layers.source)
            && !TEST_FILES
                .iter()
                .any(|name| file.path.ends_with(&format!("/{name}")))
    };
    let mut first = BTreeMap::new();
    let mut complaints = Vec::new();
    for file in tree.rust.iter().filter(is_counted) {
        for (name, line) in &file.source.types {
            let here = format!("{}:{line}", file.path);
            if let Some(there) = first.get(name) {
                complaints.push(format!("{here}: `{name}` is also a type of {there}"));
            } else {
                first.insert(name, here);
            }
        }
    }
    complaints
}

/// The top-level module of a file; `None` for the crate's root files.
fn module_of<'a>(path: &'a str, layers: &Layers) -> Option<&'a str> {
    let inside = path.strip_prefix(layers.source)?.strip_prefix('/')?;
    let module = inside.split('/').next()?.trim_end_matches(".rs");
    (!matches!(module, "lib" | "main")).then_some(module)
}

fn check_median(tree: &Tree, layers: &Layers) -> Option<String> {
    let median = median(&tree.functions_of(layers));
    (median > FUNCTION_LINES_MEDIAN_MAX).then(|| {
        format!(
            "{}: functions' median length is {median} lines; at most {FUNCTION_LINES_MEDIAN_MAX}",
            layers.source
        )
    })
}

fn median(functions: &[(&str, &Function)]) -> usize {
    let mut lines: Vec<usize> = functions
        .iter()
        .map(|(_, function)| function.lines)
        .collect();
    lines.sort_unstable();
    lines.get(lines.len() / 2).copied().unwrap_or(0)
}

fn check_example(root: &Path, component: &str) -> Option<String> {
    let path = format!("crates/busyhour/examples/{component}.rs");
    (!root.join(&path).is_file()).then(|| format!("{path}: component `{component}` has no example"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let complaints = check(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
        assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    }

    #[test]
    fn what_an_older_compiler_refuses_is_named_in_the_library_alone() {
        let conditions = "fn f() { if let Some(_) = g() && h() {} if h() && let Some(_) = g() {} \
                          if let Some(_) = g() { if h() && h() {} } }";
        let complaints = ["crates/busyhour/src/bus/mod.rs", "xtask/src/main.rs"].map(|path| {
            let mut tree = Tree::default();
            tree.add(path.to_owned(), conditions.to_owned());
            check_rust_file(&tree.rust[0]).len()
        });
        assert_eq!(complaints, [2, 0]);
    }

    #[test]
    fn an_arrow_that_points_back_is_named() {
        let mut tree = Tree {
            rust: Vec::new(),
            text: Vec::new(),
            unreadable: Vec::new(),
        };
        let path = "crates/busyhour/src/task/mod.rs".to_owned();
        tree.add(path, "use crate::pool::TaskPool;".to_owned());
        let complaints = check_layers(&tree, &LAYERS[0]);
        assert_eq!(
            complaints,
            ["crates/busyhour/src/task/mod.rs:1: `task` may not know `pool`"]
        );
    }

    #[test]
    fn an_arrow_behind_a_name_of_the_root_is_named() {
        let path = "crates/busyhour/src/task/mod.rs";
        for (root, task) in [
            ("pub use pool::TaskPool;", "use crate::TaskPool;"),
            ("pub use pool::*;", "use super::{TaskPool as Pool};"),
            ("use pool::TaskPool as P;", "fn f() { crate::P::new() }"),
        ] {
            let mut tree = Tree::default();
            tree.add("crates/busyhour/src/lib.rs".to_owned(), root.to_owned());
            let pool = "crates/busyhour/src/pool/mod.rs".to_owned();
            tree.add(pool, "pub struct TaskPool;".to_owned());
            tree.add(path.to_owned(), task.to_owned());
            assert_eq!(
                check_layers(&tree, &LAYERS[0]),
                [format!("{path}:1: `task` may not know `pool`")],
                "{root}"
            );
        }
    }

    #[test]
    fn a_name_of_two_types_and_an_arrow_that_nobody_uses_are_named() {
        let mut tree = Tree {
            rust: Vec::new(),
            text: Vec::new(),
            unreadable: Vec::new(),
        };
        for path in [
            "crates/busyhour/src/pool/a.rs",
            "crates/busyhour/src/bus/b.rs",
        ] {
            tree.add(path.to_owned(), "struct Turn;".to_owned());
        }
        assert_eq!(
            check_type_names(&tree, &LAYERS[0]),
            [
                "crates/busyhour/src/bus/b.rs:1: `Turn` is also a type of crates/busyhour/src/pool/a.rs:1"
            ]
        );
        let unused = unused_arrows(&tree, &LAYERS[0]);
        assert!(
            unused[0].contains("`pool` may know `task` and does not"),
            "{unused:?}"
        );
    }

    #[test]
    fn a_map_that_differs_from_the_rules_is_named() {
        let mut tree = Tree {
            rust: Vec::new(),
            text: Vec::new(),
            unreadable: Vec::new(),
        };
        let rows =
            "## `crates/busyhour`\n| `pool` | workers | task |\n## `crates/x`\n| `bus` | y | – |\n";
        tree.add(MAP.to_owned(), rows.to_owned());
        let complaints = check_map(&tree, &LAYERS[0]);
        assert!(
            complaints.contains(
                &"ARCHITECTURE.md: `pool` knows `task`; xtask/src/rules.rs says `task, run_queue`"
                    .to_owned()
            )
        );
        assert!(complaints.contains(&"ARCHITECTURE.md: `bus` has no row".to_owned()));
    }

    #[test]
    fn a_walk_and_a_glossary_that_lead_nowhere_are_named() {
        let mut tree = Tree {
            rust: Vec::new(),
            text: Vec::new(),
            unreadable: Vec::new(),
        };
        tree.add("crates/x/src/a.rs".to_owned(), "fn go() {}".to_owned());
        let walk =
            "### A walk (files of `crates/x/src`)\n1. `a.rs` `go`: on.\n2. `a.rs` `stop`: off.\n";
        tree.add(MAP.to_owned(), walk.to_owned());
        tree.add(
            GLOSSARY.to_owned(),
            "| x | y | z | `pool/nothing.rs` |\n".to_owned(),
        );
        assert_eq!(
            check_walks(&tree),
            ["ARCHITECTURE.md: `crates/x/src/a.rs` has no function `stop`"]
        );
        assert_eq!(
            check_glossary(&tree),
            ["GLOSSARY.md: there is no `pool/nothing.rs`"]
        );
    }

    #[test]
    fn unsafe_outside_the_named_files_is_named() {
        let mut tree = Tree {
            rust: Vec::new(),
            text: Vec::new(),
            unreadable: Vec::new(),
        };
        tree.add("x.rs".to_owned(), "fn f() { unsafe { g() } }".to_owned());
        assert_eq!(tree.rust.iter().flat_map(check_rust_file).count(), 1);
    }

    #[test]
    fn a_machine_path_is_named() {
        let text = format!("see {}", concat!("/wo", "rk/x"));
        let file = TextFile {
            path: "a.md".to_owned(),
            text,
        };
        assert_eq!(check_words(&file).len(), 1);
    }
}
