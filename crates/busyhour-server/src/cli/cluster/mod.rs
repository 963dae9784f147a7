pub(super) mod member;

use super::{Failure, show::ShowList};
use clap::{Args, Subcommand};

/// The cluster that a running server is a node of
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct ClusterCommand {
    #[command(subcommand)]
    what: ClusterAction,
}

#[derive(Debug, Subcommand)]
enum ClusterAction {
    /// The nodes: which of them live, and how many partitions each one owns
    Status(ShowList),
}

impl ClusterCommand {
    /// Asks the server and prints its answer.
    ///
    /// # Errors
    ///
    /// If no server answers.
    pub fn run(self) -> Result<(), Failure> {
        match self.what {
            ClusterAction::Status(list) => list.run_cluster(),
        }
    }
}
