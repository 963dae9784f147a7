//! The branch parameter of our Via: names the transaction, and shows loops.

use std::fmt::Write;

/// Which branch of which transaction a request was sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BranchParameter {
    /// The transaction's place in its table.
    pub slot: u32,
    /// What nobody can guess about the transaction.
    pub nonce: u64,
    /// The branch of it.
    pub number: u16,
}

impl BranchParameter {
    /// Appends the parameter's value: magic cookie, `bh`, the loop hash, the transaction,
    /// the branch.
    pub fn write(&self, loop_hash: u64, out: &mut String) {
        let Self {
            slot,
            nonce,
            number,
        } = self;
        // Writing to a String can't fail.
        let _ = write!(
            out,
            "{COOKIE}{STATEFUL}{loop_hash:016x}{slot:08x}{nonce:016x}{number:04x}"
        );
    }

    /// Reads what [`write`](Self::write) wrote.
    pub fn parse(branch: &str) -> Option<Self> {
        let digits = branch.strip_prefix(COOKIE)?.strip_prefix(STATEFUL)?;
        let hex = |from: usize, to: usize| u64::from_str_radix(digits.get(from..to)?, 16).ok();
        let is_whole = digits.len() == 44 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(Self {
            slot: hex(16, 24).filter(|_| is_whole)? as u32,
            nonce: hex(24, 40)?,
            number: hex(40, 44)? as u16,
        })
    }

    /// Appends the value for a request that is forwarded without a transaction
    /// (RFC 3261 §16.11): `received` is a hash of the branch with which it came.
    pub fn write_stateless(loop_hash: u64, received: u64, out: &mut String) {
        let _ = write!(out, "{COOKIE}{STATELESS}{loop_hash:016x}{received:016x}");
    }

    /// The loop hash in a branch parameter of ours.
    pub fn loop_hash(branch: &str) -> Option<u64> {
        let ours = branch.strip_prefix(COOKIE)?;
        let digits = ours
            .strip_prefix(STATEFUL)
            .or_else(|| ours.strip_prefix(STATELESS))?;
        u64::from_str_radix(digits.get(..16)?, 16).ok()
    }
}

/// RFC 3261 §8.1.1.7.
const COOKIE: &str = "z9hG4bK";
const STATEFUL: &str = "bh";
const STATELESS: &str = "bs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let branch = BranchParameter {
            slot: 7,
            nonce: u64::MAX - 1,
            number: 3,
        };
        let mut text = String::new();
        branch.write(0xabc, &mut text);
        assert_eq!(BranchParameter::parse(&text), Some(branch));
        assert_eq!(BranchParameter::loop_hash(&text), Some(0xabc));
        for other in ["", "z9hG4bK1", &text[..text.len() - 1], &format!("{text}0")] {
            assert_eq!(BranchParameter::parse(other), None, "{other}");
        }
        assert_eq!(BranchParameter::parse(&text.replace("bh0", "bh+")), None);
    }
}
