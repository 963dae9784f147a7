//! The ways to make registrations durable that were weighed for the store, each in front of the same table: the store
//! with its journal, SQLite alone, and as a journal SQLite, two crates, and a bare file. `durable-log` measures one;
//! `crash-write` and `crash-count` are for `scripts/crash-of-logs.py`.

mod bare_file;
mod busyhour_store;
mod crash;
mod durable_log;
mod fjall_log;
mod follower;
mod lease_table;
mod newest;
mod redb_log;
mod refresh;
mod sqlite_alone;
mod sqlite_log;

use durable_log::{DurableLog, Outcome};
use kit::{Args, args::refuse};

fn main() {
    let args = Args::from_command_line();
    let (variant, scenario) = args.variant_and_scenario();
    if let Err(error) = perform(variant, scenario, &args) {
        eprintln!("{variant}: {error}");
        std::process::exit(1);
    }
}

fn perform(variant: &str, scenario: &str, args: &Args) -> Outcome<()> {
    let perform = match variant {
        "busyhour" => perform_with::<busyhour_store::Committer<true>>,
        "busyhour-each" => perform_with::<busyhour_store::Committer<false>>,
        "sqlite" => perform_with::<sqlite_alone::SqliteAlone>,
        "sqlite-log" => perform_with::<follower::Followed<sqlite_log::SqliteLog>>,
        "fjall" => perform_with::<follower::Followed<fjall_log::FjallLog>>,
        "redb" => perform_with::<follower::Followed<redb_log::RedbLog>>,
        "raw-append" => perform_with::<bare_file::BareFile<true>>,
        "raw-append-unsynchronised" => perform_with::<bare_file::BareFile<false>>,
        other => refuse(&format!("no variant {other}")),
    };
    perform(scenario, args)
}

fn perform_with<L: DurableLog>(scenario: &str, args: &Args) -> Outcome<()> {
    match scenario {
        "durable-log" => durable_log::run::<L>(args),
        "crash-write" => crash::write::<L>(args),
        "crash-count" => crash::count::<L>(args),
        other => refuse(&format!("no scenario {other}")),
    }
}
