use super::{
    AccountLocation, AccountStore, Failure, confirm,
    foreign_export::{self, ExportedAccount},
    say,
};
use crate::console;
use busyhour_sip::auth::Algorithm;
use busyhour_store::Account;
use clap::{Args, ValueEnum};
use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::PathBuf};

/// Write all accounts with their hashes, for `device import`, Kamailio, Asterisk or FreeSWITCH
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Export {
    /// The form
    #[arg(long, value_enum, default_value = "csv")]
    format: ExportFormat,

    /// Only accounts of this domain, one with accounts of its own
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,

    /// The file to make, which only its user can read [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    place: AccountLocation,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExportFormat {
    /// A header line, and a line an account, as `device import` reads it
    Csv,
    /// An array of objects, as `device import` reads it
    Json,
    /// The columns of Kamailio's table subscriber, as CSV
    Kamailio,
    /// Sections of Asterisk's pjsip.conf
    Asterisk,
    /// A file of FreeSWITCH's directory
    Freeswitch,
}

impl Export {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut target = self.place.open()?;
        let mut accounts = self.accounts(&mut target)?;
        let disabled = match self.format {
            ExportFormat::Csv | ExportFormat::Json => Vec::new(),
            // None of the others has a form for that: who may not register here may not do so there.
            _ => take_others(&target, &mut accounts, |one| !one.account.is_disabled),
        };
        let formless = match self.format {
            ExportFormat::Kamailio => take_hashless(&target, &mut accounts),
            ExportFormat::Asterisk => {
                let left_out = take_others(&target, &mut accounts, |one| one.has_pjsip_form());
                check_users(&accounts)?;
                left_out
            }
            ExportFormat::Freeswitch => {
                take_others(&target, &mut accounts, |one| one.has_directory_form())
            }
            ExportFormat::Csv | ExportFormat::Json => Vec::new(),
        };
        let rows: Vec<_> = accounts
            .iter()
            .map(|account| (target.name_of(account), target.domain_of(account), account))
            .collect();
        let text = match self.format {
            ExportFormat::Csv => {
                let rows = rows.iter().map(|(name, _, account)| own(name, account));
                csv_of(&COLUMNS, rows)
            }
            ExportFormat::Json => json_of(rows.iter().map(|(name, _, account)| (name, *account))),
            ExportFormat::Kamailio => {
                let first = target.first_domain();
                let rows = rows
                    .iter()
                    .map(|(_, own, account)| kamailio(account, own.unwrap_or(first)));
                csv_of(&KAMAILIO_COLUMNS, rows)
            }
            ExportFormat::Asterisk => Ok(foreign_export::pjsip_conf(&exported(&target, &accounts))),
            ExportFormat::Freeswitch => {
                Ok(foreign_export::directory(&exported(&target, &accounts)))
            }
        };
        let text = text.map_err(Failure::running)?;
        self.write(&text, rows.len())?;
        let left_out = [
            ("they are disabled", disabled),
            (self.format.why_formless(), formless),
        ];
        let left_out = left_out.iter().filter(|(_, names)| !names.is_empty());
        let said: Vec<_> = left_out
            .map(|(why, names)| {
                let (count, names) = (names.len(), names.join(", "));
                format!("left out {count}, since {why}: {names}")
            })
            .collect();
        match said.is_empty() {
            true => Ok(()),
            false => Err(Failure::running(said.join("; "))),
        }
    }

    /// Those of the domain, if one was named.
    fn accounts(&self, target: &mut AccountStore) -> Result<Vec<Account>, Failure> {
        let mut accounts = target.all()?;
        if let Some(domain) = &self.domain {
            let place = target.place(&format!("user@{domain}"))?;
            accounts.retain(|account| target.domain_of(account) == place.domain.as_deref());
        }
        Ok(accounts)
    }

    fn write(&self, text: &str, count: usize) -> Result<(), Failure> {
        let Some(path) = &self.output else {
            return say(text.trim_end());
        };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        let failed = |error| Failure::running(format!("{}: {error}", path.display()));
        written.map_err(failed)?;
        confirm(format_args!("{count} accounts are in {}", path.display()))
    }
}

impl ExportFormat {
    fn why_formless(self) -> &'static str {
        match self {
            Self::Csv | Self::Json => "they have no form there",
            Self::Kamailio => {
                "Kamailio takes hashes of MD5 and of SHA-256 only, and they have neither"
            }
            Self::Asterisk => "they have no hash of MD5, or a name that is none in pjsip.conf",
            Self::Freeswitch => {
                "they have no hash of MD5 for their domain, which is the realm of FreeSWITCH"
            }
        }
    }
}

/// Those of a domain beside each other.
fn exported<'a>(target: &'a AccountStore, accounts: &'a [Account]) -> Vec<ExportedAccount<'a>> {
    let mut all: Vec<_> = accounts.iter().map(|one| of_domain(target, one)).collect();
    all.sort_by_key(|one| (one.domain, &one.account.username));
    all
}

fn of_domain<'a>(target: &'a AccountStore, account: &'a Account) -> ExportedAccount<'a> {
    ExportedAccount {
        account,
        domain: target.domain_of(account).unwrap_or(target.first_domain()),
    }
}

/// Takes those without this form out; their names.
fn take_others(
    target: &AccountStore,
    accounts: &mut Vec<Account>,
    has_form: impl Fn(ExportedAccount<'_>) -> bool,
) -> Vec<String> {
    let others = accounts.extract_if(.., |account| !has_form(of_domain(target, account)));
    others.map(|account| target.name_of(&account)).collect()
}

/// An endpoint of Asterisk has the name of a user, whatever his domain.
fn check_users(accounts: &[Account]) -> Result<(), Failure> {
    let mut users: Vec<_> = accounts.iter().map(|one| &one.username).collect();
    users.sort();
    match users.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(Failure::running(format!(
            "`{}` is in several domains, which pjsip.conf does not tell apart: give --domain",
            two[0]
        ))),
        None => Ok(()),
    }
}

/// Takes those without a hash that Kamailio knows out; their names. Says how many have SHA-256
/// alone.
fn take_hashless(target: &AccountStore, accounts: &mut Vec<Account>) -> Vec<String> {
    let has = |account: &Account, algorithm| {
        account.secret.password().is_some()
            || !digest(account.secret.hashes(), algorithm).is_empty()
    };
    let is_hashless =
        |account: &mut Account| !has(account, Algorithm::Md5) && !has(account, Algorithm::Sha256);
    let left_out = accounts.extract_if(.., is_hashless);
    let left_out: Vec<_> = left_out.map(|account| target.name_of(&account)).collect();
    let of_sha_256 = accounts.iter().filter(|one| !has(one, Algorithm::Md5));
    let count = of_sha_256.count();
    if count > 0 {
        console::print_error(format_args!(
            "busyhour: warning: accounts with hashes of SHA-256 alone: {count}; Kamailio takes them with \
             modparam(\"auth\", \"algorithm\", \"SHA-256\")"
        ));
    }
    left_out
}

/// The values of columns, in their order.
type Fields = Vec<String>;

/// Everything that an import of ours takes, in the order of [`COLUMNS`].
fn own(name: &str, account: &Account) -> Fields {
    let hash = |algorithm| digest(account.secret.hashes(), algorithm);
    let of_address = |algorithm| digest(account.secret.address_hashes(), algorithm);
    let password = account.secret.password();
    let contacts = account.contacts_max.map(|count| count.to_string());
    let watchers = account.watchers.as_ref();
    vec![
        name.to_owned(),
        password.unwrap_or_default().to_owned(),
        hash(Algorithm::Md5),
        hash(Algorithm::Sha256),
        hash(Algorithm::Sha512_256),
        of_address(Algorithm::Md5),
        of_address(Algorithm::Sha256),
        of_address(Algorithm::Sha512_256),
        if password.is_some() { "yes" } else { "no" }.to_owned(),
        contacts.unwrap_or_default(),
        account.mailbox.clone().unwrap_or_default(),
        account.hints.join(" "),
        account.aliases.join(" "),
        // An empty list is another thing than none.
        watchers.map_or(String::new(), |list| match list.is_empty() {
            true => NOBODY.to_owned(),
            false => list.join(" "),
        }),
        if account.is_disabled { "yes" } else { "no" }.to_owned(),
        account.realm.clone(),
    ]
}

/// The hashes are good there if Kamailio's realm is this one.
fn kamailio(account: &Account, domain: &str) -> Fields {
    let (user, realm) = (&account.username, &account.realm);
    let address = format!("{user}@{domain}");
    let of_password = |user: &str| {
        let password = account.secret.password()?;
        let parts = [user, realm, password].map(str::as_bytes);
        Some(Algorithm::Md5.hash(&parts).to_string())
    };
    let ha1 = of_password(user);
    let ha1b = of_password(&address);
    let algorithm = match digest(account.secret.hashes(), Algorithm::Md5).is_empty() {
        true => Algorithm::Sha256,
        false => Algorithm::Md5,
    };
    let hash = || digest(account.secret.hashes(), algorithm);
    let of_address = || digest(account.secret.address_hashes(), algorithm);
    vec![
        user.clone(),
        domain.to_owned(),
        account.secret.password().unwrap_or_default().to_owned(),
        ha1.unwrap_or_else(hash),
        ha1b.unwrap_or_else(of_address),
    ]
}

pub(super) fn digest(
    hashes: &[(Algorithm, busyhour_sip::auth::HexDigest)],
    wanted: Algorithm,
) -> String {
    let found = hashes.iter().find(|(algorithm, _)| *algorithm == wanted);
    found.map_or(String::new(), |(_, digest)| digest.to_string())
}

fn csv_of(columns: &[&str], rows: impl Iterator<Item = Fields>) -> Result<String, String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = writer.write_record(columns);
    header.map_err(|error| error.to_string())?;
    for fields in rows {
        let written = writer.write_record(fields);
        written.map_err(|error| error.to_string())?;
    }
    let bytes = writer.into_inner().map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn json_of<'a>(rows: impl Iterator<Item = (&'a String, &'a Account)>) -> Result<String, String> {
    let objects = rows.map(|(name, account)| {
        let fields = COLUMNS.into_iter().zip(own(name, account));
        let mut object: serde_json::Map<String, serde_json::Value> = fields
            .filter(|(name, value)| !value.is_empty() && !TYPED_FIELDS.contains(name))
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        object.insert("iax2".into(), account.secret.password().is_some().into());
        object.insert("disabled".into(), account.is_disabled.into());
        object.insert("hints".into(), account.hints.clone().into());
        object.insert("aliases".into(), account.aliases.clone().into());
        if let Some(contacts) = account.contacts_max {
            object.insert("max_contacts".into(), contacts.into());
        }
        if let Some(watchers) = &account.watchers {
            object.insert("watchers".into(), watchers.clone().into());
        }
        serde_json::Value::Object(object)
    });
    let objects: Vec<_> = objects.collect();
    serde_json::to_string_pretty(&objects).map_err(|error| error.to_string())
}

/// What stands for a list of watchers with nobody on it in a line of a CSV file.
pub(super) const NOBODY: &str = "-";
/// The columns of a CSV file of ours.
pub(super) const COLUMNS: [&str; 16] = [
    "user",
    "password",
    "md5",
    "sha256",
    "sha512_256",
    "md5_address",
    "sha256_address",
    "sha512_256_address",
    "iax2",
    "max_contacts",
    "mailbox",
    "hints",
    "aliases",
    "watchers",
    "disabled",
    "realm",
];
/// Of Kamailio's table `subscriber`.
const KAMAILIO_COLUMNS: [&str; 5] = ["username", "domain", "password", "ha1", "ha1b"];
/// Those that are no texts in JSON.
const TYPED_FIELDS: [&str; 6] = [
    "iax2",
    "max_contacts",
    "hints",
    "aliases",
    "watchers",
    "disabled",
];
const AFTER_HELP: &str = "\
What is written is as good as the passwords: keep it from others. Hashes are good for their
realm alone, which each line has. Kamailio takes MD5, or SHA-256 where an account has no MD5;
accounts with neither are left out, named, and the exit code is 1. Asterisk and FreeSWITCH get
MD5; accounts without it are left out as well. None of the three has a form for an account that
is disabled: it is left out, named and counted.

Exit codes: 0 done, 1 failed or some left out, 2 wrong usage.";
