//! How a node says which partitions it serves: a version, and for each of them its number and its epoch.

use busyhour_cluster::{Grant, Partition};

/// What is said of these.
pub(in crate::server::cluster) fn to_bytes(served: &[Grant]) -> Vec<u8> {
    let entry = |grant: &Grant| {
        let epoch = grant.epoch.to_be_bytes();
        [grant.partition.0].into_iter().chain(epoch)
    };
    [VERSION]
        .into_iter()
        .chain(served.iter().flat_map(entry))
        .collect()
}

/// What was said; nothing of what no node of this version says.
pub(in crate::server::cluster) fn from_bytes(bytes: &[u8]) -> Vec<Grant> {
    let Some((&VERSION, entries)) = bytes.split_first() else {
        return Vec::new();
    };
    let (entries, []) = entries.as_chunks::<ENTRY_LEN>() else {
        return Vec::new();
    };
    let grant = |[partition, epoch @ ..]: &[u8; ENTRY_LEN]| Grant {
        partition: Partition(*partition),
        epoch: u64::from_be_bytes(*epoch),
    };
    entries.iter().map(grant).collect()
}

const VERSION: u8 = 1;
const ENTRY_LEN: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_and_nothing_else() {
        let served = [(7, 1), (255, u64::MAX)].map(|(number, epoch)| Grant {
            partition: Partition(number),
            epoch,
        });
        let bytes = to_bytes(&served);
        assert_eq!(from_bytes(&bytes), served);
        assert_eq!(from_bytes(&to_bytes(&[])), []);
        for wrong in [
            &b""[..],
            &bytes[..bytes.len() - 1],
            &[&[2], &bytes[1..]].concat(),
        ] {
            assert_eq!(from_bytes(wrong), []);
        }
    }
}
