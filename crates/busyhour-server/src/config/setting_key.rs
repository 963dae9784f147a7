use super::{
    Allowed, Config, KEYS,
    secrets::{credential, credential_path},
};
use std::borrow::Cow;

/// One setting. The same row serves the file, the environment, the flags, the checks,
/// the printed configuration and the reference.
#[derive(Clone, Copy)]
pub struct SettingKey {
    /// Section and name, such as `sip.listen`.
    pub path: &'static str,
    /// The values it may take.
    pub allowed: Allowed,
    /// What it does, in one sentence.
    pub help: &'static str,
    pub(super) assign: fn(&mut Config, &str) -> Option<()>,
    pub(super) show: fn(&Config) -> String,
}

impl SettingKey {
    /// The row for `path`, if there is one.
    pub fn find(path: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.path == path)
    }

    /// The section, such as `sip`.
    pub fn section(&self) -> &'static str {
        self.path.split('.').next().unwrap_or_default()
    }

    /// The name within the section, such as `listen`.
    pub fn name(&self) -> &'static str {
        self.path.split('.').nth(1).unwrap_or_default()
    }

    /// The environment variable, such as `BUSYHOUR_SIP_LISTEN`.
    pub fn environment(&self) -> String {
        format!("BUSYHOUR_{}", self.path.replace('.', "_").to_uppercase())
    }

    /// The long flag without its dashes, such as `sip-listen`.
    pub fn flag(&self) -> String {
        self.path.replace(['.', '_'], "-")
    }

    /// Sets the value from its text form; several addresses are separated by commas.
    ///
    /// # Errors
    ///
    /// The sentence for the operator when `text` is not allowed; nothing changes then.
    pub fn set(&self, config: &mut Config, text: &str) -> Result<(), String> {
        let text = &*self.resolved(text)?;
        let admitted = self.allowed.admits(text.trim()).then_some(());
        admitted
            .and_then(|()| (self.assign)(config, text.trim()))
            .ok_or_else(|| self.refusal(text))
    }

    /// Instead of `credential:NAME`, what systemd gave the service under that name: its path where
    /// a path is wanted, else its text.
    fn resolved<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, String> {
        let wants_path =
            matches!(self.allowed, Allowed::Text(what) if what.starts_with("the path"));
        let resolved = match wants_path {
            true => credential_path(text).map(|path| path.map(|path| path.display().to_string())),
            false => credential(text),
        };
        let resolved = resolved.map_err(|problem| format!("{}: {problem}", self.path))?;
        Ok(resolved.map_or(Cow::Borrowed(text), Cow::Owned))
    }

    /// The value in the form [`set`](Self::set) takes.
    pub fn show(&self, config: &Config) -> String {
        (self.show)(config)
    }

    /// The line of a TOML file that gives the value.
    pub fn toml(&self, config: &Config) -> String {
        format!(
            "{} = {}",
            self.name(),
            super::print::literal(self, &self.show(config))
        )
    }

    pub(super) fn refusal(&self, found: &str) -> String {
        format!("{}: {}", self.path, self.allowed.refusal(found))
    }
}
