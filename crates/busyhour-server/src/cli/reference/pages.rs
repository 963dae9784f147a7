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
            page +=
                "| setting | default | may be | what it does | a change |\n|---|---|---|---|---|\n";
        }
        let default = key.show(&defaults);
        let default = match default.is_empty() {
            true => "none".to_owned(),
            false => format!("`{default}`"),
        };
        let (name, allowed, help) = (key.name(), key.allowed, key.help);
        let change = key.change();
        let _ = writeln!(
            page,
            "| `{name}` | {default} | {allowed} | {help} | {change} |"
        );
    }
    page
}

/// The manual page of the configuration file.
pub(super) fn settings_manual() -> String {
    let (mut page, mut section) = (MANUAL_BEGIN.to_owned(), "");
    let defaults = Config::default();
    for key in KEYS {
        if key.section() != section {
            section = key.section();
            let _ = writeln!(page, ".SH [{section}]");
        }
        let shown = key.show(&defaults);
        let default = if shown.is_empty() { "none" } else { &shown };
        let (allowed, help) = (key.allowed.to_string(), key.help);
        let text = format!("{help}. It may be {allowed}. Default: {default}.");
        let _ = writeln!(page, ".TP\n.B {}\n{}", roff(key.name()), roff(&text));
        if key.is_live() {
            let _ = writeln!(page, "A reload changes it.");
        }
    }
    page + MANUAL_END
}

/// Text as troff reads it: hyphens that can be copied, and no line that is a request.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
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

const MANUAL_BEGIN: &str = r#".TH busyhour.toml 5 "" "" "Busyhour"
.SH NAME
busyhour.toml \- configuration of the SIP server busyhour
.SH DESCRIPTION
The file is TOML; lists are arrays. Each setting may also be given as an environment variable or as a flag of
.BR busyhour\-serve (1):
.I listen
in
.I [sip]
is
.B BUSYHOUR_SIP_LISTEN
and
.BR \-\-sip\-listen .
A flag overrides a variable, which overrides the file.
.B busyhour check\-config
finds every mistake. A running server reads the file again at SIGHUP; settings that a reload does not change need a restart.
The tables are explained in the packaged /etc/busyhour/busyhour.toml.
"#;
const MANUAL_END: &str = r#".SH FILES
/etc/busyhour/busyhour.toml
.SH SEE ALSO
.BR busyhour (1),
.BR busyhour\-serve (1),
.BR busyhour\-check\-config (1)
"#;
