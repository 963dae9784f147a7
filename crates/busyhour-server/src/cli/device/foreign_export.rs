//! Accounts in the forms of Asterisk and FreeSWITCH, each with a hash of MD5.

use super::export::digest;
use busyhour_sip::auth::Algorithm;
use busyhour_store::Account;
use std::fmt::Write;

/// An account and the domain that it is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExportedAccount<'a> {
    pub(super) account: &'a Account,
    pub(super) domain: &'a str,
}

impl ExportedAccount<'_> {
    /// Whether a section of `pjsip.conf` can be its: there are separators that no name may have.
    pub(super) fn has_pjsip_form(self) -> bool {
        let is_name = |text: &str| !text.contains([',', ';', '[', ']', '#', '\\', '=', ' ']);
        let mailbox = self.account.mailbox.as_deref().unwrap_or_default();
        !self.hash(&self.account.realm).is_empty()
            && [&self.account.username, mailbox].into_iter().all(is_name)
    }

    /// FreeSWITCH challenges with the domain, so a hash for another realm is of no use there.
    pub(super) fn has_directory_form(self) -> bool {
        !self.hash(self.domain).is_empty()
    }

    /// Its hash for a realm; empty without one.
    fn hash(self, realm: &str) -> String {
        let account = self.account;
        match account.secret.password() {
            Some(password) => {
                let parts = [&account.username, realm, password].map(str::as_bytes);
                Algorithm::Md5.hash(&parts).to_string()
            }
            None if account.realm == realm => digest(account.secret.hashes(), Algorithm::Md5),
            None => String::new(),
        }
    }
}

/// Sections of `pjsip.conf`: an `auth`, an `aor` and an `endpoint` for each.
pub(super) fn pjsip_conf(accounts: &[ExportedAccount<'_>]) -> String {
    let mut out = String::new();
    for one in accounts {
        let (account, user) = (one.account, &one.account.username);
        let (realm, hash) = (&account.realm, one.hash(&account.realm));
        let contacts = account.contacts_max.unwrap_or(CONTACTS_USUAL);
        let _ = write!(
            out,
            "[{user}]\ntype=auth\nauth_type=md5\nusername={user}\nrealm={realm}\nmd5_cred={hash}\n\n\
             [{user}]\ntype=aor\nmax_contacts={contacts}\n"
        );
        if let Some(mailbox) = &account.mailbox {
            let _ = writeln!(out, "mailboxes={mailbox}");
        }
        let _ = write!(
            out,
            "\n[{user}]\ntype=endpoint\nauth={user}\naors={user}\nfrom_domain={}\n\n",
            one.domain
        );
    }
    out
}

/// A file of FreeSWITCH's directory. The accounts of a domain are beside each other.
pub(super) fn directory(accounts: &[ExportedAccount<'_>]) -> String {
    let mut out = "<include>\n".to_owned();
    for of_domain in accounts.chunk_by(|one, next| one.domain == next.domain) {
        let _ = writeln!(out, "  <domain name=\"{}\">", escaped(of_domain[0].domain));
        for one in of_domain {
            let (user, hash) = (escaped(&one.account.username), one.hash(one.domain));
            let mailbox = one.account.mailbox.as_deref().map(escaped);
            let mailbox = mailbox.map(|it| format!(" mailbox=\"{it}\""));
            let _ = writeln!(
                out,
                "    <user id=\"{user}\"{}>\n      <params>\n        \
                 <param name=\"a1-hash\" value=\"{hash}\"/>\n      </params>\n    </user>",
                mailbox.unwrap_or_default()
            );
        }
        out.push_str("  </domain>\n");
    }
    out + "</include>\n"
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

/// Without a number Asterisk takes no contact at all.
const CONTACTS_USUAL: u32 = 10;
