use crate::cli::{Failure, whole_command};
use crate::console;
use clap::Args;
use clap_complete::Shell;

/// Print the completions of a shell, to be read by it
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the script.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut whole_command(), "busyhour", &mut script);
        let script = String::from_utf8_lossy(&script);
        console::print(script.trim_end()).map_err(Failure::running)
    }
}

const AFTER_HELP: &str = "\
The packages install them. Without a package:
  busyhour completions bash > ~/.local/share/bash-completion/completions/busyhour
  busyhour completions zsh  > \"${fpath[1]}/_busyhour\"
  busyhour completions fish > ~/.config/fish/completions/busyhour.fish";
