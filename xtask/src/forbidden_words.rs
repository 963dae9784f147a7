//! What no shipped file may contain.

/// Words that must not be in any shipped file, each with the reason.
pub const FORBIDDEN_WORDS: &[(&str, &str)] = &[
    (concat!("todo", "!("), "unfinished code"),
    (concat!("unimplemented", "!("), "unfinished code"),
    (concat!("FIX", "ME"), "unfinished code"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("static.", "crates.io"), "a registry's host"),
    (concat!("index.", "crates.io"), "a registry's host"),
    (concat!("pypi", ".org"), "a registry's host"),
    (concat!("registry.", "npmjs"), "a registry's host"),
    (concat!("proxy.", "golang"), "a registry's host"),
    (concat!("deb.", "debian"), "a registry's host"),
];
