//! The reference in docs/ describes every setting of the program.

use busyhour_server::config::{Config, KEYS};

const REFERENCE: &str = include_str!("../../../../docs/busyhour.md");

#[test]
fn every_setting_is_in_the_reference() {
    let defaults = Config::default();
    let expected: Vec<String> = KEYS
        .iter()
        .map(|key| {
            let (path, default) = (key.path, key.show(&defaults));
            let default = if default.is_empty() {
                "(none)"
            } else {
                &default
            };
            format!(
                "| `{path}` | `{default}` | {} | {} | {} |",
                key.allowed,
                key.help,
                key.change()
            )
        })
        .collect();
    let written: Vec<&str> = REFERENCE
        .lines()
        .filter(|line| {
            let mut cells = line.split('|').skip(1).map(str::trim);
            let (name, default) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
            let is_code = |cell: &str| cell.starts_with('`');
            is_code(name) && name.contains('.') && is_code(default) && cells.count() == 4
        })
        .collect();
    assert_eq!(
        written,
        expected,
        "the table should be:\n{}",
        expected.join("\n")
    );
}
