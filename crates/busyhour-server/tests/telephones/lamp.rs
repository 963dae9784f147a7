//! The lamp of a device: a watcher of its dialogs (RFC 4235), which answers each NOTIFY.

use crate::support::{
    ServerProcess,
    phone::{Phone, header, ok},
    wait_until,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

pub struct Lamp {
    watched: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// What each NOTIFY has told.
    told: Mutex<Vec<String>>,
}

impl Lamp {
    /// Subscribes with the account `lamp`, and waits until it knows the device as idle.
    pub fn watch(server: &ServerProcess, watched: &str) -> Self {
        let mut phone = Phone::new(server, 1, "lamp");
        let contact = format!("Contact: <sip:lamp@{}>\r\n", phone.address());
        let headers = format!("{contact}Event: dialog\r\nExpires: 3600\r\n");
        let request = phone.request("SUBSCRIBE", watched, watched, &headers);
        let answer = phone.ask(&request);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        let shared = Arc::new(Shared::default());
        let working = shared.clone();
        let lamp = Self {
            watched: watched.to_owned(),
            shared,
            thread: Some(thread::spawn(move || working.run(&phone))),
        };
        lamp.wait_for("");
        lamp
    }

    /// Waits until it shows dialogs in these states: `early`, `confirmed confirmed`, or
    /// nothing. The word `held` follows a state in which somebody does not listen.
    pub fn wait_for(&self, states: &str) {
        let is_shown = || self.told().last().is_some_and(|last| last == states);
        wait_until(is_shown, || {
            let told = self.told();
            format!("{} does not become {states:?}: {told:?}", self.watched)
        });
    }

    /// Waits until the device is idle; fails unless the lamp has shown all of these states
    /// before, in this order.
    pub fn ends_dark_after(&self, states: &[&str]) {
        self.wait_for("");
        let told = self.told();
        let mut rest = told.iter();
        for state in states {
            let is_told = rest.any(|told| told == state);
            assert!(is_told, "{} was not {state:?}: {told:?}", self.watched);
        }
    }

    /// All that it was told, in order.
    pub fn told(&self) -> Vec<String> {
        self.shared.told.lock().expect("no thread panicked").clone()
    }
}

impl Drop for Lamp {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.expect("it runs").expect("what it was told is right");
        }
    }
}

impl Shared {
    fn run(&self, phone: &Phone) {
        let mut last = (0, 0);
        while !self.is_over.load(Ordering::Relaxed) {
            let Some(notify) = phone.hear(PACE) else {
                continue;
            };
            if !notify.starts_with("NOTIFY ") {
                continue;
            }
            phone.send(&ok(&notify));
            let (cseq, version, states) = read(&notify);
            // A retransmission has the same CSeq.
            if cseq > last.0 {
                assert!(version >= last.1, "an older version: {notify}");
                last = (cseq, version);
                self.told.lock().expect("no thread panicked").push(states);
            }
        }
    }
}

/// The CSeq of a NOTIFY, the version of its document, and the states of the dialogs.
fn read(notify: &str) -> (u32, u32, String) {
    let cseq = header(notify, "CSeq").and_then(|cseq| cseq.split(' ').next()?.parse().ok());
    let (_, body) = notify.split_once("\r\n\r\n").expect("a body");
    let document = roxmltree::Document::parse(body).expect("XML");
    let root = document.root_element();
    assert_eq!(root.attribute("state"), Some("full"), "{notify}");
    let version = root.attribute("version").and_then(|text| text.parse().ok());
    let dialogs = root.children().filter(|node| node.has_tag_name("dialog"));
    let mut states: Vec<String> = dialogs.map(state_of).collect();
    states.sort();
    (
        cseq.expect("a CSeq"),
        version.expect("a version"),
        states.join(" "),
    )
}

fn state_of(dialog: roxmltree::Node<'_, '_>) -> String {
    let mut nodes = dialog.descendants();
    let state = nodes.find(|node| node.has_tag_name("state"));
    let state = state.and_then(|state| state.text()).unwrap_or("no state");
    let is_held = dialog.descendants().any(|node| {
        let param = ("+sip.rendering", "no");
        (node.attribute("pname"), node.attribute("pval")) == (Some(param.0), Some(param.1))
    });
    match is_held {
        true => format!("{state} held"),
        false => state.to_owned(),
    }
}

/// The time between two looks at whether it is over.
const PACE: Duration = Duration::from_millis(50);
