use super::{Allowed, Config, KEYS};

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
        let admitted = self.allowed.admits(text.trim()).then_some(());
        admitted
            .and_then(|()| (self.assign)(config, text.trim()))
            .ok_or_else(|| self.refusal(text))
    }

    /// The value in the form [`set`](Self::set) takes.
    pub fn show(&self, config: &Config) -> String {
        (self.show)(config)
    }

    pub(super) fn refusal(&self, found: &str) -> String {
        format!("{}: {}", self.path, self.allowed.refusal(found))
    }
}
