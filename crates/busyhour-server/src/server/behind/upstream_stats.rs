use serde::Serialize;

/// What servers behind this one were told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UpstreamStats {
    /// Servers behind this one.
    pub registrar_count: u64,
    /// Those that do not answer.
    pub away_count: u64,
    /// Addresses of record that they have, or may have.
    pub told_count: u64,
    /// Those that have a telephone, and that were refused or not answered.
    pub failing_count: u64,
    /// Requests that wait for their answer.
    pub pending_count: u64,
    /// REGISTER requests, without retransmissions.
    pub sent: u64,
    /// Those that were sent again.
    pub retransmitted: u64,
    /// Final answers.
    pub answered: u64,
    /// Challenges among them.
    pub challenged: u64,
    /// Refusals among them.
    pub refused: u64,
    /// Times when one of them did not answer any more.
    pub went_away: u64,
    /// Contacts that one of them had accepted, and did not have when it was asked.
    pub forgot: u64,
    /// Telephones refused because of a server behind.
    pub telephones_refused: u64,
    /// Telephones refused because there was no room for their address.
    pub refused_full: u64,
}

/// One server behind this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegistrarView {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// `up`, or `away` if three requests were not answered.
    pub state: &'static str,
    /// Addresses of record that it has, or may have.
    pub told_count: u64,
    /// Those that have a telephone, and that it has refused or not answered about.
    pub failing_count: u64,
    /// Requests that wait for its answer.
    pub pending_count: u64,
    /// REGISTER requests to it, without retransmissions.
    pub sent: u64,
    /// Its final answers.
    pub answered: u64,
    /// Refusals among them.
    pub refused: u64,
    /// Until the next request, in nanoseconds.
    pub next_in_ns: Option<u64>,
}
