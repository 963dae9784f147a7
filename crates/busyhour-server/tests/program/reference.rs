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
            let first = line
                .strip_prefix("| `")
                .and_then(|rest| rest.split('`').next());
            first.is_some_and(|name| name.contains('.')) && line.matches('|').count() == 6
        })
        .collect();
    assert_eq!(
        written,
        expected,
        "the table should be:\n{}",
        expected.join("\n")
    );
}
