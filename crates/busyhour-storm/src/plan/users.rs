//! The identities of the devices, which do not change during a run.

use std::fmt::Display;
use std::net::SocketAddr;

use crate::Pattern;
use crate::plan::args::Transport;
use crate::plan::pattern::shown;
use busyhour_sip::auth::Algorithm;

/// The devices of one run; an index identifies each of them.
#[derive(Clone, Debug)]
pub(crate) struct StormUsers {
    pub user: Pattern,
    pub password: Option<Pattern>,
    pub domain: String,
    /// What carries the messages.
    pub transport: Transport,
    /// The number of device 0.
    pub first: u64,
    /// The difference between the numbers of a device and the next one: the
    /// threads take the devices in turn.
    pub stride: u32,
    /// Answer only challenges of this algorithm.
    pub algorithm: Option<Algorithm>,
    pub expires_s: u64,
    /// Distinguishes the Call-IDs, tags and branches of this run from those
    /// of other runs.
    pub run: u32,
}

impl StormUsers {
    /// The devices of one of several threads.
    pub fn of_thread(&self, thread: u32) -> Self {
        let first = self.first.saturating_add(u64::from(thread));
        Self {
            first,
            run: self.run.wrapping_add(thread),
            ..self.clone()
        }
    }

    pub fn user(&self, index: u32) -> impl Display + '_ {
        self.user.with(self.number(index))
    }

    pub fn password(&self, index: u32) -> Option<String> {
        let password = self.password.as_ref()?;
        Some(password.with(self.number(index)).to_string())
    }

    /// The address of record.
    pub fn aor(&self, index: u32) -> impl Display + '_ {
        shown(move |f| write!(f, "sip:{}@{}", self.user(index), self.domain))
    }

    pub fn contact(&self, index: u32, local: SocketAddr) -> impl Display + '_ {
        shown(move |f| {
            let suffix = self.transport.uri_suffix();
            write!(f, "sip:{}@{local}{suffix}", self.user(index))
        })
    }

    pub fn call_id(&self, index: u32) -> impl Display + '_ {
        shown(move |f| write!(f, "{:08x}.{index}@storm", self.run))
    }

    /// The branch of a transaction; [`StormUsers::of_branch`] parses it.
    pub fn branch(&self, index: u32, cseq: u32) -> impl Display + '_ {
        shown(move |f| write!(f, "z9hG4bK{:08x}.{index}.{cseq}", self.run))
    }

    /// The device and the CSeq of a branch, if the branch is of this run.
    pub fn of_branch(&self, branch: &str) -> Option<(u32, u32)> {
        let (run, rest) = branch.strip_prefix("z9hG4bK")?.split_once('.')?;
        let (index, cseq) = rest.split_once('.')?;
        let ours = u32::from_str_radix(run, 16) == Ok(self.run);
        Some((index.parse().ok()?, cseq.parse().ok()?)).filter(|_| ours)
    }

    fn number(&self, index: u32) -> u64 {
        self.first
            .saturating_add(u64::from(index) * u64::from(self.stride))
    }
}
