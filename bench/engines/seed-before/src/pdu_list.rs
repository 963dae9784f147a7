//! Seed 4, before: pinned buffers are in one list behind one lock; each pin and
//! unpin scans it until it finds the buffer that contains the address.

use std::sync::Mutex;

use kit::buffers::{BUFFER_BYTES, Pins};

#[derive(Default)]
pub struct PduList {
    buffers: Mutex<Vec<Pdu>>,
}

struct Pdu {
    memory: Box<[u8; BUFFER_BYTES]>,
    pins: u32,
}

impl Pdu {
    fn holds(&self, address: usize) -> bool {
        let start = self.memory.as_ptr() as usize;
        (start..start + BUFFER_BYTES).contains(&address)
    }
}

impl Pins for PduList {
    fn find(&self) -> usize {
        let pdu = Pdu {
            memory: Box::new([0; BUFFER_BYTES]),
            pins: 1,
        };
        let address = pdu.memory.as_ptr() as usize;
        self.buffers.lock().unwrap().push(pdu);
        address
    }

    fn pin(&self, address: usize) -> bool {
        let mut buffers = self.buffers.lock().unwrap();
        let found = buffers.iter_mut().find(|pdu| pdu.holds(address));
        found.map(|pdu| pdu.pins += 1).is_some()
    }

    fn unpin(&self, address: usize) -> bool {
        let mut buffers = self.buffers.lock().unwrap();
        let Some(index) = buffers.iter().position(|pdu| pdu.holds(address)) else {
            return false;
        };
        buffers[index].pins -= 1;
        if buffers[index].pins == 0 {
            buffers.swap_remove(index);
        }
        true
    }

    fn live_count(&self) -> u64 {
        self.buffers.lock().unwrap().len() as u64
    }
}
