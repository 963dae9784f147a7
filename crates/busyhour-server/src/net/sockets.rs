//! The sockets of every protocol and transport as one network.

use super::{Datagram, StreamMessage, Streams, Udp};
use crate::server::{
    CertificateStats, CredentialJudgement, HolderKey, Network, NetworkStats, QueueView, ReadMode,
    SendError, Server, ShownCertificate, TlsTarget, Unread,
};
use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_sip::{Flow, Transport};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

/// The sockets of SIP and of IAX2; a flow tells which one to use.
///
/// # Examples
///
/// A server that answers on a port of its own:
///
/// ```
/// use busyhour::runtime::Runtime;
/// use busyhour_server::{
///     net::{Sockets, StreamOptions, Streams, Udp, UdpOptions},
///     server::{Server, ServerConfig},
/// };
/// use busyhour_store::MemoryStore;
/// use std::{net::UdpSocket, sync::Arc, time::Duration};
///
/// let network = Arc::new(Sockets {
///     sip: Udp::bind(&UdpOptions::new(["127.0.0.1:0".parse()?]))?,
///     streams: Streams::bind(StreamOptions::default())?,
///     iax2: Udp::bind(&UdpOptions::new([]))?,
///     capture: Udp::bind(&UdpOptions::new([]))?,
///     media: Udp::bind(&UdpOptions::new([]))?,
///     nodes: Arc::new(Udp::bind(&UdpOptions::new([]))?),
/// });
/// let here = network.sip.addresses()[0];
/// let runtime = Runtime::builder().workers(1).build()?;
/// let store = Box::new(MemoryStore::new());
/// let server = Server::start(runtime.clone(), ServerConfig::default(), network.clone(), store)?;
/// network.attach(&server, &runtime)?;
///
/// let phone = UdpSocket::bind("127.0.0.1:0")?;
/// phone.set_read_timeout(Some(Duration::from_secs(10)))?;
/// phone.send_to(
///     b"OPTIONS sip:127.0.0.1 SIP/2.0\r\n\
///     Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK1;rport\r\n\
///     From: <sip:a@127.0.0.1>;tag=1\r\nTo: <sip:127.0.0.1>\r\n\
///     Call-ID: 1\r\nCSeq: 1 OPTIONS\r\n\r\n",
///     here,
/// )?;
/// let mut answer = [0; 1500];
/// phone.recv(&mut answer)?;
/// assert!(answer.starts_with(b"SIP/2.0 200 OK\r\n"));
/// # network.stop_receiving();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sockets {
    /// Where SIP is spoken in datagrams.
    pub sip: Udp,
    /// Where SIP is spoken over connections.
    pub streams: Streams,
    /// Where IAX2 is spoken.
    pub iax2: Udp,
    /// Where copies of messages leave; nothing is received.
    pub capture: Udp,
    /// Where media relays are asked.
    pub media: Udp,
    /// Where other nodes of a cluster are reached directly. Its datagrams are in no statistics of SIP.
    pub nodes: Arc<Udp>,
}

impl Sockets {
    /// Starts the threads that receive, and gives the server all that comes in, until
    /// [`stop_receiving`](Self::stop_receiving). The server sends by these sockets if it
    /// was started with them.
    ///
    /// # Errors
    ///
    /// When the system refuses a thread or memory.
    pub fn attach(&self, server: &Server, runtime: &Runtime) -> io::Result<()> {
        let pool = runtime.pool();
        let owned_by = |owner| runtime.buffers().owned_by(owner).map_err(io::Error::other);
        let sip = server.clone();
        let deliver = move |datagram: Datagram| sip.message(datagram.flow, &datagram.payload);
        self.sip.start(
            &owned_by("SIP datagrams")?,
            pool,
            deliver,
            read_mode(server),
        )?;
        let iax2 = server.clone();
        let deliver =
            move |datagram: Datagram| iax2.iax2_datagram(datagram.flow, &datagram.payload);
        let buffers = owned_by("IAX2 datagrams")?;
        self.iax2
            .start(&buffers, pool, deliver, read_mode(server))?;
        let relays = server.clone();
        let deliver =
            move |datagram: Datagram| relays.media_reply(datagram.flow.remote, &datagram.payload);
        let buffers = owned_by("media relays")?;
        self.media
            .start(&buffers, pool, deliver, || ReadMode::All)?;
        let nodes = server.clone();
        let deliver = move |datagram: Datagram| nodes.node_datagram(&datagram.payload);
        let buffers = owned_by("datagrams of nodes")?;
        self.nodes
            .start(&buffers, pool, deliver, || ReadMode::All)?;
        let streams = server.clone();
        let deliver = move |flow, arrival| match arrival {
            StreamMessage::Message(message) => streams.message(flow, &message),
            StreamMessage::Broken(bytes, error) => streams.broken_stream(flow, &bytes, error),
            StreamMessage::Ended => streams.flow_failed(flow),
        };
        self.streams.start(runtime.clock(), deliver)
    }

    /// Ends the receive threads and the connections, and waits for them;
    /// sending datagrams stays possible.
    pub fn stop_receiving(&self) {
        self.sip.stop_receiving();
        self.iax2.stop_receiving();
        self.media.stop_receiving();
        self.nodes.stop_receiving();
        self.streams.stop();
    }
}

/// Which datagrams the server takes.
fn read_mode(server: &Server) -> impl Fn() -> ReadMode + Send + Sync + 'static {
    let server = server.clone();
    move || server.read_mode()
}

impl Network for Sockets {
    fn send(&self, flow: Flow, message: Buffer) -> Result<(), SendError> {
        if flow.transport.is_reliable() {
            return self.streams.send(flow, message);
        }
        match self.iax2.serves(flow.local) {
            true => self.iax2.send(flow, message),
            false => self.sip.send(flow, message),
        }
    }

    fn try_send(&self, flow: Flow, message: Buffer) -> Result<(), SendError> {
        match flow.transport.is_reliable() {
            true => self.streams.try_send(flow, message),
            false => self.send(flow, message),
        }
    }

    fn mark_trusted(&self, flow: Flow) -> bool {
        !flow.transport.is_reliable() || self.streams.mark_trusted(flow)
    }

    fn note_credentials(&self, flow: Flow, judgement: CredentialJudgement) {
        if !flow.transport.is_reliable() {
            self.sip.note_credentials(flow, judgement);
        }
    }

    fn expect_keepalives(&self, flow: Flow, within: Duration) {
        self.streams.expect_keepalives(flow, within);
    }

    fn send_capture(&self, server: SocketAddr, packet: Buffer) -> Result<(), SendError> {
        let local = self
            .capture
            .addresses()
            .first()
            .ok_or(SendError::NoSocket)?;
        self.capture.send(Flow::udp(*local, server), packet)
    }

    fn send_media(&self, relay: SocketAddr, command: Buffer) -> Result<(), SendError> {
        let mut own = self.media.addresses().iter();
        let own = own.find(|own| own.is_ipv4() == relay.is_ipv4());
        let own = own.ok_or(SendError::NoSocket)?;
        self.media.send(Flow::udp(*own, relay), command)
    }

    fn capture_stats(&self) -> NetworkStats {
        self.capture.stats()
    }

    fn local_to(&self, transport: Transport, remote: SocketAddr) -> Option<SocketAddr> {
        match transport {
            Transport::Udp => self.sip.local_to(transport, remote),
            _ => self.streams.local_to(transport, remote),
        }
    }

    fn speaks(&self, transport: Transport) -> bool {
        match transport {
            Transport::Udp => !self.sip.addresses().is_empty(),
            stream => self.streams.speaks(stream),
        }
    }

    fn expect_certificate(&self, target: TlsTarget) {
        self.streams.expect_certificate(target);
    }

    fn flow_to_domain(&self, flow: Flow, domain: &str) -> Option<Flow> {
        self.streams.flow_to_domain(flow, domain)
    }

    fn connect(&self, flow: Flow, holder: Option<HolderKey>) -> Result<Flow, SendError> {
        self.streams.connect(flow, holder)
    }

    fn shown_certificate(&self, flow: Flow) -> Option<Arc<ShownCertificate>> {
        self.streams.shown_certificate(flow)
    }

    fn wait_on(&self, flow: Flow) -> Duration {
        self.streams.wait_on(flow)
    }

    fn unread(&self) -> Unread {
        self.sip.unread()
    }

    /// The sum of all sockets for devices.
    fn certificates(&self) -> Vec<CertificateStats> {
        self.streams.certificates()
    }

    fn stats(&self) -> NetworkStats {
        let mut sum = self.sip.stats();
        sum += self.iax2.stats();
        sum += self.streams.stats();
        sum
    }

    fn queues(&self) -> Vec<QueueView> {
        let mut queues = self.sip.queues();
        queues.extend(self.iax2.queues());
        queues.extend(self.streams.queues());
        queues.extend(self.capture.queues());
        queues.extend(self.media.queues());
        queues
    }
}
