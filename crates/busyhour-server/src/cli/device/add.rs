use super::{AccountLocation, Creation, Failure, confirm, password, say};
use busyhour_store::AccountEntry;
use clap::Args;

/// Add an account, so that a device can register
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct AddDevice {
    /// The user name: the user part of the address of record, and the digest user name; with
    /// @DOMAIN behind it, of a domain that `busyhour domain add` has made
    #[arg(value_name = "USER")]
    user: String,

    /// Store the password itself, which IAX2 needs; otherwise only its hashes are stored
    #[arg(long)]
    iax2: bool,

    /// Contacts that the device may have at a time, instead of sip.max_contacts
    #[arg(long, value_name = "N")]
    max_contacts: Option<u32>,

    /// The mailbox whose message counts the device receives
    #[arg(long, value_name = "NAME")]
    mailbox: Option<String>,

    /// A hint (extension) that shows the device's state; may be given several times
    #[arg(long = "hint", value_name = "EXTENSION")]
    hints: Vec<String>,

    /// Another name of the same address: a user name, or user@domain; may be given several
    /// times
    #[arg(long = "alias", value_name = "NAME")]
    aliases: Vec<String>,

    /// MD5 of user:realm:password, instead of a password
    #[arg(long, value_name = "HEX")]
    md5: Option<String>,

    /// SHA-256 of user:realm:password
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,

    /// SHA-512-256 of user:realm:password
    #[arg(long, value_name = "HEX")]
    sha512_256: Option<String>,

    /// Replace the account if it exists
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

impl AddDevice {
    pub(super) fn run(self) -> Result<(), Failure> {
        let name = self.user;
        let mut entry = AccountEntry {
            password: None,
            user: user_of(&name).to_owned(),
            md5: self.md5,
            sha256: self.sha256,
            sha512_256: self.sha512_256,
            iax2: self.iax2,
            max_contacts: self.max_contacts,
            mailbox: self.mailbox,
            hints: self.hints,
            aliases: self.aliases,
            watchers: None,
            disabled: false,
            md5_address: None,
            sha256_address: None,
            sha512_256_address: None,
        };
        let hashes = [&entry.md5, &entry.sha256, &entry.sha512_256];
        let needs_password = hashes.iter().all(|hash| hash.is_none());
        // Checked before a database is created, and before a person types a password in
        // vain.
        match needs_password {
            true => entry.check_before_password(),
            false => entry.clone().check("realm").map(drop),
        }
        .map_err(Failure::usage)?;
        let mut accounts = self.place.open_or_create(&self.creation)?;
        let placed = accounts.place(&name)?;
        let is_there = accounts.find(&placed)?.is_some();
        if !is_there {
            accounts.check_room(&placed, 1)?;
        }
        if !self.replace && is_there {
            let user = &name;
            let store = &accounts.store;
            let message = format!(
                "device `{user}` already exists in database {store}; --replace replaces it"
            );
            return Err(Failure::running(message));
        }
        if needs_password {
            entry.password = Some(password::read(&name)?);
        }
        let account = entry.check_in(&placed.realm, placed.domain.as_deref());
        let account = account.map_err(Failure::usage)?;
        let put = accounts.admin.put(std::slice::from_ref(&account));
        put.map_err(Failure::running)?;
        if self.json {
            return say(serde_json::json!({
                "user": account.username, "realm": account.realm, "store": accounts.store,
            }));
        }
        confirm(format_args!(
            "{}: may register in the realm {} (database {})",
            name, account.realm, accounts.store
        ))
    }
}

/// The user of a name that may have a domain behind it.
fn user_of(name: &str) -> &str {
    name.rsplit_once('@').map_or(name, |(user, _)| user)
}

const AFTER_HELP: &str = "\
The password is asked for on a terminal, and is the first line of standard input
otherwise. It is never shown, and kept as hashes unless --iax2 is given.

Exit codes: 0 done, 1 failed or there already, 2 wrong usage.";
