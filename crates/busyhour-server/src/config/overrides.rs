use super::{Config, KEYS, Loaded, Problem, SettingKey, SettingOrigin};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, parser::ValueSource};

/// Settings from environment variables and flags; every [`SettingKey`] has one of each.
///
/// A flag overrides its variable; both override the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides(Vec<Override>);

/// Those of the settings that say where accounts are: the `[store]` section
/// and the realm.
#[derive(Debug, Clone, Default)]
pub struct StoreOverrides(pub Overrides);

#[derive(Debug, Clone)]
struct Override {
    path: &'static str,
    value: String,
    origin: SettingOrigin,
}

impl Overrides {
    pub(super) fn apply(&self, loaded: &mut Loaded) -> Vec<Problem> {
        let applied = self.0.iter().map(|one| one.apply(loaded));
        applied.filter_map(Result::err).collect()
    }
}

impl Override {
    fn read(key: &'static SettingKey, matches: &ArgMatches) -> Option<Self> {
        let value = matches.get_one::<String>(key.path)?.clone();
        let origin = match matches.value_source(key.path)? {
            ValueSource::EnvVariable => SettingOrigin::Environment(key.environment()),
            _ => SettingOrigin::Flag(format!("--{}", key.flag())),
        };
        Some(Self {
            path: key.path,
            value,
            origin,
        })
    }

    fn apply(&self, loaded: &mut Loaded) -> Result<(), Problem> {
        let refuse = |message| Problem::new(self.origin.clone(), message);
        let key = SettingKey::find(self.path).ok_or_else(|| refuse("unknown setting".into()))?;
        if let Err(refusal) = key.set(&mut loaded.config, &self.value) {
            loaded.invalid.insert(key.path);
            return Err(refuse(refusal));
        }
        loaded.invalid.remove(key.path);
        loaded.origins.insert(key.path, self.origin.clone());
        Ok(())
    }
}

impl Args for Overrides {
    fn augment_args(command: Command) -> Command {
        command.args(KEYS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Overrides {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = KEYS.iter().filter_map(|key| Override::read(key, matches));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for StoreOverrides {
    fn augment_args(command: Command) -> Command {
        command.args(store_keys().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for StoreOverrides {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = store_keys().filter_map(|key| Override::read(key, matches));
        Ok(Self(Overrides(given.collect())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn store_keys() -> impl Iterator<Item = &'static SettingKey> {
    let says_where = |key: &&SettingKey| key.section() == "store" || key.path == "sip.realm";
    KEYS.iter().filter(says_where)
}

/// Values are taken as text and checked together with the file, so that one run reports
/// all problems.
fn argument(key: &'static SettingKey) -> Arg {
    Arg::new(key.path)
        .long(key.flag())
        .env(key.environment())
        .value_name(key.name().to_uppercase())
        .help(key.help)
        .long_help(long_help(key))
        // The settings are too many for a short help.
        .hide_short_help(true)
        .help_heading(format!("Settings of [{}]", key.section()))
        .hide_env_values(true)
}

fn long_help(key: &SettingKey) -> String {
    let default = key.show(&Config::default());
    let default = if default.is_empty() { "none" } else { &default };
    format!(
        "{} [default: {default}]\nAllowed: {}",
        key.help, key.allowed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Overrides {
        let command = Overrides::augment_args(Command::new("t"));
        let matches = command.try_get_matches_from(words).unwrap();
        Overrides::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let overrides = parse(&["t", "--sip-realm", "flags"]);
        let loaded = Config::parse("f", "[sip]\nrealm = \"file\"\n", &overrides).unwrap();
        assert_eq!(loaded.config.sip.realm, "flags");
        assert_eq!(loaded.origins["sip.realm"].to_string(), "--sip-realm");
    }

    #[test]
    fn a_bad_flag_is_reported() {
        let overrides = parse(&["t", "--log-level", "loud"]);
        let problems = Config::parse("f", "", &overrides).unwrap_err();
        assert_eq!(
            problems.to_string(),
            "--log-level: log.level: `loud` is not allowed; give one of: error, warn, info, debug, trace"
        );
    }
}
