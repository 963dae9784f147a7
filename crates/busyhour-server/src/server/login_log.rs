//! Failed logins in the log: who, and from where. The form of the line is
//! documented, since other programs read it; packaging/fail2ban has one that does.

use super::{core::Core, logins, shares::Shares};
use crate::registrar::{Flow, source_of};

/// Lines in each second. One source has its share of them.
pub(super) const LINES_PER_SECOND: usize = 200;

impl Core {
    /// Notes a wrong password, and logs it unless its source has logged enough.
    pub(super) fn login_failed(&self, flow: Flow, username: &str, protocol: &str) {
        let holder = self.holder(flow, None);
        let logins: &logins::Logins = &self.parts.logins;
        logins.failed(source_of(flow.remote.ip()), holder, username, self.now());
        if self.log_lines().take(holder, 1).is_err() {
            return self.counters().traffic.log_lines_suppressed.increment();
        }
        let (source, port) = (flow.remote.ip().to_canonical(), flow.remote.port());
        // The user comes last and escaped: whoever fails chooses it.
        tracing::warn!(%source, port, protocol, user = ?username, "login failed");
    }

    /// Begins a new second.
    pub(super) fn allow_log_lines(&self) {
        self.log_lines().clear();
    }

    fn log_lines(&self) -> &Shares {
        &self.parts.log_lines
    }
}
