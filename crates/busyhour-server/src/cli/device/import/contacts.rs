//! Puts contacts of another server into the store of one that does not run: the next start restores them, and asks each one
//! before it is believed.

use super::{
    Failure,
    location::{ForeignContact, LeasedContact},
};
use crate::{
    cli::service,
    config::Config,
    server::{ServerConfig, TenantConfig, steady_time},
};
use busyhour::clock::{Clock, UnixTime};
use busyhour_registrar::{BindingChange, BindingId, Domains, Lease, address_of_record};
use busyhour_sip::Uri;
use busyhour_store::{Change, Contents, Store, StoredBinding};
use std::{
    collections::HashMap,
    fmt::{self, Display, Formatter},
    sync::mpsc,
    time::Duration,
};

/// What became of the contacts.
#[derive(Default)]
pub(super) struct ContactOutcome {
    /// New ones, and such as were there with a lease that ends earlier.
    pub(super) taken: usize,
    /// Those that are there already.
    pub(super) unchanged: usize,
    /// Those whose leases have ended.
    pub(super) ended: usize,
    /// Those that are reached over a connection.
    pub(super) connected: usize,
    /// Why others are not taken.
    pub(super) mistakes: Vec<String>,
    changes: Vec<Change>,
}

/// The addresses of record of a server with these domains.
pub(super) struct ContactPlaces {
    domains: Domains,
    default_domain: Option<String>,
}

impl ContactPlaces {
    pub(super) fn new(
        config: &Config,
        tenants: &[TenantConfig],
        default_domain: Option<&str>,
    ) -> Self {
        let server = ServerConfig {
            tenants: tenants.to_vec(),
            ..config.server()
        };
        let domains = server.domains();
        let first = domains.first().map(str::to_owned);
        Self {
            default_domain: default_domain.map(str::to_owned).or(first),
            domains,
        }
    }

    fn aor(&self, contact: &ForeignContact) -> Result<String, String> {
        let domain = contact.domain.as_deref().or(self.default_domain.as_deref());
        let address = format!("{}@{}", contact.user, domain.unwrap_or_default());
        let uri = format!("sip:{address}");
        let aor = Uri::parse(&uri).and_then(|uri| address_of_record(&uri, &self.domains).ok());
        aor.ok_or_else(|| format!("`{address}` is no user of a domain of this server"))
    }
}

/// Opens the store, which no server may hold, compares what was found with what is there, and writes it unless this is a trial.
pub(super) fn put(
    config: &Config,
    places: &ContactPlaces,
    found: &[ForeignContact],
    is_dry_run: bool,
) -> Result<ContactOutcome, Failure> {
    if config.cluster.node.is_some() {
        return Err(Failure::usage(
            "--contacts: a node of a cluster restores contacts of its partitions only; import them before the cluster is set up",
        ));
    }
    let store = service::open_store(&config.store, None)?;
    let contents = store.load().map_err(Failure::running)?;
    let outcome = ContactOutcome::of(found, places, &contents);
    if !is_dry_run {
        commit(&*store, outcome.changes.clone())?;
    }
    match store.close(CLOSE_WITHIN) {
        true => Ok(outcome),
        false => Err(Failure::running(
            "the store has not written all within a minute",
        )),
    }
}

impl ContactOutcome {
    fn of(found: &[ForeignContact], places: &ContactPlaces, contents: &Contents) -> Self {
        let clock = Clock::machine();
        let (now, steady) = (clock.unix_time(), steady_time(contents, &clock));
        let mut known: HashMap<&str, Vec<&StoredBinding>> = HashMap::new();
        for row in &contents.bindings {
            known.entry(&row.aor).or_default().push(row);
        }
        let mut outcome = Self::default();
        let mut id = contents.highest_id();
        for contact in found {
            let place = &contact.place;
            let (aor, leased) = match (places.aor(contact), &contact.leased) {
                (Ok(aor), Ok(leased)) => (aor, leased),
                (Err(reason), _) => {
                    outcome.mistakes.push(format!("{place}: {reason}"));
                    continue;
                }
                (_, Err(reason)) => {
                    outcome.mistakes.push(format!("{place}: {reason}"));
                    continue;
                }
            };
            let Some(leased) = leased else {
                outcome.connected += 1;
                continue;
            };
            let Some(lease) = leased.lease(now, steady) else {
                outcome.ended += 1;
                continue;
            };
            let there = known.get(&*aor).into_iter().flatten();
            let there = there
                .copied()
                .find(|row| row.contact.uri() == leased.contact.uri());
            let is_as_long =
                |row: &&StoredBinding| row.lease.expires_at + ROUNDING >= lease.expires_at;
            if there.as_ref().is_some_and(is_as_long) {
                outcome.unchanged += 1;
                continue;
            }
            id += u64::from(there.is_none());
            outcome.taken += 1;
            outcome.changes.push(Change::Binding(BindingChange::Put {
                id: there.map_or(BindingId(id), |row| row.id),
                aor: aor.into(),
                contact: leased.contact.clone(),
                lease,
            }));
        }
        outcome
    }

    /// For programs.
    pub(super) fn report(&self) -> serde_json::Value {
        serde_json::json!({
            "taken": self.taken, "unchanged": self.unchanged, "ended": self.ended, "connected": self.connected,
        })
    }
}

impl Display for ContactOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            taken,
            unchanged,
            ended,
            connected,
            ..
        } = self;
        write!(
            f,
            "{taken} contacts of other servers, {unchanged} that are there already; left out: {ended} that have ended, \
             {connected} over connections"
        )
    }
}

impl LeasedContact {
    /// As the store counts time; nothing if it has ended.
    fn lease(&self, now: UnixTime, steady: UnixTime) -> Option<Lease> {
        let left = self.ends_at - now;
        let granted_s = left.as_secs().min(LEASE_S_MAX);
        (granted_s > 0).then(|| Lease {
            cseq: self.cseq,
            granted_s: granted_s as u32,
            expires_at: steady + Duration::from_secs(granted_s),
            removed: false,
        })
    }
}

/// Waits until all is durable.
fn commit(store: &dyn Store, changes: Vec<Change>) -> Result<(), Failure> {
    for group in changes.chunks(GROUP_LEN) {
        let (told, heard) = mpsc::channel();
        let done = Box::new(move |fate| drop(told.send(fate)));
        store
            .commit(group.to_vec(), done)
            .map_err(Failure::running)?;
        let fate = heard.recv().map_err(Failure::running)?;
        fate.map_err(Failure::running)?;
    }
    Ok(())
}

const GROUP_LEN: usize = 1000;
/// The same end of a lease, read at two times, differs by less.
const ROUNDING: Duration = Duration::from_secs(2);
const CLOSE_WITHIN: Duration = Duration::from_secs(60);
/// A longer lease than any registrar grants comes from a wrong time: a year.
const LEASE_S_MAX: u64 = 366 * 86_400;
