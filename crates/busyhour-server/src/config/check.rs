use super::{Loaded, Origin, Problem};

/// Relations between settings that are each valid alone.
pub(super) fn relations(loaded: &Loaded) -> Vec<Problem> {
    let (sip, watch) = (&loaded.config.registration, &loaded.config.watch);
    let ordered = [
        (SIP_MIN, sip.expires_min, SIP_DEFAULT, sip.expires_default),
        (SIP_DEFAULT, sip.expires_default, SIP_MAX, sip.expires_max),
        (
            WATCH_MIN,
            watch.expires_min,
            WATCH_DEFAULT,
            watch.expires_default,
        ),
        (
            WATCH_DEFAULT,
            watch.expires_default,
            WATCH_MAX,
            watch.expires_max,
        ),
    ];
    let wrong = ordered.iter().filter(|(_, lower, _, upper)| lower > upper);
    wrong
        .map(|(lower, _, upper, _)| order(loaded, lower, upper))
        .collect()
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

const SIP_MIN: &str = "sip.min_expires_seconds";
const SIP_DEFAULT: &str = "sip.default_expires_seconds";
const SIP_MAX: &str = "sip.max_expires_seconds";
const WATCH_MIN: &str = "watch.min_expires_seconds";
const WATCH_DEFAULT: &str = "watch.default_expires_seconds";
const WATCH_MAX: &str = "watch.max_expires_seconds";

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
