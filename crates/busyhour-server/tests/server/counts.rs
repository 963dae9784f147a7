//! Who has an answer may look at the counts at once: they have what was answered.

use crate::{client, exchange::open_config, local, register};
use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_server::server::{Network, SendError, Server, ServerStats};
use busyhour_sip::Flow;
use busyhour_store::MemoryStore;
use std::sync::{Arc, Mutex};

/// A network whose receiver reads the statistics as soon as something is sent to it.
#[derive(Default)]
struct Reader {
    server: Mutex<Option<Server>>,
    read: Mutex<Vec<ServerStats>>,
}

impl Network for Reader {
    fn send(&self, _flow: Flow, _datagram: Buffer) -> Result<(), SendError> {
        let server = self.server.lock().unwrap().clone().unwrap();
        self.read.lock().unwrap().push(server.stats());
        Ok(())
    }
}

#[test]
fn a_registration_is_counted_before_it_is_answered() {
    let runtime = Runtime::simulated(1);
    let reader = Arc::new(Reader::default());
    let store = Box::new(MemoryStore::new());
    let server = Server::start(runtime.clone(), open_config(), reader.clone(), store).unwrap();
    *reader.server.lock().unwrap() = Some(server.clone());
    for (cseq, contact) in [(1, "<sip:a@192.0.2.7>"), (2, "<sip:a@192.0.2.7>;expires=0")] {
        let request = register(cseq, &format!("Contact: {contact}"));
        let request = runtime.buffers().copy_from(request.as_bytes()).unwrap();
        server.message(Flow::udp(local(), client()), &request);
        runtime.simulation().unwrap().run_until_idle();
    }
    let read = reader.read.lock().unwrap();
    let counts = read.iter().map(|stats| {
        let registrar = &stats.registrar;
        (
            registrar.accepted,
            registrar.removed,
            registrar.binding_count,
        )
    });
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 0, 1), (2, 1, 0)]);
    // The server holds its network, too.
    *reader.server.lock().unwrap() = None;
}
