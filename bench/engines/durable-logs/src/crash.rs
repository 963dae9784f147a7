//! What a crash leaves of a log. `crash-write` says on its standard output what it has been told is durable, a line for each
//! group; `crash-count` says what a start finds after a crash. Both take `folder`, `bindings`, `group` and `seed`, so
//! each knows in which order the refreshes were written.

use crate::{
    durable_log::{DurableLog, Outcome, Refreshes, Setup},
    newest::Newest,
};
use kit::Args;
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Makes the log if the folder is empty, and otherwise goes on with what a crash has left there. Writes `groups` groups
/// and ends in an orderly way, or until it is killed; waits `pause_us` before each.
pub fn write<L: DurableLog>(args: &Args) -> Outcome<()> {
    let (folder, setup) = (folder(args)?, Setup::from(args)?);
    let pause = Duration::from_micros(args.optional("pause_us").unwrap_or(0));
    let is_new = fs::read_dir(&folder)?.next().is_none();
    let (mut log, newest) = match is_new {
        true => (L::open(&folder, setup)?, Newest::first(setup.bindings)),
        false => L::recover(&folder, setup)?,
    };
    let mut refreshes = prefix(&newest, args.number("seed"), setup)?;
    let mut durable = newest.refreshes();
    println!("found {durable}");
    let mut group = Vec::new();
    for _ in 0..args.optional("groups").unwrap_or(u64::MAX) {
        thread::sleep(pause);
        refreshes.fill(&mut group, setup);
        log.commit(&group)?;
        durable += setup.group;
        // A line is one write: standard output keeps nothing behind the end of a line.
        println!("acknowledged {durable}");
    }
    log.settle()
}

pub fn count<L: DurableLog>(args: &Args) -> Outcome<()> {
    let setup = Setup::from(args)?;
    let (_log, newest) = L::recover(&folder(args)?, setup)?;
    prefix(&newest, args.number("seed"), setup)?;
    println!("found {}", newest.refreshes());
    Ok(())
}

fn folder(args: &Args) -> Outcome<PathBuf> {
    let folder = args
        .word("folder")
        .ok_or("parameter folder=FOLDER is missing")?;
    Ok(Path::new(folder).to_owned())
}

/// The refreshes behind those that were found, if what was found is the first of them and nothing else.
fn prefix(newest: &Newest, seed: u64, setup: Setup) -> Outcome<Refreshes> {
    let mut refreshes = Refreshes::new(seed, setup.bindings);
    let mut wanted = Newest::first(setup.bindings);
    wanted.extend((0..newest.refreshes()).map(|_| refreshes.next()));
    match newest.first_difference(&wanted) {
        None => Ok(refreshes),
        Some(id) => Err(format!(
            "{} refreshes are found, and they are not the first ones: binding {id} differs",
            newest.refreshes()
        )
        .into()),
    }
}
