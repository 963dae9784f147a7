//! Reads a password from a person or a program; never from an argument, since other
//! users can see arguments.

use super::Failure;
use std::io::{self, IsTerminal};

/// Asks twice on a terminal; otherwise takes the first line.
pub(super) fn read(user: &str) -> Result<String, Failure> {
    match io::stdin().is_terminal() {
        true => ask(user),
        false => first_line(),
    }
}

fn ask(user: &str) -> Result<String, Failure> {
    let prompt = |text: String| rpassword::prompt_password(text).map_err(Failure::running);
    let password = prompt(format!("Password of {user}: "))?;
    match prompt("The same again: ".to_owned())? == password {
        true => Ok(password),
        false => Err(Failure::usage(
            "the two passwords differ; nothing was changed",
        )),
    }
}

fn first_line() -> Result<String, Failure> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(Failure::running)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
