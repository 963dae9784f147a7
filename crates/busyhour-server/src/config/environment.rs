//! Variables of the environment that look like settings and are none.

use super::{KEYS, Key, Origin, Problem, file::nearest};

/// A slip of the hand in a variable would otherwise leave the default in place,
/// and nobody would know.
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
    // Kubernetes tells each container of a service of its name so.
    let is_of_service = ["SERVICE_", "PORT_"]
        .iter()
        .any(|head| rest.starts_with(head));
    let is_known = name == CONFIG || KEYS.iter().any(|key| key.environment() == name);
    !is_known && !is_of_service && rest != "PORT"
}

fn problem(name: String) -> Problem {
    let known: Vec<String> = KEYS.iter().map(Key::environment).collect();
    // The common beginning would make every name alike.
    let known: Vec<&str> = known.iter().map(|name| &name[PREFIX.len()..]).collect();
    let hint = nearest(&name[PREFIX.len()..], &known);
    let hint = hint.map_or(String::new(), |near| {
        format!(" (did you mean {PREFIX}{near}?)")
    });
    let message = format!(
        "unknown setting{hint}; a variable is {PREFIX}, the section, _ and the setting, such as \
         BUSYHOUR_SIP_LISTEN"
    );
    Problem::new(Origin::Environment(name), message)
}

const PREFIX: &str = "BUSYHOUR_";
const CONFIG: &str = "BUSYHOUR_CONFIG";

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
        assert!(is_unknown("BUSYHOUR_SIP_LISTN"));
        let said = problem("BUSYHOUR_SIP_LISTN".into()).to_string();
        assert!(
            said.contains("(did you mean BUSYHOUR_SIP_LISTEN?)"),
            "{said}"
        );
    }
}
