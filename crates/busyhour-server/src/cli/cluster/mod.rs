pub(super) mod member;

use super::{Failure, show::ShowList, which_server::AskedServer};
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
    Drain(DrainNode),
}

/// Let a node give all its partitions to the others, until it starts again
#[derive(Debug, Args)]
struct DrainNode {
    /// The node, as `busyhour cluster status` names it
    #[arg(value_name = "NODE")]
    node: String,

    #[command(flatten)]
    which: AskedServer,
}

impl ClusterCommand {
    /// Asks the server and prints its answer.
    ///
    /// # Errors
    ///
    /// If no server answers, or there is no such node.
    pub fn run(self) -> Result<(), Failure> {
        match self.what {
            ClusterAction::Status(list) => list.run_cluster(),
            ClusterAction::Drain(drain) => drain.run(),
        }
    }
}

impl DrainNode {
    fn run(self) -> Result<(), Failure> {
        let server = self.which.find()?;
        let node: String = form_urlencoded::byte_serialize(self.node.as_bytes()).collect();
        let answer = server.post(&format!("/api/v1/cluster/nodes/{node}/drain"));
        answer.map(drop).map_err(Failure::running)
    }
}
