use super::{Loaded, Origin, Problem};

/// Relations between settings that are each valid alone.
pub(super) fn relations(loaded: &Loaded) -> Vec<Problem> {
    let sip = &loaded.config.sip;
    let mut problems = Vec::new();
    if sip.min_expires_seconds > sip.default_expires_seconds {
        problems.push(order(
            loaded,
            "sip.min_expires_seconds",
            "sip.default_expires_seconds",
        ));
    }
    if sip.default_expires_seconds > sip.max_expires_seconds {
        problems.push(order(
            loaded,
            "sip.default_expires_seconds",
            "sip.max_expires_seconds",
        ));
    }
    problems
}

/// Both settings, with their values, at the place of one that somebody wrote.
fn order(loaded: &Loaded, lower: &'static str, upper: &'static str) -> Problem {
    let value = |path| super::Key::find(path).map_or(String::new(), |key| key.show(&loaded.config));
    let written = loaded.origins.get(lower).or(loaded.origins.get(upper));
    // Defaults are in order, so one of the two was written.
    let origin = written
        .cloned()
        .unwrap_or(Origin::WholeFile("defaults".into()));
    let message = format!(
        "{lower} ({}) must not be more than {upper} ({})",
        value(lower),
        value(upper)
    );
    Problem::new(origin, message)
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Overrides};

    #[test]
    fn expiry_bounds_must_be_in_order() {
        let text = "[sip]\nmax_expires_seconds = 600\n";
        let problems = Config::parse("f.toml", text, &Overrides::default()).unwrap_err();
        assert_eq!(
            problems.to_string(),
            "f.toml:2:23: sip.default_expires_seconds (3600) must not be more than sip.max_expires_seconds (600)"
        );
    }
}
