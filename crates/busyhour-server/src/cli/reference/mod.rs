//! `busyhour reference`: the pages that are made of the program itself, for the packages and
//! for the book. It is not in `--help`, since users read the pages.

mod completions;
mod pages;

pub use completions::Completions;

use super::{Failure, whole_command};
use crate::console;
use clap::{Parser, Subcommand};
use std::{fs, path::PathBuf};

/// Write what the program knows of itself: man pages, settings, commands, exit codes
#[derive(Debug, Parser)]
#[command(name = "reference")]
pub struct Reference {
    #[command(subcommand)]
    page: ReferencePage,
}

#[derive(Debug, Subcommand)]
enum ReferencePage {
    /// Write a man page for each command into a folder
    Man {
        /// The folder, which is made
        folder: PathBuf,
    },
    /// Print the table of all settings
    Settings,
    /// Print the help of all commands
    Commands,
    /// Print the exit codes of all commands
    ExitCodes,
}

impl Reference {
    /// Prints the page, or writes the pages.
    ///
    /// # Errors
    ///
    /// What cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        let page = match self.page {
            ReferencePage::Man { folder } => return man(&folder).map_err(Failure::running),
            ReferencePage::Settings => pages::settings(),
            ReferencePage::Commands => pages::commands(whole_command()),
            ReferencePage::ExitCodes => pages::exit_codes(whole_command()),
        };
        console::print(page.trim_end()).map_err(Failure::running)
    }
}

/// A page for each command, and one for the configuration file.
fn man(folder: &PathBuf) -> Result<(), String> {
    let made = fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(whole_command(), folder))
        .and_then(|()| fs::write(folder.join("busyhour.toml.5"), pages::settings_manual()));
    made.map_err(|error| format!("{}: {error}", folder.display()))
}
