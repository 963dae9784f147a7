//! Load: on a running server, and on a trial server of this machine.

mod bench_here;
mod storm;

/// A password of 128 random bits for accounts that exist for as long as a storm.
///
/// # Errors
///
/// The system gives no random bits.
pub fn trial_password() -> Result<String, getrandom::Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub use bench_here::BenchHere;
pub use storm::StormCommand;
