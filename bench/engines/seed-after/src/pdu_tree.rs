//! Seed 4, after: the buffers are in a balanced tree by address, still behind one
//! lock.

use std::{collections::BTreeMap, sync::Mutex};

use kit::buffers::{BUFFER_BYTES, Pins};

#[derive(Default)]
pub struct PduTree {
    buffers: Mutex<BTreeMap<usize, Pdu>>,
}

struct Pdu {
    _memory: Box<[u8; BUFFER_BYTES]>,
    pins: u32,
}

fn holding(buffers: &mut BTreeMap<usize, Pdu>, address: usize) -> Option<(usize, &mut Pdu)> {
    let (start, pdu) = buffers.range_mut(..=address).next_back()?;
    (address - start < BUFFER_BYTES).then_some((*start, pdu))
}

impl Pins for PduTree {
    fn find(&self) -> usize {
        let memory = Box::new([0; BUFFER_BYTES]);
        let address = memory.as_ptr() as usize;
        self.buffers.lock().unwrap().insert(
            address,
            Pdu {
                _memory: memory,
                pins: 1,
            },
        );
        address
    }

    fn pin(&self, address: usize) -> bool {
        let mut buffers = self.buffers.lock().unwrap();
        holding(&mut buffers, address)
            .map(|(_, pdu)| pdu.pins += 1)
            .is_some()
    }

    fn unpin(&self, address: usize) -> bool {
        let mut buffers = self.buffers.lock().unwrap();
        let Some((start, pdu)) = holding(&mut buffers, address) else {
            return false;
        };
        pdu.pins -= 1;
        if pdu.pins == 0 {
            buffers.remove(&start);
        }
        true
    }

    fn live_count(&self) -> u64 {
        self.buffers.lock().unwrap().len() as u64
    }
}
