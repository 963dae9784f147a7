//! Writes `busyhour.h` from the source of the C ABI, without building it.

use std::{fs, path::Path};

use cbindgen::{
    Builder, Config, DocumentationLength, DocumentationStyle, EnumConfig, ExportConfig, Language,
    Style,
};

/// Where the header lies.
pub const HEADER: &str = "crates/busyhour-capi/include/busyhour.h";
const SOURCE: &str = "crates/busyhour-capi/src";

/// The stations in the order of the header: the title of each section, and the files with its exported functions and types.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "Results and texts: what a call returns, and what it had to say",
        &["result.rs", "edge/callback.rs"],
    ),
    (
        "Buffers: pinned, found by length, pinned and unpinned by the address of any byte inside",
        &["buffers.rs"],
    ),
    (
        "Heap: pointers with a comparison of the program",
        &["heap.rs"],
    ),
    (
        "Run queue: Linux 2.2 goodness over runnable entities",
        &["run_queue.rs"],
    ),
    (
        "Timer queue: pointers by deadline, without threads or a clock",
        &["timer_queue.rs"],
    ),
    (
        "Pools: workers",
        &[
            "pool.rs",
            "pool/options.rs",
            "pool/report.rs",
            "pool/leftovers.rs",
        ],
    ),
    (
        "Spawned tasks: they wait without keeping a worker",
        &["pool/spawn.rs"],
    ),
    (
        "Serializers: queues whose tasks run one at a time, in order, on any worker",
        &[
            "pool/serializer.rs",
            "pool/serializer_options.rs",
            "pool/template.rs",
            "pool/suspension.rs",
            "pool/group.rs",
        ],
    ),
    ("Statistics of pools and serializers", &["pool/stats.rs"]),
    ("Executors: where callbacks run", &["executor.rs"]),
    (
        "Timers: callbacks with a deadline",
        &[
            "timers.rs",
            "timers/add.rs",
            "timers/cancel.rs",
            "timers/list.rs",
            "timers/drive.rs",
            "timers/ids.rs",
        ],
    ),
    ("Runtime: all of them as one", &["runtime.rs"]),
    (
        "Simulation: a runtime whose time and order come from a seed",
        &["runtime/simulation.rs"],
    ),
    (
        "Snapshot: all statistics of a runtime",
        &["runtime/snapshot.rs"],
    ),
    (
        "Topics: events with the last value of each key",
        &["topic.rs"],
    ),
    ("Events", &["topic/event.rs"]),
    ("Records: typed elements with numbers", &["topic/record.rs"]),
    (
        "Patterns and attributes: what a subscription of records wants",
        &["topic/pattern.rs", "topic/attribute.rs"],
    ),
    ("Subscriptions", &["topic/subscription.rs"]),
    (
        "Lists and alerts: subscriptions as a list, and queues' alerts as events",
        &["topic/listing.rs", "topic/notices.rs"],
    ),
];

/// What comes before the functions, by how its first item begins.
const TYPES: &[(&str, &str)] = &[
    ("Codes and numbers", "typedef enum "),
    (
        "Handles: opaque, from a function that makes a new one to the one that frees it",
        "typedef struct bh_alert_group bh_alert_group;",
    ),
    (
        "Structs, and the types of callbacks",
        "typedef struct bh_buffers_options {",
    ),
];

/// Enums that no function names: C passes them as numbers, so that a number of no meaning is an error and not undefined.
const NUMBERS: &[&str] = &[
    "bh_missed",
    "bh_overflow",
    "bh_selector",
    "bh_alert_element",
    "bh_announcement_element",
];

/// Writes the header.
pub fn write(root: &Path) -> Result<(), String> {
    let text = generate(root)?;
    fs::write(root.join(HEADER), text).map_err(|error| format!("{HEADER}: {error}"))
}

/// What is wrong with the header, if it is not the one that the source gives.
pub fn check_header(root: &Path) -> Vec<String> {
    let found = fs::read_to_string(root.join(HEADER)).unwrap_or_default();
    match generate(root) {
        Ok(text) if text == found => Vec::new(),
        Ok(_) => vec![format!(
            "{HEADER}: not what the source gives; run cargo xtask header"
        )],
        Err(error) => vec![error],
    }
}

fn generate(root: &Path) -> Result<String, String> {
    let source = root.join(SOURCE);
    let files = SECTIONS.iter().flat_map(|(_, files)| *files);
    let builder = files.fold(Builder::new().with_config(config()), |builder, file| {
        builder.with_src(source.join(file))
    });
    let bindings = builder
        .generate()
        .map_err(|error| format!("{HEADER}: {error}"))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).map_err(|error| format!("{HEADER}: {error}"))?;
    with_headings(text, &source)
}

/// Puts the title of each section above its first item.
fn with_headings(mut text: String, source: &Path) -> Result<String, String> {
    for (title, item) in TYPES {
        text = with_heading(&text, title, item)?;
    }
    for (title, files) in SECTIONS {
        if let Some(function) = first_function(source, files)? {
            text = with_heading(&text, title, &format!("{function}("))?;
        }
    }
    Ok(text)
}

/// The name of the first function that these files export.
fn first_function(source: &Path, files: &[&str]) -> Result<Option<String>, String> {
    for file in files {
        let path = source.join(file);
        let code =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = |line: &str| {
            Some(
                line.strip_prefix("pub extern \"C\" fn ")?
                    .split('(')
                    .next()?
                    .to_owned(),
            )
        };
        if let Some(found) = code.lines().find_map(name) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Puts a title above the comment of the first line that has `item` in it and is not part of a comment itself.
fn with_heading(text: &str, title: &str, item: &str) -> Result<String, String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_comment = |line: &str| line.starts_with("//");
    let is_item = |line: &&str| !is_comment(line) && !line.starts_with(' ') && has_word(line, item);
    let at = lines
        .iter()
        .position(is_item)
        .ok_or_else(|| format!("{HEADER}: no {item:?} for the title {title:?}"))?;
    let comment = lines[..at].iter().rev().take_while(|line| is_comment(line));
    let begin = at - comment.count();
    let heading = ["", RULE, &format!("// {title}"), RULE, ""].join("\n");
    let heading = heading.trim_start_matches('\n');
    let (before, after) = (lines[..begin].join("\n"), lines[begin..].join("\n"));
    Ok(format!("{before}\n{heading}\n{after}\n"))
}

/// Whether `item` is in a line, and not the end of a longer name.
fn has_word(line: &str, item: &str) -> bool {
    let before = line.split_once(item).map(|(before, _)| before);
    before.is_some_and(|before| before.is_empty() || before.ends_with([' ', '*']))
}

const RULE: &str = "// ------------------------------------------------------------------------------------------------------------";

fn config() -> Config {
    Config {
        header: Some(TOP.to_owned()),
        include_guard: Some("BUSYHOUR_H".to_owned()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        cpp_compat: true,
        language: Language::C,
        style: Style::Both,
        line_length: 120,
        documentation: true,
        documentation_style: DocumentationStyle::C99,
        documentation_length: DocumentationLength::Full,
        usize_is_size_t: true,
        enumeration: EnumConfig::default(),
        export: ExportConfig {
            include: NUMBERS.iter().map(|&name| name.to_owned()).collect(),
            ..ExportConfig::default()
        },
        ..Config::default()
    }
}

const TOP: &str = "\
/* Busyhour's runtime for C and C++. CONVENTIONS.md has what holds for all functions: it is installed with this header, */
/* in share/doc/busyhour, or in /usr/share/doc/libbusyhour-dev by Debian's package. */
/* Generated by `cargo xtask header`: change the source in crates/busyhour-capi/src. */
/* SPDX-License-Identifier: MIT OR Apache-2.0 */";
