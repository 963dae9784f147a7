//! `busyhour domain` sets domains up in the store, whether a server runs or not.

use super::{
    Failure,
    device::{AccountLocation, AccountStore, Creation},
};
use crate::{console, server::TenantConfig};
use busyhour_store::SettingKind;
use clap::{Args, Subcommand};

/// Set up domains with accounts and settings of their own
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true)]
pub struct DomainCommand {
    #[command(subcommand)]
    action: DomainAction,
}

#[derive(Debug, Subcommand)]
enum DomainAction {
    Add(Box<AddDomain>),
    List(ListDomains),
    Show(ShowDomain),
    Remove(RemoveDomain),
}

/// Add a domain; its devices register as USER@DOMAIN with passwords of their own
#[derive(Debug, Args)]
struct AddDomain {
    /// The host of its addresses of record, in lower case
    #[arg(value_name = "DOMAIN")]
    name: String,

    /// The realm of its challenges, instead of its name
    #[arg(long)]
    realm: Option<String>,

    /// Another host that means the same domain; may be given several times
    #[arg(long = "alias", value_name = "HOST")]
    aliases: Vec<String>,

    /// Upper and lower case of users mean the same
    #[arg(long)]
    fold_case: bool,

    /// Telephone numbers are the same with separators and without
    #[arg(long)]
    phone_numbers: bool,

    /// The country code that 0 before a number stands for; 00 stands for +
    #[arg(
        long,
        value_name = "DIGITS",
        default_value = "",
        requires = "phone_numbers"
    )]
    country_code: String,

    /// Who may watch its users besides its own accounts: USER@DOMAIN, @DOMAIN or *; may be
    /// given several times
    #[arg(long = "watcher", value_name = "WHO")]
    watchers: Vec<String>,

    /// Accounts that it may have
    #[arg(long, value_name = "N")]
    max_accounts: Option<u64>,

    /// Contacts of all its accounts
    #[arg(long, value_name = "N")]
    max_contacts: Option<u64>,

    /// Subscriptions of all its accounts
    #[arg(long, value_name = "N")]
    max_watchers: Option<u64>,

    /// Calls at a time that its accounts have begun
    #[arg(long, value_name = "N")]
    max_calls: Option<u64>,

    /// Registrations in a second, and ten times as many at once
    #[arg(long, value_name = "N")]
    registrations_per_second: Option<u64>,

    /// Packet memory in KiB for each purpose
    #[arg(long, value_name = "KIB")]
    memory_kib: Option<u64>,

    /// Replace the domain if it exists
    #[arg(long)]
    replace: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    creation: Creation,

    #[command(flatten)]
    place: AccountLocation,
}

/// List the domains with settings of their own
#[derive(Debug, Args)]
struct ListDomains {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

/// Show how a domain is set up; `busyhour show tenants` shows what it has
#[derive(Debug, Args)]
struct ShowDomain {
    /// The domain
    #[arg(value_name = "DOMAIN")]
    name: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

/// Remove a domain; its accounts stay in the store, and register no more
#[derive(Debug, Args)]
struct RemoveDomain {
    /// The domain
    #[arg(value_name = "DOMAIN")]
    name: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

impl DomainCommand {
    /// Runs the subcommand.
    ///
    /// # Errors
    ///
    /// A mistake in the arguments, a domain that does not exist or is in the way of another
    /// one, or a store that cannot be read or written.
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            DomainAction::Add(command) => command.run(),
            DomainAction::List(command) => command.run(),
            DomainAction::Show(command) => command.run(),
            DomainAction::Remove(command) => command.run(),
        }
    }
}

impl AddDomain {
    fn run(self) -> Result<(), Failure> {
        let config = TenantConfig {
            name: self.name,
            realm: self.realm,
            aliases: self.aliases,
            fold_case: self.fold_case,
            phone_numbers: self.phone_numbers,
            country_code: self.country_code,
            watchers: self.watchers,
            max_accounts: self.max_accounts,
            max_contacts: self.max_contacts,
            max_watchers: self.max_watchers,
            max_calls: self.max_calls,
            registrations_per_second: self.registrations_per_second,
            memory_kib: self.memory_kib,
        };
        let mistakes = config.mistakes();
        if !mistakes.is_empty() {
            return Err(Failure::usage(mistakes.join("; ")));
        }
        let mut target = self.place.open_or_create(&self.creation)?;
        target.check_domain(&config, self.replace)?;
        let row = serde_json::to_string(&config).map_err(Failure::running)?;
        let put = target
            .admin
            .put_setting(SettingKind::Domain, &config.name, &row);
        put.map_err(Failure::running)?;
        if self.json {
            return say(serde_json::json!({ "store": target.store, "domain": config }));
        }
        say(format_args!(
            "{}: users register in the realm {} (database {})",
            config.name,
            target.realm_of(&config),
            target.store
        ))
    }
}

impl ListDomains {
    fn run(self) -> Result<(), Failure> {
        let target = self.place.open()?;
        let (domains, store) = (target.tenants(), &target.store);
        if self.json {
            return say(serde_json::json!({ "store": store, "domains": domains }));
        }
        for domain in domains {
            say(format_args!(
                "{}  realm {}",
                domain.name,
                target.realm_of(domain)
            ))?;
        }
        let count = domains.len();
        let noun = if count == 1 { "domain" } else { "domains" };
        say(format_args!(
            "{count} {noun} of database {store} and of the configuration"
        ))
    }
}

impl ShowDomain {
    fn run(self) -> Result<(), Failure> {
        let target = self.place.open()?;
        let domain = target.tenants().iter().find(|one| one.name == self.name);
        let Some(domain) = domain else {
            return Err(missing(&self.name, &target));
        };
        if self.json {
            return say(serde_json::json!({ "store": target.store, "domain": domain }));
        }
        // A table of texts, numbers and lists always is TOML.
        let text = toml::to_string(domain).unwrap_or_default();
        say(format_args!("[[domain]]\n{}", text.trim_end()))
    }
}

impl RemoveDomain {
    fn run(self) -> Result<(), Failure> {
        let mut target = self.place.open()?;
        let removed = target.admin.remove_setting(SettingKind::Domain, &self.name);
        match removed.map_err(Failure::running)? {
            true if self.json => say(serde_json::json!({
                "removed": self.name, "store": target.store,
            })),
            true => say(format_args!(
                "{} is removed from database {}; its accounts stay there",
                self.name, target.store
            )),
            false => Err(missing(&self.name, &target)),
        }
    }
}

fn missing(name: &str, target: &AccountStore) -> Failure {
    Failure::running(format!(
        "there is no domain `{name}` in database {}; those of the configuration are not there",
        target.store
    ))
}

fn say(text: impl std::fmt::Display) -> Result<(), Failure> {
    console::print(text).map_err(Failure::running)
}

const AFTER_HELP: &str = "\
Examples:
  busyhour domain add a.example              users are alice@a.example and so on
  busyhour device add alice@a.example        an account of it
  busyhour domain add b.example --watcher @a.example --max-accounts 100
  busyhour show tenants                      what each domain has, and what it may have

A domain of sip.domains keeps the accounts of the server: for it, `domain add` sets aliases,
rules for names, watchers and quotas. A server that runs on the same store notices changes
within about a second. `domain add --replace` sets a domain up anew as a whole.

Exit codes: 0 done, 1 failed or there already, 2 wrong usage.";
