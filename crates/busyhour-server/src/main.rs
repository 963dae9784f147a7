//! The `busyhour` program; everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    busyhour_server::cli::main(option_env!("BUSYHOUR_COMMIT"))
}
