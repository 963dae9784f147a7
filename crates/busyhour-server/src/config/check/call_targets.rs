//! Whether calls for help and to the voicemail lead to somebody.

use crate::{
    config::{Auth, Config, Durability, Loaded},
    server::PeerConfig,
};

/// What a warning says of settings that are valid, and lead nowhere.
pub(in crate::config) fn dead_ends(loaded: &Loaded) -> Vec<String> {
    let config = &loaded.config;
    let is_set = loaded.origins.contains_key(EMERGENCY);
    let emergency = (is_set || takes_numbers(config)).then(|| emergency_warning(config));
    let voicemail = has_no_stored_accounts(config).then(|| voicemail_warning(config));
    let all = emergency.into_iter().chain(voicemail);
    all.flatten().collect()
}

/// Whether calls to users who are not known go to any peer.
pub(crate) fn takes_numbers(config: &Config) -> bool {
    let takes = |peer: &PeerConfig| peer.is_default || !peer.prefixes.is_empty();
    config.peers.iter().any(takes)
}

/// The users of `calls.emergency` whom no peer takes, and who have no account in the file.
pub(crate) fn unreached_emergency(config: &Config) -> Vec<&str> {
    let takes = |peer: &PeerConfig, user: &str| {
        let mut prefixes = peer.prefixes.iter();
        peer.is_default || prefixes.any(|prefix| user.starts_with(prefix.as_str()))
    };
    let is_reached = |user: &str| {
        let mut peers = config.peers.iter();
        peers.any(|peer| takes(peer, user)) || config.accounts.has_user(user)
    };
    let users = config.calls.emergency.iter().map(String::as_str);
    users.filter(|user| !is_reached(user)).collect()
}

/// The user of `calls.voicemail`, unless it has an account in the file, or needs none.
pub(crate) fn voicemail_without_account(config: &Config) -> Option<&str> {
    let user = config.calls.voicemail.as_deref()?;
    let needs_one = config.sip.auth != Auth::Open && config.credentials.url.is_none();
    (needs_one && !config.accounts.has_user(user)).then_some(user)
}

fn emergency_warning(config: &Config) -> Option<String> {
    let users = unreached_emergency(config);
    let first = users.first()?;
    Some(format!(
        "{EMERGENCY}: no [[peer]] takes {}: a call there is answered 404, unless a telephone registers as that user; \
         give a peer prefixes = [\"{first}\"], or take out what is no number here",
        users.join(", ")
    ))
}

fn voicemail_warning(config: &Config) -> Option<String> {
    let user = voicemail_without_account(config)?;
    Some(format!(
        "calls.voicemail: nobody can register as `{user}`, so nobody takes these calls, and peers do not either; \
         give an [[account]] user = \"{user}\""
    ))
}

fn has_no_stored_accounts(config: &Config) -> bool {
    config.store.durability == Durability::Memory
}

const EMERGENCY: &str = "calls.emergency";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Overrides;

    fn warnings_of(text: &str) -> Vec<String> {
        let loaded = Config::parse("test.toml", text, &Overrides::default());
        loaded.unwrap().warnings
    }

    #[test]
    fn numbers_for_help_that_no_peer_takes_are_named() {
        assert_eq!(warnings_of(""), [""; 0], "the default without any peer");
        let gateway = "[[peer]]\nname = \"gateway\"\naddresses = [\"192.0.2.10\"]\n";
        let some = warnings_of(&format!("{gateway}prefixes = [\"0\", \"11\"]\n"));
        assert_eq!(some.len(), 1, "{some:?}");
        assert!(
            some[0].starts_with("calls.emergency: no [[peer]] takes 911, 999: "),
            "{some:?}"
        );
        assert!(some[0].contains("prefixes = [\"911\"]"), "{some:?}");
        let all = [
            "prefixes = [\"1\", \"9\"]\n",
            "default = true\n",
            "prefixes = [\"112\"]\n[calls]\nemergency = \"112\"\n",
            "prefixes = [\"0\"]\n[calls]\nemergency = \"off\"\n",
        ];
        for rest in all {
            assert_eq!(warnings_of(&format!("{gateway}{rest}")), [""; 0], "{rest}");
        }
        assert_eq!(warnings_of("[calls]\nemergency = \"112\"\n").len(), 1);
        let account =
            "[calls]\nemergency = \"112\"\n[[account]]\nuser = \"112\"\npassword = \"x\"\n";
        assert_eq!(warnings_of(account), [""; 0]);
    }

    #[test]
    fn a_voicemail_that_cannot_register_is_named() {
        let memory = "[store]\ndurability = \"memory\"\n[calls]\nvoicemail = \"vm\"\n";
        let told = warnings_of(memory);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("nobody can register as `vm`"), "{told:?}");
        let account = "[[account]]\nuser = \"vm\"\npassword = \"x\"\n";
        let open = "[sip]\nauth = \"open\"\n";
        for rest in [account, open] {
            assert_eq!(warnings_of(&format!("{memory}{rest}")), [""; 0], "{rest}");
        }
        // The database may have the account: `busyhour doctor` looks.
        assert_eq!(warnings_of("[calls]\nvoicemail = \"vm\"\n"), [""; 0]);
    }
}
