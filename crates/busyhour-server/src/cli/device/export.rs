use super::{AccountLocation, Failure, say};
use busyhour_sip::auth::Algorithm;
use busyhour_store::Account;
use clap::{Args, ValueEnum};
use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::PathBuf};

/// Write all accounts with their hashes, for `device import` or for Kamailio
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
}

impl Export {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut target = self.place.open()?;
        let mut accounts = target.all()?;
        if let Some(domain) = &self.domain {
            accounts.retain(|account| target.domain_of(account) == Some(domain));
        }
        let rows: Vec<_> = accounts
            .iter()
            .map(|account| (target.name_of(account), target.domain_of(account), account))
            .collect();
        let text = match self.format {
            ExportFormat::Csv => csv_of(rows.iter().map(|(name, _, account)| own(name, account))),
            ExportFormat::Json => json_of(rows.iter().map(|(name, _, account)| (name, *account))),
            ExportFormat::Kamailio => {
                let domain = target.first_domain();
                csv_of(
                    rows.iter()
                        .map(|(_, own, account)| kamailio(account, own.unwrap_or(domain))),
                )
            }
        };
        let text = text.map_err(Failure::running)?;
        match &self.output {
            None => say(text.trim_end()),
            Some(path) => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                let file = options.open(path);
                let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
                let failed = |error| Failure::running(format!("{}: {error}", path.display()));
                written.map_err(failed)?;
                say(format_args!(
                    "{} accounts are in {}",
                    rows.len(),
                    path.display()
                ))
            }
        }
    }
}

type Fields = Vec<(&'static str, String)>;

/// Everything that an import of ours takes.
fn own(name: &str, account: &Account) -> Fields {
    let hash = |algorithm| digest(account.secret.hashes(), algorithm);
    let of_address = |algorithm| digest(account.secret.address_hashes(), algorithm);
    let password = account.secret.password();
    let contacts = account.contacts_max.map(|count| count.to_string());
    let watchers = account.watchers.as_ref();
    vec![
        ("user", name.to_owned()),
        ("password", password.unwrap_or_default().to_owned()),
        ("md5", hash(Algorithm::Md5)),
        ("sha256", hash(Algorithm::Sha256)),
        ("sha512_256", hash(Algorithm::Sha512_256)),
        ("md5_address", of_address(Algorithm::Md5)),
        ("sha256_address", of_address(Algorithm::Sha256)),
        ("sha512_256_address", of_address(Algorithm::Sha512_256)),
        (
            "iax2",
            if password.is_some() { "yes" } else { "no" }.to_owned(),
        ),
        ("max_contacts", contacts.unwrap_or_default()),
        ("mailbox", account.mailbox.clone().unwrap_or_default()),
        ("hints", account.hints.join(" ")),
        ("aliases", account.aliases.join(" ")),
        // An empty list is another thing than none.
        (
            "watchers",
            watchers.map_or(String::new(), |list| match list.is_empty() {
                true => NOBODY.to_owned(),
                false => list.join(" "),
            }),
        ),
        (
            "disabled",
            if account.is_disabled { "yes" } else { "no" }.to_owned(),
        ),
        ("realm", account.realm.clone()),
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
    let hash = || digest(account.secret.hashes(), Algorithm::Md5);
    let of_address = || digest(account.secret.address_hashes(), Algorithm::Md5);
    vec![
        ("username", user.clone()),
        ("domain", domain.to_owned()),
        (
            "password",
            account.secret.password().unwrap_or_default().to_owned(),
        ),
        ("ha1", ha1.unwrap_or_else(hash)),
        ("ha1b", ha1b.unwrap_or_else(of_address)),
    ]
}

fn digest(hashes: &[(Algorithm, busyhour_sip::auth::HexDigest)], wanted: Algorithm) -> String {
    let found = hashes.iter().find(|(algorithm, _)| *algorithm == wanted);
    found.map_or(String::new(), |(_, digest)| digest.to_string())
}

fn csv_of(rows: impl Iterator<Item = Fields>) -> Result<String, String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut is_first = true;
    for fields in rows {
        if std::mem::take(&mut is_first) {
            let header = fields.iter().map(|(name, _)| *name);
            writer
                .write_record(header)
                .map_err(|error| error.to_string())?;
        }
        let values = fields.iter().map(|(_, value)| value);
        writer
            .write_record(values)
            .map_err(|error| error.to_string())?;
    }
    let bytes = writer.into_inner().map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn json_of<'a>(rows: impl Iterator<Item = (&'a String, &'a Account)>) -> Result<String, String> {
    let objects = rows.map(|(name, account)| {
        let fields = own(name, account).into_iter();
        let mut object: serde_json::Map<String, serde_json::Value> = fields
            .filter(|(name, value)| !value.is_empty() && !LISTS.contains(name))
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
const LISTS: [&str; 6] = [
    "iax2",
    "max_contacts",
    "hints",
    "aliases",
    "watchers",
    "disabled",
];
const AFTER_HELP: &str = "\
What is written is as good as the passwords: keep it from others. Hashes are good for their
realm alone, which each line has.

Exit codes: 0 done, 1 failed, 2 wrong usage.";
