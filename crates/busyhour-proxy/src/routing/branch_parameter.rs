//! The branch parameter of our Via: names the transaction, and shows loops.

use busyhour_sip::write_hex;

/// Which branch of which transaction a request was sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BranchParameter {
    /// The transaction's place in its table.
    pub slot: u32,
    /// What nobody can guess about the branch.
    pub nonce: u64,
    /// The branch of it.
    pub number: u16,
}

impl BranchParameter {
    /// Appends the parameter's value: magic cookie, `bh`, the loop hash, the transaction,
    /// the branch.
    pub fn write(&self, loop_hash: u64, out: &mut String) {
        let mut digits = [0; DIGITS];
        write_hex(&mut digits[..16], &loop_hash.to_be_bytes());
        write_hex(&mut digits[16..24], &self.slot.to_be_bytes());
        write_hex(&mut digits[24..40], &self.nonce.to_be_bytes());
        write_hex(&mut digits[40..], &self.number.to_be_bytes());
        put(out, STATEFUL, &digits);
    }

    /// Reads what [`write`](Self::write) wrote.
    pub fn parse(branch: &str) -> Option<Self> {
        let digits = branch.strip_prefix(COOKIE)?.strip_prefix(STATEFUL)?;
        let hex = |from: usize, to: usize| u64::from_str_radix(digits.get(from..to)?, 16).ok();
        let is_whole =
            digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(Self {
            slot: hex(16, 24).filter(|_| is_whole)? as u32,
            nonce: hex(24, 40)?,
            number: hex(40, 44)? as u16,
        })
    }

    /// Appends the value for a request that is forwarded without a transaction
    /// (RFC 3261 §16.11): `received` is a hash of the branch with which it came.
    pub fn write_stateless(loop_hash: u64, received: u64, out: &mut String) {
        let mut digits = [0; 32];
        write_hex(&mut digits[..16], &loop_hash.to_be_bytes());
        write_hex(&mut digits[16..], &received.to_be_bytes());
        put(out, STATELESS, &digits);
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

fn put(out: &mut String, kind: &str, digits: &[u8]) {
    out.push_str(COOKIE);
    out.push_str(kind);
    // Digits are ASCII.
    out.push_str(std::str::from_utf8(digits).unwrap_or(""));
}

/// Of the loop hash, the place, what nobody can guess, and the branch.
const DIGITS: usize = 16 + 8 + 16 + 4;
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
