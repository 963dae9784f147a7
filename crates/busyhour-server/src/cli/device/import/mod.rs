//! `busyhour device import`: accounts from a file of ours, and from the databases and files of
//! Kamailio, OpenSIPS, Asterisk and FreeSWITCH; and what telephones have registered at the first three.

mod asterisk;
mod contacts;
mod files;
mod foreign_account;
mod freeswitch;
mod kamailio;
mod location;
mod own_form;
mod pjsip_conf;
mod ps_contacts;
mod source;
mod sql_dump;
mod tables;

use super::{AccountLocation, AccountStore, Creation, Failure, confirm, say};
use crate::{console, server::TenantConfig};
use asterisk::Objects;
use busyhour_store::{Account, SettingKind};
use clap::{Args, ValueEnum};
use contacts::{ContactOutcome, ContactPlaces};
use foreign_account::ForeignAccount;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::tz::Offset;
use location::ForeignContact;
use source::{Source, SourceKind};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::SocketAddr,
    time::Instant,
};
use tables::Tables;

/// Add or replace many accounts, from files of ours or of another server
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Import {
    /// CSV or JSON of ours; a dump (SQL), tables as CSV, an SQLite file or a postgres:// URL of
    /// Kamailio, OpenSIPS or Asterisk; pjsip.conf; XML files or a folder of FreeSWITCH; or - for
    /// standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,

    /// Whose form it is [default: found out from the names and the content]
    #[arg(long, value_enum)]
    from: Option<ImportOrigin>,

    /// The format of a file of ours [default: by the ending of its name]
    #[arg(long, value_enum)]
    format: Option<own_form::ImportFormat>,

    /// The domain of accounts that name none
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,

    /// Take the contacts of the table location or ps_contacts too; no server may run. Each is asked
    /// after the next start whether it is there, as restored ones are; those over connections are
    /// left out
    #[arg(long)]
    contacts: bool,

    /// The address of Asterisk that its telephones registered at, and this server has from now on
    /// [default: sip.listen, if that is one address]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "contacts")]
    socket: Option<SocketAddr>,

    /// The offset of the times of location that name none, which are the local times of Kamailio
    #[arg(long, value_name = "+HH:MM", default_value = "+00:00", value_parser = offset)]
    utc_offset: Offset,

    /// Set up the domains that are not known, with the realm of their hashes
    #[arg(long)]
    add_domains: bool,

    /// Take the accounts that can be taken, and name the others
    #[arg(long)]
    skip_invalid: bool,

    /// Check the file and list what would change, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    creation: Creation,

    #[command(flatten)]
    place: AccountLocation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImportOrigin {
    /// `device export`, or written by hand
    Busyhour,
    /// The tables subscriber and dbaliases
    Kamailio,
    /// The tables ps_auths, ps_endpoints, ps_aors and ps_contacts, or pjsip.conf
    Asterisk,
    /// The XML of the directory
    Freeswitch,
}

/// What became of the accounts.
#[derive(Default)]
struct ImportOutcome {
    accounts: Vec<Account>,
    /// Their names, with `+` before a new one and `~` before one that changes.
    changes: Vec<String>,
    added: usize,
    changed: usize,
    unchanged: usize,
    mistakes: Vec<String>,
    /// Those that are new.
    domains: Vec<TenantConfig>,
    /// Nothing if none were wanted.
    contacts: Option<ContactOutcome>,
}

/// What is in the files.
#[derive(Default)]
struct ForeignContent {
    accounts: Vec<ForeignAccount>,
    contacts: Vec<ForeignContact>,
}

impl From<Vec<ForeignAccount>> for ForeignContent {
    fn from(accounts: Vec<ForeignAccount>) -> Self {
        Self {
            accounts,
            ..Self::default()
        }
    }
}

impl Import {
    pub(super) fn run(self) -> Result<(), Failure> {
        let begun = Instant::now();
        let found = self.found().map_err(Failure::usage)?;
        // A file with mistakes does not make a database.
        let ForeignContent { accounts, contacts } = found;
        let mistakes = mistakes_of_form(&accounts);
        if !self.skip_invalid && !mistakes.is_empty() {
            return Err(Failure::usage(shortened(mistakes)));
        }
        let mut target = self.place.open_or_create(&self.creation)?;
        let domains = match self.add_domains {
            true => self.add_domains(&accounts, &mut target)?,
            false => Vec::new(),
        };
        let mut outcome = self.outcome(accounts, &mut target)?;
        outcome.domains = domains;
        let places = self.places(&target)?;
        if self.contacts {
            // Nothing is written when a server has the store, or a contact is wrong.
            let tried = contacts::put(&self.place.config()?, &places, &contacts, true)?;
            outcome.mistakes.extend(tried.mistakes.iter().cloned());
            outcome.contacts = Some(tried);
        }
        if !outcome.mistakes.is_empty() {
            if !self.skip_invalid {
                return Err(Failure::usage(shortened(outcome.mistakes)));
            }
            for mistake in &outcome.mistakes {
                console::print_error(format_args!("busyhour: skipped: {mistake}"));
            }
        }
        if !self.dry_run {
            self.put(&mut target, &outcome)?;
            if self.contacts {
                contacts::put(&self.place.config()?, &places, &contacts, false)?;
            }
        }
        self.report(&outcome, &target, begun)
    }

    /// Where contacts are, beside the domains that there will be.
    fn places(&self, target: &AccountStore) -> Result<ContactPlaces, Failure> {
        let config = self.place.config()?;
        Ok(ContactPlaces::new(
            &config,
            target.tenants(),
            self.domain.as_deref(),
        ))
    }

    /// What is in all sources, each of which is read once.
    fn found(&self) -> Result<ForeignContent, String> {
        let open = |name: &String| Source::open(name, self.from, self.format);
        let sources = self.files.iter().map(open);
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        check_alike(&sources)?;
        let origin = sources.first().and_then(|source| source.kind.origin());
        if self.contacts && origin.is_some() {
            return Err(NO_CONTACTS.into());
        }
        match origin {
            Some(ImportOrigin::Busyhour) => Ok(own_accounts(&sources)?.into()),
            Some(ImportOrigin::Freeswitch) => {
                Ok(freeswitch::read(&sources, self.domain.is_some())?.into())
            }
            Some(_) => Ok(pjsip_conf::read(&sources)?.accounts().into()),
            None => self.of_tables(&sources),
        }
    }

    fn of_tables(&self, sources: &[Source]) -> Result<ForeignContent, String> {
        let mut tables = Tables::default();
        sources.iter().try_for_each(|source| tables.read(source))?;
        let (has_subscribers, has_auths) = (tables.has("subscriber"), tables.has("ps_auths"));
        let (has_location, has_contacts) = (tables.has("location"), tables.has("ps_contacts"));
        if self.contacts && !has_location && !has_contacts {
            return Err(NO_CONTACTS.into());
        }
        let is_kamailio = has_subscribers || self.contacts && has_location;
        let is_asterisk = has_auths || self.contacts && has_contacts;
        match self.from {
            None if is_kamailio && is_asterisk => Err(BOTH.into()),
            None | Some(ImportOrigin::Kamailio) if is_kamailio => Ok(self.of_kamailio(&tables)),
            None | Some(ImportOrigin::Asterisk) if is_asterisk => self.of_asterisk(&tables),
            Some(ImportOrigin::Kamailio) => Err("there is no table subscriber in it".into()),
            Some(ImportOrigin::Asterisk) => Err("there is no table ps_auths in it".into()),
            _ => Err("there is neither a table subscriber nor a table ps_auths in it".into()),
        }
    }

    fn of_kamailio(&self, tables: &Tables) -> ForeignContent {
        self.note_left_out(tables, "location");
        ForeignContent {
            accounts: kamailio::accounts(tables),
            contacts: match self.contacts {
                true => location::contacts(tables, self.utc_offset),
                false => Vec::new(),
            },
        }
    }

    fn of_asterisk(&self, tables: &Tables) -> Result<ForeignContent, String> {
        self.note_left_out(tables, "ps_contacts");
        Ok(ForeignContent {
            accounts: Objects::of(tables).accounts(),
            contacts: match self.contacts {
                true => ps_contacts::contacts(tables, self.socket()?),
                false => Vec::new(),
            },
        })
    }

    /// Where telephones of Asterisk have registered, which its table does not say; nothing if that is not known.
    fn socket(&self) -> Result<Option<SocketAddr>, String> {
        if self.socket.is_some() {
            return Ok(self.socket);
        }
        let config = self.place.config().map_err(Failure::into_message)?;
        let is_one = |address: &&SocketAddr| !address.ip().is_unspecified() && address.port() != 0;
        Ok(match config.sip.listen.as_slice() {
            [one] => Some(one).filter(is_one).copied(),
            _ => None,
        })
    }

    fn note_left_out(&self, tables: &Tables, table: &str) {
        let count = tables.rows(table).len();
        if count > 0 && !self.contacts {
            console::print_error(format_args!(
                "busyhour: {count} contacts of {table} are not taken: a device registers here when its \
                 registration there is due, or --contacts takes them"
            ));
        }
    }

    /// The domains that accounts name and that are not known: `target` knows them from now on, and
    /// they are not stored yet.
    fn add_domains(
        &self,
        found: &[ForeignAccount],
        target: &mut AccountStore,
    ) -> Result<Vec<TenantConfig>, Failure> {
        let mut realms: HashMap<String, Option<String>> = HashMap::new();
        for account in found {
            let domain = account.domain.as_deref().or(self.domain.as_deref());
            if let Some(domain) = domain.map(str::to_lowercase) {
                let is_hashed = account
                    .entry
                    .as_ref()
                    .is_ok_and(|entry| entry.password.is_none());
                let realm = account
                    .realm
                    .clone()
                    .filter(|realm| is_hashed && *realm != domain);
                let known = realms.entry(domain).or_default();
                *known = known.take().or(realm);
            }
        }
        let names: BTreeSet<String> = realms.keys().cloned().collect();
        let mut added = Vec::new();
        for name in names {
            if target.place(&format!("user@{name}")).is_ok() {
                continue;
            }
            let realm = realms.remove(&name).flatten();
            let config = TenantConfig {
                name: name.clone(),
                realm,
                ..TenantConfig::default()
            };
            let mistakes = config.mistakes();
            if !mistakes.is_empty() {
                return Err(Failure::usage(format!(
                    "domain `{name}`: {}",
                    mistakes.join("; ")
                )));
            }
            target.check_domain(&config, false)?;
            target.learn(config.clone());
            added.push(config);
        }
        Ok(added)
    }

    /// Compares what was found with what is there.
    fn outcome(
        &self,
        found: Vec<ForeignAccount>,
        target: &mut AccountStore,
    ) -> Result<ImportOutcome, Failure> {
        let known = target.admin.all().map_err(Failure::running)?;
        let known = known
            .into_iter()
            .map(|one| ((one.realm.clone(), one.username.clone()), one));
        let known: HashMap<_, _> = known.collect();
        let (mut outcome, mut seen) = (ImportOutcome::default(), HashSet::new());
        for account in found {
            let place = account.place.clone();
            match account.placed(target, self.domain.as_deref()) {
                Ok(account) => {
                    let key = (account.realm.clone(), account.username.clone());
                    if !seen.insert(key.clone()) {
                        let user = &account.username;
                        outcome
                            .mistakes
                            .push(format!("{place}: user `{user}` is given twice"));
                        continue;
                    }
                    let name = target.name_of(&account);
                    outcome.take(account, name, known.get(&key));
                }
                Err(reason) => outcome.mistakes.push(format!("{place}: {reason}")),
            }
        }
        target.check_rooms(&outcome.accounts, |account| {
            !known.contains_key(&(account.realm.clone(), account.username.clone()))
        })?;
        Ok(outcome)
    }

    fn put(&self, target: &mut AccountStore, outcome: &ImportOutcome) -> Result<(), Failure> {
        for config in &outcome.domains {
            let row = serde_json::to_string(config).map_err(Failure::running)?;
            let put = target
                .admin
                .put_setting(SettingKind::Domain, &config.name, &row);
            put.map_err(Failure::running)?;
        }
        let bar = bar(outcome.accounts.len() as u64);
        for group in outcome.accounts.chunks(GROUP_LEN) {
            // A running server can write between two groups.
            target.admin.put(group).map_err(Failure::running)?;
            bar.inc(group.len() as u64);
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn report(
        &self,
        outcome: &ImportOutcome,
        target: &AccountStore,
        begun: Instant,
    ) -> Result<(), Failure> {
        let seconds = begun.elapsed().as_secs_f64();
        let count = outcome.accounts.len();
        let AccountStore { realm, store, .. } = target;
        let ImportOutcome {
            added,
            changed,
            unchanged,
            ..
        } = outcome;
        let domains: Vec<_> = outcome.domains.iter().map(|one| &one.name).collect();
        if self.json {
            return say(serde_json::json!({
                "devices": count, "realm": realm, "store": store,
                "dry_run": self.dry_run, "seconds": seconds,
                "added": added, "changed": changed, "unchanged": unchanged,
                "skipped": outcome.mistakes.len(), "domains": domains,
                "changes": outcome.changes, "contacts": outcome.contacts.as_ref().map(ContactOutcome::report),
            }));
        }
        if let Some(contacts) = &outcome.contacts {
            say(contacts)?;
        }
        if self.dry_run {
            for domain in domains {
                say(format_args!("+ domain {domain}"))?;
            }
            for change in &outcome.changes {
                say(change)?;
            }
            return say(format_args!(
                "{count} devices are valid; nothing was changed in database {store} ({added} would be added, \
                 {changed} changed)"
            ));
        }
        let realms: BTreeSet<&str> = outcome
            .accounts
            .iter()
            .map(|one| one.realm.as_str())
            .collect();
        let realms = match realms.len() {
            0 | 1 => format!("the realm {}", realms.first().unwrap_or(&realm.as_str())),
            more => format!("{more} realms"),
        };
        confirm(format_args!(
            "{count} devices may register in {realms} (database {store}, {seconds:.1} s)"
        ))
    }
}

impl ImportOutcome {
    fn take(&mut self, account: Account, name: String, known: Option<&Account>) {
        match known {
            None => {
                self.added += 1;
                self.changes.push(format!("+ {name}"));
            }
            Some(known) if *known == account => self.unchanged += 1,
            Some(_) => {
                self.changed += 1;
                self.changes.push(format!("~ {name}"));
            }
        }
        self.accounts.push(account);
    }
}

fn own_accounts(sources: &[Source]) -> Result<Vec<ForeignAccount>, String> {
    let mut accounts = Vec::new();
    for source in sources {
        if let SourceKind::Own(format) = source.kind {
            accounts.extend(own_form::read(source.shown(), &source.text, format)?);
        }
    }
    Ok(accounts)
}

/// Accounts of one server are often in several files, but not those of several.
fn check_alike(sources: &[Source]) -> Result<(), String> {
    let Some((first, others)) = sources.split_first() else {
        return Ok(());
    };
    let other = others
        .iter()
        .find(|other| other.kind.origin() != first.kind.origin());
    match other {
        None => Ok(()),
        Some(other) => Err(format!(
            "{} and {} are of different servers: import one after the other, or say whose they are with --from",
            first.shown(),
            other.shown()
        )),
    }
}

/// What is wrong whatever the domains are.
fn mistakes_of_form(found: &[ForeignAccount]) -> Vec<String> {
    let mut seen = HashSet::new();
    let mistake = |account: &ForeignAccount| {
        let place = &account.place;
        match account.mistake() {
            Some(reason) => Some(format!("{place}: {reason}")),
            None => match &account.entry {
                Ok(entry) if !seen.insert((account.domain.clone(), entry.user.clone())) => {
                    Some(format!("{place}: user `{}` is given twice", entry.user))
                }
                _ => None,
            },
        }
    };
    found.iter().filter_map(mistake).collect()
}

/// All mistakes, one on each line, up to a limit.
fn shortened(mut mistakes: Vec<String>) -> String {
    let more = mistakes.len().saturating_sub(MISTAKES_SHOWN);
    mistakes.truncate(MISTAKES_SHOWN);
    if more > 0 {
        mistakes.push(format!("and {more} more"));
    }
    mistakes.join("\n")
}

/// A progress bar; silent unless standard error is a terminal, and with --quiet.
fn bar(total: u64) -> ProgressBar {
    let bar = match console::is_quiet() {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(total),
    };
    match ProgressStyle::with_template(TEMPLATE) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn offset(text: &str) -> Result<Offset, String> {
    let begin = format!("1970-01-02T00:00:00{text}").parse::<jiff::Timestamp>();
    let seconds = begin.ok().map(|at| 86_400 - at.as_second());
    let offset = seconds.and_then(|seconds| Offset::from_seconds(seconds as i32).ok());
    offset.ok_or_else(|| "give hours and minutes, such as +02:00".to_owned())
}

const TEMPLATE: &str = "{elapsed_precise} {wide_bar} {pos}/{len} devices, {per_sec}";
const BOTH: &str =
    "it has tables of Kamailio and of Asterisk: give --from kamailio or --from asterisk";
const NO_CONTACTS: &str = "--contacts: there is neither a table location of Kamailio or OpenSIPS nor ps_contacts of Asterisk in it";
const GROUP_LEN: usize = 1000;
const MISTAKES_SHOWN: usize = 20;
const AFTER_HELP: &str = "\
A CSV file of ours has a header line with some of: user, password, md5, sha256, sha512_256,
md5_address, sha256_address, sha512_256_address, iax2 (yes or no), max_contacts, mailbox, hints, aliases, watchers
(parted by spaces), disabled (yes or no), realm. A user may be user@domain:

  user,password,mailbox,hints
  alice,something long,100,200 201

A JSON file is an array of objects with the same names; hints is an array:

  [{\"user\": \"alice\", \"password\": \"something long\", \"hints\": [\"200\", \"201\"]}]

From other servers:

  busyhour device import --add-domains kamailio.sql           a dump of subscriber and dbaliases
  busyhour device import /etc/kamailio/kamailio.sqlite        the database itself
  busyhour device import --contacts kamailio.sql              with what is registered; stop both servers first
  busyhour device import --from kamailio postgres://reader@db.example/kamailio
  busyhour device import --domain a.example /etc/asterisk/pjsip.conf
  busyhour device import ps_auths.csv ps_endpoints.csv ps_aors.csv
  busyhour device import --contacts --socket 192.0.2.1:5060 asterisk.sql
  busyhour device import --add-domains /etc/freeswitch/vars.xml /etc/freeswitch/directory

A hash is good for its realm alone: an account that has nothing else goes to a domain with that
realm. The whole file is checked first; one with mistakes changes nothing, unless --skip-invalid
is given.

Exit codes: 0 done, 1 failed, 2 mistakes in the file or wrong usage.";
