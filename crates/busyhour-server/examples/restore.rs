//! How long a server takes to bring its bindings back after a restart, and
//! what memory they take.
//!
//! ```text
//! cargo run --release -p busyhour-server --example restore -- 1000000
//! ```
//!
//! Writes so many contacts into a fresh SQLite database as a server would,
//! ends that store, and starts a server on the file.

mod contacts;

use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_server::server::{Authentication, Network, SendError, Server, ServerConfig};
use busyhour_sip::Flow;
use busyhour_store::{SqliteOptions, SqliteStore};
use std::{
    error::Error,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Sends nothing: nobody watches.
struct Silent;

impl Network for Silent {
    fn send(&self, _flow: Flow, _datagram: Buffer) -> Result<(), SendError> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |text| text.parse())?;
    let folder = std::env::temp_dir().join(format!("busyhour-restore-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let database = folder.join("busyhour.db");
    let written = write(&database, count);
    let outcome = written.and_then(|()| restore(&database, count));
    fs::remove_dir_all(&folder)?;
    outcome
}

fn write(database: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let end = contacts::unix_now() + Duration::from_secs(3600);
    contacts::write(database, count, end)?;
    println!(
        "written    {count} contacts in {:.2} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn restore(database: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().build()?;
    let config = ServerConfig {
        authentication: Authentication::Open,
        ..ServerConfig::default()
    };
    let before = resident()?;
    let begun = Instant::now();
    let store = Box::new(SqliteStore::open(SqliteOptions::new(database))?);
    let server = Server::start(runtime.clone(), config, Arc::new(Silent), store)?;
    let took = begun.elapsed();
    let restored = server.stats().registrar.restored;
    assert_eq!(restored, count, "every contact is back");
    let bytes = resident()?.saturating_sub(before) / count.max(1);
    println!(
        "restored   {restored} contacts in {:.2} s, {bytes} bytes of memory each",
        took.as_secs_f64()
    );
    server.shutdown(Duration::from_secs(10));
    runtime.shutdown(Duration::from_secs(10));
    Ok(())
}

/// Memory of this process, in bytes.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .ok_or("no VmRSS")?;
    let kib: u64 = line.split_whitespace().nth(1).ok_or("no figure")?.parse()?;
    Ok(kib << 10)
}
