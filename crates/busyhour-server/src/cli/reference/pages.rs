//! Pages of the book, in Markdown.

use crate::config::{Config, KEYS};
use clap::Command;
use std::fmt::Write;

/// Every setting with its default, and what it may be, by section.
pub(super) fn settings() -> String {
    let (mut page, mut section) = (String::new(), "");
    let defaults = Config::default();
    for key in KEYS {
        if key.section() != section {
            section = key.section();
            let _ = write!(page, "\n## `[{section}]`\n\n");
            page += "| setting | default | may be | what it does |\n|---|---|---|---|\n";
        }
        let default = key.show(&defaults);
        let default = match default.is_empty() {
            true => "none".to_owned(),
            false => format!("`{default}`"),
        };
        let (name, allowed, help) = (key.name(), key.allowed, key.help);
        let _ = writeln!(page, "| `{name}` | {default} | {allowed} | {help} |");
    }
    page
}

/// The help of every command, as the program prints it.
pub(super) fn commands(command: Command) -> String {
    let mut page = String::new();
    each(command, &mut |name, command| {
        let help = without_settings(command).render_long_help();
        let help = help.to_string();
        let lines: Vec<_> = help.lines().map(str::trim_end).collect();
        let _ = write!(
            page,
            "\n## `{name}`\n\n```text\n{}\n```\n",
            lines.join("\n")
        );
    });
    page
}

/// What each command says about its exit codes.
pub(super) fn exit_codes(command: Command) -> String {
    let mut page = String::from("| command | exit codes |\n|---|---|\n");
    each(command, &mut |name, command| {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        if let Some((_, codes)) = help.split_once("Exit codes:") {
            let codes: Vec<_> = codes.split_whitespace().collect();
            let _ = writeln!(page, "| `{name}` | {} |", codes.join(" "));
        }
    });
    page
}

/// Calls `see` with every command that help shows, from the outside in.
fn each(mut command: Command, see: &mut dyn FnMut(&str, &Command)) {
    command.build();
    walk("", &command, see);
}

fn walk(path: &str, command: &Command, see: &mut dyn FnMut(&str, &Command)) {
    let name = format!("{path} {}", command.get_name());
    let name = name.trim_start();
    see(name, command);
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for inner in command.get_subcommands().filter(shown) {
        walk(name, inner, see);
    }
}

/// The settings have a page of their own.
fn without_settings(command: &Command) -> Command {
    command.clone().mut_args(|argument| {
        let is_setting = crate::config::SettingKey::find(argument.get_id().as_str()).is_some();
        argument.hide(is_setting)
    })
}
