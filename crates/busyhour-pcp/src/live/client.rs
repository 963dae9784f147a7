use crate::{
    Instance, Metric, MetricId, Problem, ValueType,
    live::{
        domains::LiveDomains,
        limits::LiveLimits,
        pdu::{self, Pdu, PduBuilder, PduType},
        reply::{self, Descriptor, NO_METRIC},
    },
};
use busyhour::clock::UnixTime;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};
use thiserror::Error;

/// One side of a conversation with a running `pmcd`: bytes from it come in, bytes for it
/// and samples go out. Who owns it does the sending and receiving.
///
/// It asks for the names below a prefix, for what they are and for their instances; then
/// it is ready and asks for values whenever it is told to. Metrics without numbers are
/// left out. It holds at most one message of 16 MiB and what its [`LiveLimits`] allow,
/// whatever `pmcd` sends.
///
/// # Examples
///
/// ```no_run
/// use busyhour_pcp::{LiveAction, LiveLimits, PmcdClient};
/// use std::{io::{Read, Write}, os::unix::net::UnixStream};
///
/// let mut pmcd = UnixStream::connect("/run/pcp/pmcd.socket")?;
/// let mut client = PmcdClient::new("kernel.all", LiveLimits::default());
/// let mut bytes = [0; 4096];
/// loop {
///     let len = pmcd.read(&mut bytes)?;
///     for action in client.receive(&bytes[..len])? {
///         match action {
///             LiveAction::Send(bytes) => pmcd.write_all(&bytes)?,
///             LiveAction::Ready => pmcd.write_all(&client.fetch().expect("it is ready"))?,
///             LiveAction::Sample(sample) => return Ok(println!("{sample:?}")),
///         }
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PmcdClient {
    prefix: String,
    limits: LiveLimits,
    /// What came in and is no whole message yet.
    inbox: Vec<u8>,
    state: LiveState,
    metrics: Vec<Metric>,
    /// The place of each in `metrics`.
    places: HashMap<u32, usize>,
    domains: LiveDomains,
    /// Whether `pmcd` said that its names have changed.
    is_stale: bool,
    left_out: u64,
}

/// What the owner of a [`PmcdClient`] does next.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveAction {
    /// Send these bytes to `pmcd`.
    Send(Vec<u8>),
    /// [`PmcdClient::fetch`] gives a request now.
    Ready,
    /// Keep the values. The client is ready again, unless it sends something first.
    Sample(LiveSample),
}

/// The values of all metrics at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveSample {
    /// When `pmcd` fetched them.
    pub time: UnixTime,
    /// In the order in which they came.
    pub values: Vec<LiveValue>,
    /// Values beyond the limit.
    pub left_out: u64,
}

/// One value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LiveValue {
    /// Whose; [`PmcdClient::metric`] says what it is.
    pub metric: MetricId,
    /// Of which instance; −1 for a metric without instances.
    pub instance: i32,
    /// The value; a counter's as it is.
    pub value: f64,
}

/// Why the conversation with a `pmcd` cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LiveError {
    /// A message says that it is shorter than its head, or longer than 16 MiB.
    #[error("a message of {0} bytes, which pmcd does not send: is this a pmcd?")]
    Length(usize),
    /// A message of this type was not expected here.
    #[error("a message of type {0:#x} was not expected here: is this a pmcd?")]
    Unexpected(u32),
    /// Something in a message points outside of it, or makes no sense.
    #[error("a message from pmcd is damaged: {0}")]
    Damaged(#[from] Problem),
    /// It speaks another version of the protocol.
    #[error("pmcd speaks version {0} of its protocol, and only 2 is known here")]
    Version(u8),
    /// It refused what was asked for.
    #[error("pmcd refused {what}: PCP's error {status} (pmerr {status} explains it)")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// PCP's number for the error.
        status: i32,
    },
}

/// What is being waited for.
#[derive(Debug)]
enum LiveState {
    Hello,
    Names,
    /// The names from the one at `asked` on were asked for.
    Identifiers {
        names: Vec<String>,
        asked: usize,
        found: Vec<(String, u32)>,
    },
    /// The metric at the end is being described.
    Descriptors(Vec<(String, u32)>),
    /// The domain at the end is being asked for.
    Domains(Vec<u32>),
    Ready,
    /// The metrics from the one at `asked` on were asked for.
    Values {
        asked: usize,
        sample: Option<LiveSample>,
    },
}

impl PmcdClient {
    /// For the metrics whose names begin with `prefix` (all, if it is empty), within
    /// `limits`.
    pub fn new(prefix: &str, limits: LiveLimits) -> Self {
        Self {
            prefix: prefix.to_owned(),
            limits,
            inbox: Vec::new(),
            state: LiveState::Hello,
            metrics: Vec::new(),
            places: HashMap::new(),
            domains: LiveDomains::default(),
            is_stale: false,
            left_out: 0,
        }
    }

    /// The metrics that samples have values of, in the order of their names.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The metric with this identifier.
    pub fn metric(&self, id: MetricId) -> Option<&Metric> {
        self.places.get(&id.0).map(|place| &self.metrics[*place])
    }

    /// The instance that a value is of; `None` if it has no name (yet). A metric without
    /// instances has one without a name.
    pub fn instance(&self, value: &LiveValue) -> Option<&Instance> {
        let metric = self.metric(value.metric)?;
        match metric.domain {
            None => metric.instances.first(),
            Some(domain) => self.domains.instance(domain, value.instance),
        }
    }

    /// Names of metrics that were left out: those beyond the limits, and those of metrics
    /// without numbers.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Instances that were left out, since they are beyond the limits.
    pub fn left_out_instances(&self) -> u64 {
        self.domains.left_out()
    }

    /// Whether [`fetch`](Self::fetch) gives a request now.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, LiveState::Ready)
    }

    /// What asks for a sample; `None` unless the client is ready.
    pub fn fetch(&mut self) -> Option<Vec<u8>> {
        if !self.is_ready() {
            return None;
        }
        if std::mem::take(&mut self.is_stale) || self.metrics.is_empty() {
            self.state = LiveState::Names;
            return Some(self.traverse());
        }
        self.state = LiveState::Values {
            asked: 0,
            sample: None,
        };
        Some(self.fetch_from(0))
    }

    /// Takes what came from `pmcd`, whole messages or parts of them.
    ///
    /// # Errors
    ///
    /// [`LiveError`]; then the connection is of no use any more.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<LiveAction>, LiveError> {
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.extend_from_slice(bytes);
        let (mut at, mut actions) = (0, Vec::new());
        while let Some((pdu, len)) = pdu::first(&inbox[at..])? {
            self.message(pdu, &mut actions)?;
            at += len;
        }
        inbox.drain(..at);
        self.inbox = inbox;
        Ok(actions)
    }

    fn message(&mut self, pdu: Pdu<'_>, actions: &mut Vec<LiveAction>) -> Result<(), LiveError> {
        let state = std::mem::replace(&mut self.state, LiveState::Ready);
        let send = match (state, pdu.kind) {
            (LiveState::Hello, PduType::Error) => Some(self.hello(pdu.body)?),
            (LiveState::Names, PduType::Names) => Some(self.names(pdu.body)?),
            (LiveState::Names, PduType::Error) => {
                return Err(refused("the names below the prefix", pdu.body));
            }
            (
                LiveState::Identifiers {
                    names,
                    asked,
                    found,
                },
                PduType::Identifiers,
            ) => {
                let identifiers = reply::identifiers(pdu.body, NAMES_A_REQUEST)?;
                self.identifiers(names, asked, found, &identifiers)
            }
            // None of these names is known any more.
            (
                LiveState::Identifiers {
                    names,
                    asked,
                    found,
                },
                PduType::Error,
            ) => self.identifiers(names, asked, found, &[]),
            (LiveState::Descriptors(wanted), PduType::Descriptor) => {
                self.descriptor(wanted, Some(reply::descriptor(pdu.body)?))
            }
            (LiveState::Descriptors(wanted), PduType::Error) => self.descriptor(wanted, None),
            (LiveState::Domains(wanted), PduType::Instance) => {
                self.instances(pdu.body)?;
                self.next_domain(wanted)
            }
            (LiveState::Domains(wanted), PduType::Error) => self.next_domain(wanted),
            (LiveState::Values { asked, sample }, PduType::Result) => {
                self.values(asked, sample, pdu.body, actions)?
            }
            (LiveState::Values { asked, sample }, PduType::Error) => {
                // Before a result it may say what has changed, as bits of a status.
                if reply::status(pdu.body)? <= 0 {
                    return Err(refused("the values", pdu.body));
                }
                self.is_stale = true;
                self.state = LiveState::Values { asked, sample };
                return Ok(());
            }
            (_, kind) => return Err(LiveError::Unexpected(kind.number())),
        };
        match send {
            Some(bytes) => actions.push(LiveAction::Send(bytes)),
            None if !matches!(actions.last(), Some(LiveAction::Sample(_))) => {
                actions.push(LiveAction::Ready);
            }
            None => {}
        }
        Ok(())
    }

    fn hello(&mut self, body: &[u8]) -> Result<Vec<u8>, LiveError> {
        if reply::status(body)? < 0 {
            return Err(refused("the connection", body));
        }
        let version = reply::version(body)?;
        if version != VERSION {
            return Err(LiveError::Version(version));
        }
        let credentials = PduBuilder::new(PduType::Credentials).word(1);
        let credentials = credentials.word(u32::from_be_bytes([1, VERSION, 0, 0]));
        let mut bytes = credentials.finish();
        // Every instance is wanted: the context, 0 for that, and no domain that differs.
        let profile = PduBuilder::new(PduType::Profile).word(0).word(0);
        bytes.extend(profile.word(0).word(0).finish());
        bytes.extend(self.traverse());
        self.state = LiveState::Names;
        Ok(bytes)
    }

    fn traverse(&self) -> Vec<u8> {
        let request = PduBuilder::new(PduType::Traverse).word(0);
        request.text(&self.prefix).finish()
    }

    fn names(&mut self, body: &[u8]) -> Result<Vec<u8>, LiveError> {
        let kept = reply::names(body, &self.limits)?;
        let names = kept.list;
        self.left_out = kept.left_out;
        (self.metrics, self.places) = (Vec::new(), HashMap::new());
        self.domains = LiveDomains::default();
        let found = Vec::new();
        // Without names too: then the answer is an error, and there are no metrics.
        let request = lookup(&names, 0);
        self.state = LiveState::Identifiers {
            names,
            asked: 0,
            found,
        };
        Ok(request)
    }

    fn identifiers(
        &mut self,
        names: Vec<String>,
        asked: usize,
        mut found: Vec<(String, u32)>,
        identifiers: &[u32],
    ) -> Option<Vec<u8>> {
        let batch = names
            .iter()
            .skip(asked)
            .take(NAMES_A_REQUEST)
            .zip(identifiers);
        let known = batch.filter(|(_, id)| **id != NO_METRIC);
        found.extend(known.map(|(name, id)| (name.clone(), *id)));
        let asked = asked + NAMES_A_REQUEST;
        if asked < names.len() {
            let request = lookup(&names, asked);
            self.state = LiveState::Identifiers {
                names,
                asked,
                found,
            };
            return Some(request);
        }
        // The last one is described first.
        found.reverse();
        self.next_descriptor(found)
    }

    fn next_descriptor(&mut self, wanted: Vec<(String, u32)>) -> Option<Vec<u8>> {
        let Some((_, id)) = wanted.last() else {
            let domains: BTreeSet<u32> = self
                .metrics
                .iter()
                .filter_map(|known| known.domain)
                .collect();
            return self.ask_domains(domains.into_iter().collect());
        };
        let request = PduBuilder::new(PduType::DescriptorRequest).word(*id);
        self.state = LiveState::Descriptors(wanted);
        Some(request.finish())
    }

    fn descriptor(
        &mut self,
        mut wanted: Vec<(String, u32)>,
        descriptor: Option<Descriptor>,
    ) -> Option<Vec<u8>> {
        if let Some((name, id)) = wanted.pop() {
            let numeric =
                descriptor.filter(|found| found.id == id && found.value_type.is_numeric());
            match numeric {
                Some(descriptor) => self.add(name, descriptor),
                None => self.left_out += 1,
            }
        }
        self.next_descriptor(wanted)
    }

    fn add(&mut self, name: String, descriptor: Descriptor) {
        if let Some(place) = self.places.get(&descriptor.id) {
            let names = &mut self.metrics[*place].names;
            match names.len() < NAMES_A_METRIC_MAX {
                true => names.push(name),
                false => self.left_out += 1,
            }
            return;
        }
        let place = self.metrics.len();
        self.places.insert(descriptor.id, place);
        if let Some(domain) = descriptor.domain {
            self.domains.add_metric(domain, place);
        }
        let only = || Arc::from([Instance::only()]);
        self.metrics.push(Metric {
            names: vec![name],
            id: MetricId(descriptor.id),
            value_type: descriptor.value_type,
            semantics: descriptor.semantics,
            units: descriptor.units,
            domain: descriptor.domain,
            instances: descriptor.domain.map_or_else(only, |_| Arc::from([])),
        });
    }

    fn ask_domains(&mut self, wanted: Vec<u32>) -> Option<Vec<u8>> {
        let domain = *wanted.last()?;
        self.state = LiveState::Domains(wanted);
        let request = PduBuilder::new(PduType::InstanceRequest).word(domain);
        // A time that is not looked at, every instance, no name.
        let request = request.word(0).word(0).word(u32::MAX).word(0);
        Some(request.finish())
    }

    fn next_domain(&mut self, mut wanted: Vec<u32>) -> Option<Vec<u8>> {
        wanted.pop();
        self.ask_domains(wanted)
    }

    fn instances(&mut self, body: &[u8]) -> Result<(), Problem> {
        let domain = reply::domain(body)?;
        let room = self.domains.room(domain, self.limits.instances_max);
        let kept = reply::instances(body, room, self.limits.name_len_max)?;
        let replaced = self.domains.replace(domain, kept.list, kept.left_out);
        if let Some((places, instances)) = replaced {
            for place in places {
                self.metrics[*place].instances = Arc::clone(&instances);
            }
        }
        Ok(())
    }

    fn fetch_from(&self, begin: usize) -> Vec<u8> {
        let batch = self.metrics.iter().skip(begin).take(METRICS_A_REQUEST);
        // The context, a time that is not looked at, and how many metrics follow.
        let mut request = PduBuilder::new(PduType::Fetch).word(0).word(0).word(0);
        request = request.word(batch.len() as u32);
        for metric in batch {
            request = request.word(metric.id.0);
        }
        request.finish()
    }

    fn values(
        &mut self,
        asked: usize,
        sample: Option<LiveSample>,
        body: &[u8],
        actions: &mut Vec<LiveAction>,
    ) -> Result<Option<Vec<u8>>, LiveError> {
        let known = sample.as_ref().map_or(0, |sample| sample.values.len());
        let room = self.limits.values_max.saturating_sub(known);
        let fetched = reply::fetched(body, room, |id| self.type_of(id))?;
        let mut sample = sample.unwrap_or(LiveSample {
            time: fetched.time,
            values: Vec::new(),
            left_out: 0,
        });
        sample.left_out += fetched.left_out;
        let values = fetched.values.into_iter();
        sample
            .values
            .extend(values.map(|(metric, instance, value)| LiveValue {
                metric: MetricId(metric),
                instance,
                value,
            }));
        let asked = asked + METRICS_A_REQUEST;
        if asked < self.metrics.len() {
            let sample = Some(sample);
            self.state = LiveState::Values { asked, sample };
            return Ok(Some(self.fetch_from(asked)));
        }
        let unknown = self.unknown_domains(&sample);
        actions.push(LiveAction::Sample(sample));
        Ok(self.ask_domains(unknown))
    }

    fn type_of(&self, id: u32) -> Option<ValueType> {
        self.metric(MetricId(id)).map(|metric| metric.value_type)
    }

    /// Domains with an instance that has no name yet.
    fn unknown_domains(&self, sample: &LiveSample) -> Vec<u32> {
        let mut unknown = BTreeSet::new();
        for value in &sample.values {
            if self.instance(value).is_some() {
                continue;
            }
            let domain = self.metric(value.metric).and_then(|metric| metric.domain);
            unknown.extend(domain.filter(|domain| self.domains.is_worth_asking(*domain)));
        }
        unknown.into_iter().collect()
    }
}

/// Asks for the identifiers of the names from `begin` on.
fn lookup(names: &[String], begin: usize) -> Vec<u8> {
    let batch = names.iter().skip(begin).take(NAMES_A_REQUEST);
    let bytes: usize = batch.clone().map(|name| name.len() + 1).sum();
    let mut request = PduBuilder::new(PduType::Names).word(bytes as u32).word(0);
    request = request.word(batch.len() as u32);
    for name in batch {
        request = request.text(name);
    }
    request.finish()
}

fn refused(what: &'static str, body: &[u8]) -> LiveError {
    match reply::status(body) {
        Ok(status) => LiveError::Refused { what, status },
        Err(problem) => LiveError::Damaged(problem),
    }
}

/// Of the protocol.
const VERSION: u8 = 2;

/// `pmcd` takes no request of more than 64 KiB. Names are seldom longer than 100 bytes.
const NAMES_A_REQUEST: usize = 256;
const METRICS_A_REQUEST: usize = 4096;

/// Of several names each has all values; PCP's own agents give a metric two at most.
const NAMES_A_METRIC_MAX: usize = 16;

/// The longest message that is taken.
pub(crate) const LIVE_BYTES_MAX: usize = 16 << 20;
