//! The ways to make registrations durable that were weighed for the store, each in front of the same table: the store
//! with its journal, SQLite alone, and as a journal SQLite, two crates, and a bare file.

mod bare_file;
mod busyhour_store;
mod durable_log;
mod fjall_log;
mod follower;
mod lease_table;
mod redb_log;
mod refresh;
mod sqlite_alone;
mod sqlite_log;

use durable_log::{Outcome, run};
use kit::{Args, args::refuse};

fn main() {
    let args = Args::from_command_line();
    let (variant, scenario) = args.variant_and_scenario();
    if scenario != "durable-log" {
        refuse(&format!("no scenario {scenario}"));
    }
    if let Err(error) = measure(variant, &args) {
        eprintln!("{variant}: {error}");
        std::process::exit(1);
    }
}

fn measure(variant: &str, args: &Args) -> Outcome<()> {
    match variant {
        "busyhour" => run::<busyhour_store::Committer<true>>(args),
        "busyhour-each" => run::<busyhour_store::Committer<false>>(args),
        "sqlite" => run::<sqlite_alone::SqliteAlone>(args),
        "sqlite-log" => run::<follower::Followed<sqlite_log::SqliteLog>>(args),
        "fjall" => run::<follower::Followed<fjall_log::FjallLog>>(args),
        "redb" => run::<follower::Followed<redb_log::RedbLog>>(args),
        "raw-append" => run::<bare_file::BareFile>(args),
        other => refuse(&format!("no variant {other}")),
    }
}
