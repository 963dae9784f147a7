//! The HTTP part over real connections; a stub replaces the server behind.

use busyhour::{bus::Event, runtime::Runtime, task::Overflow};
use busyhour_server::{
    server::{ALL_QUEUES, QueueKindStats, QueueView, ServerStats},
    web::{
        Access, Backend, BindingPage, BindingView, GraphOptions, Graphs, Scope, Token, Web,
        WebOptions,
    },
};
use std::{
    io::{BufRead, BufReader},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use ureq::{Agent, Body, http::Response};

#[derive(Default)]
struct StandIn {
    snapshots: AtomicU64,
    draining: AtomicBool,
    /// How often the queues were listed.
    listings: AtomicU64,
    runtime: OnceLock<Runtime>,
}

impl Backend for StandIn {
    fn stats(&self) -> ServerStats {
        let mut stats = ServerStats {
            queues: vec![QueueKindStats {
                name: "watcher",
                high_watermark: 16,
                alerts_raised: 3,
                high_count: 1,
            }],
            ..ServerStats::default()
        };
        stats.registrar.accepted = self.snapshots.fetch_add(1, Ordering::Relaxed);
        stats.registrar.binding_count = 12_000;
        stats
    }

    fn bindings(&self, after: Option<&str>, limit: usize, _: Option<&str>) -> BindingPage {
        let first = after.map_or(0, |after| after[1..].parse::<usize>().unwrap() + 1);
        let last = (first + limit).min(5);
        BindingPage {
            bindings: (first..last).map(binding).collect(),
            next: (last < 5).then(|| format!("d{}", last - 1)),
        }
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn queues(&self) -> Vec<QueueView> {
        self.listings.fetch_add(1, Ordering::Relaxed);
        let watcher = QueueView {
            kind: "watcher",
            name: "presence of sip:alice@example.com to 192.0.2.7:5060".into(),
            queued_len: 20,
            high_watermark: Some(16),
            is_high: Some(true),
            ..QueueView::default()
        };
        let all = QueueView {
            name: ALL_QUEUES.into(),
            ..watcher.clone()
        };
        vec![all, watcher]
    }

    fn runtime(&self) -> Option<&Runtime> {
        self.runtime.get()
    }
}

fn binding(number: usize) -> BindingView {
    BindingView {
        aor: format!("d{number}"),
        contact: format!("sip:d{number}@192.0.2.1"),
        parameters: String::new(),
        q_milli: Some(1000),
        path: String::new(),
        call_id: "c".into(),
        cseq: 1,
        transport: "udp",
        source: "192.0.2.1:5060".into(),
        reachable: true,
        reach: "reachable",
        expires_in_seconds: 60,
        user_agent: "\"<phone>\"".into(),
    }
}

struct Fixture {
    _runtime: Runtime,
    stand_in: Arc<StandIn>,
    web: Web,
    agent: Agent,
}

fn fixture() -> Fixture {
    let stand_in = Arc::new(StandIn::default());
    let address = "127.0.0.1:0".parse().unwrap();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let graphs = Graphs::new(&runtime, GraphOptions::default(), Vec::new());
    let tokens = vec![Token::new("test", Scope::Write, "secret")];
    let options = WebOptions {
        tls: None,
        operator: None,
        certificates: None,
        telephone: None,
        challenges: None,
        address: Some(address),
        socket: None,
        connections_max: 16,
        connections_per_source_max: 16,
        patience: Duration::from_secs(60),
        access: Arc::new(Access::new(Vec::new(), tokens)),
    };
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)));
    Fixture {
        web: Web::start(options, stand_in.clone(), graphs).unwrap(),
        _runtime: runtime,
        stand_in,
        agent: config.build().into(),
    }
}

impl Fixture {
    fn get(&self, path: &str) -> Response<Body> {
        let url = format!("http://{}{path}", self.web.address().unwrap());
        self.agent.get(url).call().unwrap()
    }

    fn text(&self, path: &str) -> String {
        self.get(path).into_body().read_to_string().unwrap()
    }

    /// Sends a request as Grafana's Graphite data source does: parameters in
    /// the URL and in a form.
    fn post(&self, path: &str, form: &str) -> Response<Body> {
        let url = format!("http://{}{path}", self.web.address().unwrap());
        let request = self.agent.post(url);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        request.send(form).unwrap()
    }

    fn posted(&self, path: &str, form: &str) -> serde_json::Value {
        let response = self.post(path, form);
        assert_eq!(response.status(), 200, "{path} {form}");
        assert_eq!(header(&response, "content-type"), "application/json");
        serde_json::from_str(&response.into_body().read_to_string().unwrap()).unwrap()
    }
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> &'a str {
    response.headers()[name].to_str().unwrap()
}

#[test]
fn the_page_is_html_that_may_load_nothing_from_elsewhere() {
    let fixture = fixture();
    let page = fixture.get("/");
    assert_eq!(page.status(), 200);
    assert!(header(&page, "content-type").starts_with("text/html"));
    assert!(header(&page, "content-security-policy").starts_with("default-src 'none';"));
    let html = page.into_body().read_to_string().unwrap();
    assert!(html.contains("id=\"main\"") && html.contains("/assets/app.js"));
}

#[test]
fn the_snapshot_is_json_and_fresh() {
    let fixture = fixture();
    let read =
        || -> serde_json::Value { serde_json::from_str(&fixture.text("/api/stats")).unwrap() };
    let (first, second) = (read(), read());
    assert_eq!(first["registrar"]["binding_count"], 12_000);
    let accepted = |stats: &serde_json::Value| stats["registrar"]["accepted"].as_u64().unwrap();
    assert!(accepted(&second) > accepted(&first));
}

/// Reads the next `count` events; returns their numbers and their `accepted`
/// counters.
fn events(stream: &mut impl BufRead, count: usize) -> Vec<(u64, u64)> {
    let mut events = Vec::new();
    let (mut number, mut is_stats) = (None, false);
    for line in stream.lines().map(Result::unwrap) {
        if let Some(id) = line.strip_prefix("id: ") {
            number = id.parse().ok();
        } else if let Some(event) = line.strip_prefix("event: ") {
            is_stats = event == "stats";
        } else if let Some(data) = line.strip_prefix("data: ")
            && is_stats
        {
            let stats: serde_json::Value = serde_json::from_str(data).unwrap();
            events.push((
                number.unwrap(),
                stats["registrar"]["accepted"].as_u64().unwrap(),
            ));
        }
        if events.len() == count {
            break;
        }
    }
    events
}

#[test]
fn events_come_in_order_and_a_reader_that_reconnects_misses_none() {
    let fixture = fixture();
    let response = fixture.get("/api/events");
    assert_eq!(header(&response, "content-type"), "text/event-stream");
    let first = events(&mut BufReader::new(response.into_body().into_reader()), 2);
    assert_eq!(first[0].0, 1);
    assert_eq!(first[1].0, 2);
    assert!(first[0].1 < first[1].1);

    let url = format!("http://{}/api/events", fixture.web.address().unwrap());
    let resumed = fixture
        .agent
        .get(url)
        .header("last-event-id", "1")
        .call()
        .unwrap();
    let again = events(&mut BufReader::new(resumed.into_body().into_reader()), 1);
    assert_eq!(again[0], first[1]);
}

/// The data of the first event with this name.
fn first_event(stream: impl BufRead, name: &str) -> serde_json::Value {
    let mut is_it = false;
    for line in stream.lines().map(Result::unwrap) {
        if let Some(event) = line.strip_prefix("event: ") {
            is_it = event == name;
        } else if let Some(data) = line.strip_prefix("data: ")
            && is_it
        {
            return serde_json::from_str(data).unwrap();
        }
    }
    panic!("the stream ended without {name}")
}

#[test]
fn a_reader_of_events_gets_the_queues_which_are_listed_for_nobody_else() {
    let fixture = fixture();
    let counted = |stats: &serde_json::Value| stats["registrar"]["accepted"].as_u64();
    let samples: serde_json::Value = serde_json::from_str(&fixture.text("/api/stats")).unwrap();
    assert!(counted(&samples) > Some(0), "samples were taken");
    assert_eq!(fixture.stand_in.listings.load(Ordering::Relaxed), 0);
    let stream = fixture.get("/api/events").into_body().into_reader();
    let queues = first_event(BufReader::new(stream), "queues");
    let listed: serde_json::Value = serde_json::from_str(&fixture.text("/api/queues")).unwrap();
    assert_eq!(queues[1], listed["queues"][1], "one shape");
    assert_eq!(
        (&queues[1]["queued_len"], &queues[1]["is_high"]),
        (&20.into(), &true.into())
    );
}

#[test]
fn connections_and_requests_of_http_are_among_the_queues() {
    let fixture = fixture();
    let _stream = fixture.get("/api/events");
    fixture.text("/render?target=busyhour.uptime_ns&format=json");
    let listed: serde_json::Value = serde_json::from_str(&fixture.text("/api/queues")).unwrap();
    let of = |kind: &str, name: &str| {
        let mut queues = listed["queues"].as_array().unwrap().iter();
        let found = queues.find(|one| one["kind"] == kind && one["name"] == name);
        found.unwrap_or_else(|| panic!("{kind} {name}: {listed}"))
    };
    let connections = of("http", "connections");
    assert!(
        connections["queued_len"].as_u64() >= Some(2),
        "{connections}"
    );
    assert_eq!(connections["capacity"], 16);
    let requests = of("http", "requests");
    assert_eq!(requests["queued_len"], 1, "this one: {requests}");
    assert_eq!(requests["running"], "/api/v1/queues");
    assert!(requests["running_for_ns"].as_u64() > Some(0));
    assert!(requests["processed"].as_u64() >= Some(2), "{requests}");
    assert_eq!(of("http", "event streams")["queued_len"], 1);
    assert_eq!(of("http", "bodies")["queued_bytes"], 0);
    assert_eq!(of("http", "requests of the local socket")["processed"], 0);
    assert_eq!(of("graphite", "waiting")["processed"], 1);
    assert_eq!(of("graphite", "evaluated")["capacity"], 2);
}

#[derive(Clone)]
struct Change(u8);

impl Event for Change {
    type Key = u8;

    fn key(&self) -> &u8 {
        &self.0
    }
}

#[test]
fn long_queues_and_slow_subscribers_are_alerts_by_name() {
    let fixture = fixture();
    let runtime = Runtime::simulated(1);
    let topic = runtime.topic::<Change>("changes").build();
    let subscribe = |name: &str, capacity| {
        let subscription = topic.subscribe().name(name).capacity(capacity);
        let subscription = subscription.overflow(Overflow::DropOldest);
        subscription.on(runtime.pool()).start(|_| ())
    };
    let _subscriptions = [subscribe("slow", 2), subscribe("quick", 100)];
    for number in 0..5 {
        let _ = topic.publish(Change(number));
    }
    assert!(fixture.stand_in.runtime.set(runtime.clone()).is_ok());
    let alerts: serde_json::Value = serde_json::from_str(&fixture.text("/api/alerts")).unwrap();
    let shown = |alert: &serde_json::Value| {
        let of = |key: &str| alert[key].to_string();
        [
            of("name"),
            of("count"),
            of("is_active"),
            of("queued_len"),
            of("limit"),
        ]
        .join(" ")
    };
    let shown: Vec<_> = alerts["alerts"]
        .as_array()
        .unwrap()
        .iter()
        .map(shown)
        .collect();
    assert_eq!(
        shown,
        [
            "null 3 true null \"the high watermark of watcher (16 waiting)\"",
            "\"presence of sip:alice@example.com to 192.0.2.7:5060\" null true 20 \
             \"the high watermark of watcher (16 waiting)\"",
            "\"slow\" 3 true 2 \"the queue of a subscriber of changes\"",
        ]
    );
}

#[test]
fn metrics_are_in_the_openmetrics_format() {
    let fixture = fixture();
    let response = fixture.get("/metrics");
    assert!(header(&response, "content-type").starts_with("application/openmetrics-text"));
    let text = response.into_body().read_to_string().unwrap();
    assert!(
        text.contains("\nbusyhour_registrar_bindings 12000.0\n"),
        "{text}"
    );
    let gauge = "\nbusyhour_queues_high_watermark{name=\"watcher\"} 16.0\n";
    assert!(text.contains(gauge), "{text}");
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn health_is_good_until_the_server_drains() {
    let fixture = fixture();
    assert_eq!(fixture.get("/healthz").status(), 200);
    fixture.stand_in.draining.store(true, Ordering::Relaxed);
    let draining = fixture.get("/healthz");
    assert_eq!(draining.status(), 503);
    assert_eq!(
        draining.into_body().read_to_string().unwrap(),
        "shutting down\n"
    );
}

#[test]
fn bindings_come_a_page_at_a_time() {
    let fixture = fixture();
    let mut seen = Vec::new();
    let mut path = "/api/bindings?limit=2".to_owned();
    loop {
        let page: serde_json::Value = serde_json::from_str(&fixture.text(&path)).unwrap();
        for binding in page["bindings"].as_array().unwrap() {
            assert_eq!(binding["user_agent"], "\"<phone>\"");
            seen.push(binding["aor"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => path = format!("/api/bindings?limit=2&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["d0", "d1", "d2", "d3", "d4"]);
}

#[test]
fn invalid_requests_are_answered_with_an_error() {
    let fixture = fixture();
    assert_eq!(fixture.get("/api/bindings?limit=0").status(), 400);
    assert_eq!(fixture.get("/api/bindings?limit=many").status(), 400);
    for path in ["bindings?usr=a", "changes?usr=a", "failures?usr=a"] {
        assert_eq!(fixture.get(&format!("/api/{path}")).status(), 400, "{path}");
    }
    assert_eq!(fixture.get("/nowhere").status(), 404);
    let url = format!("http://{}/api/stats", fixture.web.address().unwrap());
    let request = fixture
        .agent
        .delete(url)
        .header("authorization", "Bearer secret");
    assert_eq!(request.call().unwrap().status(), 405);
}

#[test]
fn a_stop_ends_the_event_streams_and_frees_the_port() {
    let fixture = fixture();
    let address = fixture.web.address().unwrap();
    let stream = fixture.get("/api/events").into_body();
    drop(fixture.web);
    // The stream ends; if it stayed open, the read would time out.
    let mut rest = BufReader::new(stream.into_with_config().reader());
    while !rest.fill_buf().unwrap().is_empty() {
        let len = rest.buffer().len();
        rest.consume(len);
    }
    std::net::TcpListener::bind(address).unwrap();
}

#[test]
fn grafana_gets_the_servers_own_values() {
    let fixture = fixture();
    // The request of a panel: the target of the query editor, the range of the
    // dashboard, and the width of the panel.
    let form = "target=aliasByNode(scale(busyhour.registrar.binding_count%2C%202)%2C%201%2C%202)\
                &from=-6h&until=now&format=json&maxDataPoints=1174";
    let answer = fixture.posted("/render", form);
    assert_eq!(answer[0]["target"], "registrar.binding_count");
    assert_eq!(answer[0]["datapoints"][0][0], 24_000.0);
    assert!(answer[0]["datapoints"][0][1].as_i64().unwrap() % 10 == 0);
    // Absolute ranges are seconds since 1970.
    let past = "target=busyhour.registrar.*&from=1289662349&until=1289665949&format=json&maxDataPoints=100";
    let answer = fixture.posted("/render", past);
    assert!(
        answer
            .as_array()
            .unwrap()
            .iter()
            .all(|series| series["datapoints"] == serde_json::json!([]))
    );
    // A panel with several queries: each series has the name of its own target, in the
    // order of the targets.
    let several = "target=busyhour.registrar.accepted\
                   &target=alias(scale(busyhour.registrar.binding_count%2C2)%2C'twice')\
                   &target=nothing.like.that\
                   &from=-15min&until=now&format=json&maxDataPoints=600&cacheTimeout=60";
    let answer = fixture.posted("/render", several);
    let names: Vec<&str> = answer
        .as_array()
        .unwrap()
        .iter()
        .map(|series| series["target"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["busyhour.registrar.accepted", "twice"]);
    // Ranges that end in the past, as Grafana translates "now-1M/M" and "now-2d".
    for range in [
        "from=-1mon&until=-1d",
        "from=-2d&until=-1h",
        "from=-5min&until=now",
    ] {
        let form = format!("target=busyhour.*.accepted&{range}&format=json&maxDataPoints=100");
        assert!(fixture.posted("/render", &form).is_array(), "{range}");
    }
    // An image, for a page without Grafana.
    let image =
        fixture.get("/render?target=busyhour.registrar.accepted&from=-1h&width=300&height=200");
    assert_eq!(header(&image, "content-type"), "image/png");
    assert!(
        image
            .into_body()
            .read_to_vec()
            .unwrap()
            .starts_with(b"\x89PNG")
    );
}

#[test]
fn each_view_counts_what_it_was_made_of_and_how_long_it_took() {
    let fixture = fixture();
    let digest = || {
        let stats: serde_json::Value = serde_json::from_str(&fixture.text("/api/stats")).unwrap();
        stats["graphite"]["digest"].clone()
    };
    assert_eq!(digest()["views"], 0);
    // Three series at least, of which two sums are made; then one.
    let sum = "target=sumSeries(busyhour.registrar.*)&target=sumSeries(busyhour.registrar.*)\
               &from=-1h&format=json";
    assert_eq!(fixture.posted("/render", sum).as_array().unwrap().len(), 2);
    let first = digest();
    let metrics = first["metrics"].as_u64().unwrap();
    assert!(metrics > 6 && metrics % 2 == 0, "{first}");
    assert_eq!(first["views"], 1);
    assert_eq!(first["last_metric_count"], metrics);
    assert!(first["values"].as_u64().unwrap() >= metrics);
    assert!(first["duration_ns_total"].as_u64().unwrap() > 0);
    assert_eq!(first["duration_ns_max"], first["duration_ns_total"]);
    assert_eq!(first["last_duration_ns"], first["duration_ns_total"]);
    fixture.posted("/render", "target=busyhour.uptime_ns&from=-1h&format=json");
    // What is no view, or is refused, does not count.
    fixture.posted("/metrics/find", "query=*");
    fixture.post("/render", "target=scale(busyhour.uptime_ns&format=json");
    let second = digest();
    assert_eq!(
        (&second["views"], &second["last_metric_count"]),
        (&2.into(), &1.into())
    );
    assert_eq!(second["metrics"], metrics + 1);
    assert!(second["duration_ns_total"].as_u64() > first["duration_ns_total"].as_u64());
    let text = fixture.text("/metrics");
    let line = format!("busyhour_graphite_digest_metrics_total {}.0", metrics + 1);
    assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    assert!(text.contains("\nbusyhour_graphite_digest_duration_seconds_total "));
    assert!(text.contains("\n# TYPE busyhour_graphite_digest_last_metrics gauge"));
}

#[test]
fn grafana_finds_the_servers_series() {
    let fixture = fixture();
    let roots = fixture.posted("/metrics/find?from=1289662349&until=1289665949", "query=*");
    let expected = serde_json::json!([{
        "text": "busyhour", "id": "busyhour", "allowChildren": 1, "expandable": 1, "leaf": 0, "context": {},
    }]);
    assert_eq!(roots, expected);
    let text = fixture.text("/metrics/find?query=busyhour.registrar.bind*&format=treejson");
    let leaves: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(leaves[0]["id"], "busyhour.registrar.binding_count");
    assert_eq!(
        (&leaves[0]["leaf"], &leaves[0]["expandable"]),
        (&1.into(), &0.into())
    );
    let text =
        fixture.text("/metrics/expand?query=busyhour.registrar.{accepted,added}&leavesOnly=1");
    assert_eq!(
        text,
        r#"{"results":["busyhour.registrar.accepted","busyhour.registrar.added"]}"#
    );
    let text = fixture.text("/metrics/find/?query=busyhour.reg&format=completer");
    assert_eq!(
        text,
        r#"{"metrics":[{"is_leaf":"0","name":"registrar","path":"busyhour.registrar."}]}"#
    );
    assert!(
        fixture
            .text("/metrics/index.json")
            .contains("\"busyhour.runtime.pool.pushed\"")
    );
}

#[test]
fn grafana_learns_the_version_and_the_functions() {
    let fixture = fixture();
    assert_eq!(fixture.text("/version"), "1.1.10");
    let functions: serde_json::Value = serde_json::from_str(&fixture.text("/functions")).unwrap();
    let scale = &functions["scale"];
    assert_eq!(
        (&scale["group"], &scale["function"]),
        (&"Transform".into(), &"scale(seriesList, factor)".into())
    );
    assert_eq!(scale["params"][1]["type"], "float");
    for name in [
        "sum",
        "sumSeries",
        "avg",
        "min",
        "max",
        "alias",
        "aliasByNode",
        "derivative",
        "perSecond",
        "nonNegativeDerivative",
        "movingAverage",
        "summarize",
        "timeShift",
        "asPercent",
        "sortBy",
        "limit",
        "keepLastValue",
    ] {
        assert_eq!(functions[name]["name"], name);
    }
}

#[test]
fn grafana_is_told_that_there_are_no_tags_and_no_events() {
    let fixture = fixture();
    for path in [
        "/tags",
        "/tags/autoComplete/tags?expr=name&limit=10000",
        "/tags/autoComplete/values?expr=name&tag=host&limit=10000",
        "/events/get_data?from=-6h&until=now&tags=deploy",
    ] {
        assert_eq!(fixture.text(path), "[]", "{path}");
    }
    let values: serde_json::Value = serde_json::from_str(&fixture.text("/tags/host")).unwrap();
    assert_eq!(values, serde_json::json!({ "tag": "host", "values": [] }));
}

#[test]
fn a_request_that_graphite_refuses_has_a_status_a_reason_and_a_counter() {
    let fixture = fixture();
    let mistake = fixture.post("/render", "target=scale(busyhour.uptime_ns&format=json");
    assert_eq!(mistake.status(), 400);
    let told = mistake.into_body().read_to_string().unwrap();
    assert_eq!(
        told,
        "target `scale(busyhour.uptime_ns`, character 25: expected , or )\n"
    );
    let long = fixture.get("/render?target=busyhour.uptime_ns&from=-9y&format=json");
    assert_eq!(long.status(), 413);
    let told = long.into_body().read_to_string().unwrap();
    assert!(
        told.contains("seconds lie between from and until; ask for less (at most 31622400)"),
        "{told}"
    );
    assert_eq!(fixture.get("/metrics/find").status(), 400);
    let stats: serde_json::Value = serde_json::from_str(&fixture.text("/api/stats")).unwrap();
    let graphite = &stats["graphite"];
    assert_eq!(
        (&graphite["bad_requests"], &graphite["refused_range"]),
        (&2.into(), &1.into())
    );
    assert_eq!(graphite["telemetry"]["sample_count"], 1);
    assert!(
        fixture
            .text("/metrics")
            .contains("busyhour_graphite_refused_range_total 1.0")
    );
}

#[test]
fn a_request_for_another_host_is_refused_and_counted() {
    let fixture = fixture();
    let url = format!("http://{}/api/stats", fixture.web.address().unwrap());
    let request = fixture.agent.get(&url).header("host", "evil.example");
    assert_eq!(request.call().unwrap().status(), 421);
    let stats: serde_json::Value = serde_json::from_str(&fixture.text("/api/stats")).unwrap();
    assert_eq!(stats["http"]["misdirected"], 1);
}

#[test]
fn changing_something_needs_a_token_and_says_so() {
    let fixture = fixture();
    let url = format!(
        "http://{}/api/accounts/alice",
        fixture.web.address().unwrap()
    );
    let refused = fixture.agent.put(&url).send("{}").unwrap();
    assert_eq!(refused.status(), 401);
    assert!(header(&refused, "www-authenticate").starts_with("Bearer "));
    let words = refused.into_body().read_to_string().unwrap();
    assert!(words.contains("busyhour token"), "{words}");
    // The stub has no accounts, but the token is accepted.
    let request = fixture
        .agent
        .put(&url)
        .header("authorization", "Bearer secret");
    assert_eq!(request.send("{}").unwrap().status(), 404);
}

#[test]
fn an_endless_head_and_a_body_too_long_are_refused() {
    let fixture = fixture();
    let url = format!("http://{}/api/stats", fixture.web.address().unwrap());
    let long = "x".repeat(150 << 10);
    // The server may close the connection of a client that has not sent
    // everything before that client reads the answer.
    let refused_or_cut = |outcome: Result<Response<Body>, ureq::Error>, status: u16| {
        assert!(outcome.map_or(true, |answer| answer.status() == status));
    };
    refused_or_cut(fixture.agent.get(&url).header("x-long", &long).call(), 431);
    let url = format!(
        "http://{}/api/accounts/alice",
        fixture.web.address().unwrap()
    );
    let request = fixture
        .agent
        .put(&url)
        .header("authorization", "Bearer secret");
    refused_or_cut(request.send(&long), 413);
    assert_eq!(fixture.get("/api/stats").status(), 200, "others are served");
}
