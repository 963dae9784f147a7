//! Values of the real `pmcd`, by its socket and over TCP, against `pminfo`.

use super::{any_bytes, live_properties, pmcd::Pmcd};
use busyhour_pcp::{
    LiveAction, LiveError, LiveLimits, LiveSample, PmcdClient, Semantics, ValueType,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
};

/// Speaks with `pmcd` until the client is ready, and for so many samples.
fn samples(
    stream: &mut (impl Read + Write),
    client: &mut PmcdClient,
    count: usize,
    piece_len: usize,
) -> Result<Vec<LiveSample>, LiveError> {
    let (mut samples, mut bytes) = (Vec::new(), vec![0; piece_len]);
    if let Some(request) = client.fetch() {
        // It is ready since an earlier call.
        stream.write_all(&request).unwrap();
    }
    loop {
        let len = stream.read(&mut bytes).unwrap();
        assert!(len > 0, "pmcd closed the connection");
        for action in client.receive(&bytes[..len])? {
            match action {
                LiveAction::Send(bytes) => stream.write_all(&bytes).unwrap(),
                LiveAction::Ready => {}
                LiveAction::Sample(sample) => samples.push(sample),
            }
        }
        if samples.len() == count {
            return Ok(samples);
        }
        if let Some(request) = client.fetch() {
            stream.write_all(&request).unwrap();
        }
    }
}

fn metrics(metrics_max: usize) -> LiveLimits {
    LiveLimits {
        metrics_max,
        ..LiveLimits::default()
    }
}

/// By name, as `pminfo -f` prints them: the number, or the numbers of the instances.
fn values(client: &PmcdClient, sample: &LiveSample) -> BTreeMap<String, Vec<(String, f64)>> {
    let mut values: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    for value in &sample.values {
        let metric = client.metric(value.metric).unwrap();
        // One metric of the agent has instances that its domain does not have.
        let is_bogus = metric.name() == "sample.bogus_bin";
        let Some(instance) = client.instance(value) else {
            assert!(is_bogus, "{value:?} of {metric:?}");
            continue;
        };
        for name in &metric.names {
            let of_name = values.entry(name.clone()).or_default();
            of_name.push((instance.name.clone(), value.value));
        }
    }
    values
}

#[test]
fn names_kinds_instances_and_values_are_those_of_pminfo() {
    let pmcd = Pmcd::start(&[]);
    let mut unix = UnixStream::connect(pmcd.socket()).unwrap();
    let mut client = PmcdClient::new("sample", metrics(10_000));
    let by_socket = samples(&mut unix, &mut client, 2, 4096).unwrap();
    // All names of metrics with numbers.
    let listed = pmcd.ask("pminfo", &["-d", "sample"]).unwrap();
    let mut theirs = BTreeSet::new();
    for lines in listed.split("\n\n") {
        let kind = lines.split("Data Type: ").nth(1).unwrap_or_default();
        let kind = kind.split("  InDom").next().unwrap_or_default();
        if NUMBERS.contains(&kind) {
            theirs.insert(lines.split_whitespace().next().unwrap());
        }
    }
    let ours = client.metrics().iter().flat_map(|metric| &metric.names);
    let ours: BTreeSet<&str> = ours.map(String::as_str).collect();
    assert_eq!(ours, theirs);
    assert!(ours.len() > 100 && client.left_out() > 10);
    // Values that do not change.
    let found = values(&client, &by_socket[1]);
    let bins: Vec<(String, f64)> = (1..10)
        .map(|bin| (format!("bin-{}", bin * 100), f64::from(bin * 100)))
        .collect();
    for name in [
        "sample.bin",
        "sample.ulong.bin",
        "sample.longlong.bin",
        "sample.float.bin",
        "sample.double.bin",
    ] {
        assert_eq!(found[name], bins, "{name}");
    }
    let one = |value| vec![(String::new(), value)];
    assert_eq!(found["sample.long.ten"], one(10.0));
    assert_eq!(found["sample.longlong.one"], one(1.0));
    assert_eq!(found["sample.double.million"], one(1e6));
    let of_name = |name: &str| {
        let mut metrics = client.metrics().iter();
        let found = metrics.find(|metric| metric.names.iter().any(|found| found == name));
        found.unwrap_or_else(|| panic!("{name}: {:?}", client.metrics()))
    };
    let seconds = of_name("sample.seconds");
    assert_eq!(
        (
            seconds.semantics,
            seconds.value_type,
            seconds.units.to_string().as_str()
        ),
        (Semantics::Counter, ValueType::U32, "sec")
    );
    assert!(by_socket[1].time >= by_socket[0].time);
    // The same over TCP, a byte at a time.
    let mut tcp = TcpStream::connect(("127.0.0.1", pmcd.port)).unwrap();
    let mut client = PmcdClient::new("sample.ulong", metrics(10_000));
    let by_tcp = samples(&mut tcp, &mut client, 1, 1).unwrap();
    assert_eq!(values(&client, &by_tcp[0])["sample.ulong.bin"], bins);
    // A limit is kept, and what it leaves out is counted.
    let mut unix = UnixStream::connect(pmcd.socket()).unwrap();
    let mut client = PmcdClient::new("sample.ulong", metrics(2));
    let limited = samples(&mut unix, &mut client, 1, 64).unwrap();
    let listed = pmcd.ask("pminfo", &["sample.ulong"]).unwrap();
    let left_out = listed.lines().count() as u64 - 2;
    assert_eq!((client.metrics().len(), client.left_out()), (2, left_out));
    assert!(!limited[0].values.is_empty());
    // All of them, and those of the other agents.
    let mut unix = UnixStream::connect(pmcd.socket()).unwrap();
    let mut client = PmcdClient::new("", metrics(10_000));
    samples(&mut unix, &mut client, 1, 65_536).unwrap();
    let has = |prefix: &str| {
        client
            .metrics()
            .iter()
            .any(|metric| metric.name().starts_with(prefix))
    };
    assert!(has("pmcd.pdu_in") && has("sample.") && has("openmetrics.control"));
}

#[test]
fn a_prefix_without_metrics_is_refused_by_pmcd() {
    let pmcd = Pmcd::start(&[]);
    let mut unix = UnixStream::connect(pmcd.socket()).unwrap();
    let mut client = PmcdClient::new("nothing.such", metrics(10));
    let refused = samples(&mut unix, &mut client, 1, 4096).unwrap_err();
    let what = "the names below the prefix";
    let status = -12357;
    assert_eq!(refused, LiveError::Refused { what, status });
    assert!(refused.to_string().contains("pmerr -12357"));
}

/// The sample agent has a domain whose instances are those in a file.
#[test]
fn instances_that_appear_later_have_their_names() {
    let pmcd = Pmcd::start(&[]);
    let file = pmcd.folder.path().join("pmdas/sample/dynamic.indom");
    let mut unix = UnixStream::connect(pmcd.socket()).unwrap();
    let mut client = PmcdClient::new("sample.dynamic", metrics(100));
    let names = |client: &PmcdClient, sample: &LiveSample| {
        let values = values(client, sample).remove("sample.dynamic.instant");
        let names = values.unwrap_or_default().into_iter().map(|(name, _)| name);
        names.collect::<BTreeSet<String>>()
    };
    let first = samples(&mut unix, &mut client, 1, 4096).unwrap();
    assert!(names(&client, &first[0]).is_empty());
    fs::write(&file, "5 five\n6 six\n").unwrap();
    // The second sample names them, and before the third the client asks what they are.
    let later = samples(&mut unix, &mut client, 3, 4096).unwrap();
    let expected = ["five", "six"].map(str::to_owned);
    assert_eq!(names(&client, later.last().unwrap()), expected.into());
}

#[test]
fn what_is_no_pmcd_is_named() {
    let receive = |bytes: &[u8]| PmcdClient::new("", metrics(10)).receive(bytes);
    let refused = receive(b"HTTP/1.1 400 Bad Request\r\n").unwrap_err();
    assert_eq!(refused, LiveError::Length(0x4854_5450));
    assert!(refused.to_string().ends_with("is this a pmcd?"));
    assert_eq!(receive(&[0, 0, 0, 11]), Err(LiveError::Length(11)));
    // Nothing is known of a message that is not whole.
    assert_eq!(receive(&[0, 0, 0, 20, 0, 0]), Ok(vec![]));
    assert_eq!(
        receive(&pdu(0x7001, &[])),
        Err(LiveError::Unexpected(0x7001))
    );
    assert_eq!(
        receive(&pdu(0x7000, &[0, 0x0301_0000])),
        Err(LiveError::Version(3))
    );
    let status = (-1i32).cast_unsigned();
    let what = "the connection";
    let refused = Err(LiveError::Refused { what, status: -1 });
    assert_eq!(receive(&pdu(0x7000, &[status, 0])), refused);
    assert!(matches!(
        receive(&pdu(0x7000, &[])),
        Err(LiveError::Damaged(_))
    ));
}

/// A message of this type with a body of words.
fn pdu(kind: u32, words: &[u32]) -> Vec<u8> {
    let mut bytes = (12 + 4 * words.len() as u32).to_be_bytes().to_vec();
    let words = [kind, 0].into_iter().chain(words.iter().copied());
    bytes.extend(words.flat_map(u32::to_be_bytes));
    bytes
}

/// A text of `len` letters, as words after its length.
fn text(letter: u8, len: usize) -> Vec<u32> {
    let mut bytes = vec![letter; len];
    bytes.resize(len.next_multiple_of(4), 0);
    let words = bytes.chunks_exact(4);
    let words = words.map(|word| u32::from_be_bytes(word.try_into().unwrap()));
    [len as u32].into_iter().chain(words).collect()
}

/// What `pmcd` says about `names`, all of one domain; then that the domain has `instances`,
/// by the lengths of their names, and a value of each for the first metric.
fn conversation(names: &[(u8, usize)], instances: &[usize]) -> [Vec<u8>; 6] {
    let told = names.iter().flat_map(|(letter, len)| text(*letter, *len));
    let names: Vec<u32> = [0, 0, names.len() as u32].into_iter().chain(told).collect();
    let count = instances.len() as u32;
    let told = (0..count).zip(instances);
    let told = told.flat_map(|(id, len)| [id].into_iter().chain(text(b'i', *len)));
    let domain: Vec<u32> = [DOMAIN, count].into_iter().chain(told).collect();
    let values = (0..count).flat_map(|id| [id, 100 + id]);
    let result = [1, 0, 1, 1, count, 0].into_iter().chain(values);
    [
        pdu(0x7000, &[0, 0x0200_0000]),
        pdu(0x700e, &names),
        pdu(0x700d, &[0, 4, 1, 2, 3, 4]),
        [1, 2]
            .map(|id| pdu(0x7005, &[id, 1, DOMAIN, 3, 0]))
            .concat(),
        pdu(0x7007, &domain),
        pdu(0x7001, &result.collect::<Vec<u32>>()),
    ]
}

const DOMAIN: u32 = 7;

#[test]
fn of_a_pmcd_that_lies_no_more_is_kept_than_the_limits_allow() {
    let limits = LiveLimits {
        metrics_max: 2,
        instances_max: 3,
        values_max: 4,
        name_len_max: 8,
    };
    let mut client = PmcdClient::new("", limits);
    let names = [(b'd', 1), (b'b', 1), (b'a', 9), (b'c', 8), (b'b', 1)];
    let [hello, names, identifiers, descriptors, domain, result] =
        conversation(&names, &[9, 8, 8, 8, 8]);
    for bytes in [hello, names, identifiers, descriptors, domain] {
        client.receive(&bytes).unwrap();
    }
    // The first names in their order, each once, but none that is too long.
    let kept: Vec<&str> = client.metrics().iter().map(|found| found.name()).collect();
    assert_eq!(kept, ["b", "cccccccc"]);
    assert_eq!(client.left_out(), 2);
    for metric in client.metrics() {
        let kept: Vec<i32> = metric.instances.iter().map(|found| found.id).collect();
        assert_eq!(kept, [1, 2, 3]);
    }
    assert_eq!(client.left_out_instances(), 2);
    client.fetch().unwrap();
    let actions = client.receive(&result).unwrap();
    // It does not ask for the domain again, which would tell no more.
    let [LiveAction::Sample(sample)] = &actions[..] else {
        panic!("{actions:?}");
    };
    let kept: Vec<(i32, f64)> = (sample.values.iter())
        .map(|value| (value.instance, value.value))
        .collect();
    assert_eq!(kept, [(0, 100.0), (1, 101.0), (2, 102.0), (3, 103.0)]);
    assert_eq!(sample.left_out, 1);
    let named = sample.values.iter().map(|value| client.instance(value));
    let named: Vec<Option<i32>> = named.map(|found| found.map(|found| found.id)).collect();
    assert_eq!(named, [None, Some(1), Some(2), Some(3)]);
}

/// The limit counts the instances of all domains, and a domain that is told again replaces
/// what it was.
#[test]
fn a_domain_that_is_told_again_takes_no_more_room() {
    let limits = LiveLimits {
        instances_max: 4,
        ..LiveLimits::default()
    };
    let mut client = PmcdClient::new("", limits);
    let [hello, names, identifiers, descriptors, domain, result] =
        conversation(&[(b'a', 1), (b'b', 1)], &[1, 1, 1]);
    for bytes in [hello, names, identifiers, descriptors, domain] {
        client.receive(&bytes).unwrap();
    }
    for _ in 0..3 {
        client.fetch().unwrap();
        // An instance that the domain did not have; so it is asked for again.
        let later = conversation(&[], &[1, 1, 1, 1]);
        let actions = client.receive(&later[5]).unwrap();
        assert!(matches!(actions[0], LiveAction::Sample(_)));
        if matches!(actions.get(1), Some(LiveAction::Send(_))) {
            client.receive(&later[4]).unwrap();
        }
    }
    assert_eq!(client.metrics()[1].instances.len(), 4);
    assert_eq!(client.left_out_instances(), 0);
    client.fetch().unwrap();
    assert_eq!(client.receive(&result).unwrap().len(), 1);
}

#[test]
fn a_metric_has_no_more_than_some_names() {
    let mut client = PmcdClient::new("", LiveLimits::default());
    let names: Vec<(u8, usize)> = (1..=100).map(|len| (b'n', len)).collect();
    let [hello, names, ..] = conversation(&names, &[]);
    client.receive(&hello).unwrap();
    client.receive(&names).unwrap();
    let identifiers: Vec<u32> = [0, 100].into_iter().chain([1; 100]).collect();
    client.receive(&pdu(0x700d, &identifiers)).unwrap();
    for _ in 0..100 {
        client
            .receive(&pdu(0x7005, &[1, 1, u32::MAX, 3, 0]))
            .unwrap();
    }
    assert!(client.is_ready());
    assert_eq!(client.metrics().len(), 1);
    assert_eq!(client.metrics()[0].names.len(), 16);
    assert_eq!(client.left_out(), 84);
}

#[test]
fn the_property_of_the_client_holds_for_any_bytes() {
    any_bytes::hold_for("pmcd_client", 20_000, live_properties::hold);
}

const NUMBERS: [&str; 6] = [
    "32-bit int",
    "32-bit unsigned int",
    "64-bit int",
    "64-bit unsigned int",
    "float",
    "double",
];
