//! Environment variables that look like settings but are not.

use super::{KEYS, Problem, SettingKey, SettingOrigin, file::nearest};

/// Without this check, a typing mistake in a variable would silently leave the default
/// in place.
pub(super) fn unknown_variables() -> Vec<Problem> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<String> = names.filter(|name| is_unknown(name)).collect();
    unknown.sort_unstable();
    unknown.into_iter().map(problem).collect()
}

fn is_unknown(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return false;
    };
    let is_known =
        [CONFIG, TOKEN].contains(&name) || KEYS.iter().any(|key| key.environment() == name);
    !is_known && !is_of_service(rest)
}

/// Kubernetes gives each container such variables for every service, and the service of
/// this server may be called busyhour or busyhour-sip.
fn is_of_service(rest: &str) -> bool {
    let is_port = |after: &str| after.starts_with(|first: char| first.is_ascii_digit());
    let rest = format!("_{rest}");
    ["_SERVICE_HOST", "_SERVICE_PORT"]
        .iter()
        .any(|part| rest.contains(part))
        || rest.ends_with("_PORT")
        || rest.split("_PORT_").skip(1).any(is_port)
}

fn problem(name: String) -> Problem {
    let known: Vec<String> = KEYS.iter().map(SettingKey::environment).collect();
    // All names have the same prefix, which would make them all look alike.
    let known: Vec<&str> = known.iter().map(|name| &name[PREFIX.len()..]).collect();
    let hint = nearest(&name[PREFIX.len()..], &known);
    let hint = hint.map_or(String::new(), |near| {
        format!(" (did you mean {PREFIX}{near}?)")
    });
    let message = format!(
        "unknown setting{hint}; a variable is {PREFIX}, the section, _ and the setting, such as \
         BUSYHOUR_SIP_LISTEN"
    );
    Problem::new(SettingOrigin::Environment(name), message)
}

const PREFIX: &str = "BUSYHOUR_";
const CONFIG: &str = "BUSYHOUR_CONFIG";
/// The token of `busyhour show`.
const TOKEN: &str = "BUSYHOUR_TOKEN";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_what_kubernetes_sets_are_known() {
        for name in [
            "BUSYHOUR_SIP_LISTEN",
            "BUSYHOUR_CONFIG",
            "PATH",
            "BUSYHOUR_PORT",
        ] {
            assert!(!is_unknown(name), "{name}");
        }
        assert!(!is_unknown("BUSYHOUR_SERVICE_HOST") && !is_unknown("BUSYHOUR_PORT_8080_TCP"));
        for rest in [
            "SERVICE_HOST",
            "SERVICE_PORT_SIP_UDP",
            "PORT",
            "PORT_5060_UDP_ADDR",
        ] {
            let name = format!("BUSYHOUR_SIP_{rest}");
            assert!(!is_unknown(&name), "{name}");
        }
        for rest in ["SIP_LISTN", "SIP_PORTS", "SIP_PORT_LISTEN", "SERVICE"] {
            assert!(is_unknown(&format!("BUSYHOUR_{rest}")), "{rest}");
        }
        let said = problem("BUSYHOUR_SIP_LISTN".into()).to_string();
        assert!(
            said.contains("(did you mean BUSYHOUR_SIP_LISTEN?)"),
            "{said}"
        );
    }
}
