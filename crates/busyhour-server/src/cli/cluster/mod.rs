pub(super) mod member;

use super::{Failure, show::ShowList, which_server::AskedServer};
use crate::console;
use clap::{Args, Subcommand};
use serde_json::json;
use std::fmt::Display;

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
    Move(MovePartition),
}

/// Let a node give all its partitions to the others, until it starts again
#[derive(Debug, Args)]
struct DrainNode {
    /// The node, as `busyhour cluster status` names it
    #[arg(value_name = "NODE")]
    node: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    which: AskedServer,
}

/// Let a node have a partition for as long as it lives, until the partition is released
#[derive(Debug, Args)]
struct MovePartition {
    /// A number from 0 to 255
    #[arg(value_name = "PARTITION")]
    partition: u8,

    /// The node, as `busyhour cluster status` names it
    #[arg(value_name = "NODE", required_unless_present = "release")]
    node: Option<String>,

    /// Let the partition fall to any node again
    #[arg(long, conflicts_with = "node")]
    release: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

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
            ClusterAction::Move(moving) => moving.run(),
        }
    }
}

impl DrainNode {
    fn run(self) -> Result<(), Failure> {
        let server = self.which.find()?;
        let node = escaped(&self.node);
        let answer = server.post(&format!("/api/v1/cluster/nodes/{node}/drain"));
        answer.map_err(Failure::running)?;
        if self.json {
            return say(json!({ "draining": self.node }));
        }
        let node = &self.node;
        say(format_args!(
            "{node} gives its partitions to the others; `busyhour cluster status` shows how many it still has"
        ))
    }
}

impl MovePartition {
    fn run(self) -> Result<(), Failure> {
        let server = self.which.find()?;
        let place = format!("/api/v1/cluster/partitions/{}", self.partition);
        let answer = match &self.node {
            Some(node) => server.post(&format!("{place}/move/{}", escaped(node))),
            None => server.post(&format!("{place}/release")),
        };
        answer.map_err(Failure::running)?;
        let partition = self.partition;
        match self.node {
            node if self.json => say(json!({ "partition": partition, "moved_to": node })),
            Some(node) => say(format_args!("partition {partition} goes to {node}")),
            None => say(format_args!("partition {partition} may be at any node")),
        }
    }
}

fn say(text: impl Display) -> Result<(), Failure> {
    console::print(text).map_err(Failure::running)
}

fn escaped(name: &str) -> String {
    form_urlencoded::byte_serialize(name.as_bytes()).collect()
}
