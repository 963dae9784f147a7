//! A real Chromium, driven by Debian's chromedriver (WebDriver), with the page of the telephone.

use crate::{
    support::{Place, ports::free_port, wait_until},
    tone,
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// A browser that shows one page, until it is dropped.
pub struct Browser {
    driver: Child,
    session: String,
    _place: Place,
}

impl Browser {
    /// Opens the page in a browser whose microphone plays a tone.
    pub fn open(page: &str, hertz: u32) -> Self {
        let place = Place::new();
        let sound = place.path("tone.wav");
        tone::write(&sound, hertz);
        // With port 0 it takes one that is free by IPv4, and ends if another program has that by IPv6.
        let port = free_port();
        let mut driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver, which scripts/install-deps.sh test installs");
        let output = BufReader::new(driver.stdout.take().expect("piped"));
        let mut lines = output.lines().map_while(Result::ok);
        let has_begun = lines.any(|line| line.contains("started successfully"));
        assert!(has_begun, "chromedriver has ended");
        // Nobody may block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let arguments = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--ignore-certificate-errors",
            "--autoplay-policy=no-user-gesture-required",
            "--allow-loopback-in-peer-connection",
            "--disable-features=WebRtcHideLocalIpsWithMdns",
            "--use-fake-device-for-media-stream",
            "--use-fake-ui-for-media-stream",
            format!("--use-file-for-fake-audio-capture={}", sound.display()),
            format!("--user-data-dir={}", place.path("profile").display()),
        ]);
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let root = format!("http://127.0.0.1:{port}/session");
        let begun = post(&root, &capabilities);
        let id = begun["sessionId"].as_str().expect("a session").to_owned();
        let browser = Self {
            driver,
            session: format!("{root}/{id}"),
            _place: place,
        };
        post(&format!("{}/url", browser.session), &json!({"url": page}));
        browser
    }

    /// Runs a function of the page and returns its value.
    pub fn run(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        post(&format!("{}/execute/sync", self.session), &body)
    }

    /// Fills in the account and registers.
    pub fn register(&self, server: &str, user: &str, password: &str) {
        for (field, text) in [
            ("server", server),
            ("user", user),
            ("domain", "example.com"),
            ("password", password),
        ] {
            if !text.is_empty() {
                self.fill(field, text);
            }
        }
        self.press("register");
        self.wait_for("registration", "registered");
    }

    /// Writes into a field of the page.
    pub fn fill(&self, field: &str, text: &str) {
        self.run(&format!(
            "document.getElementById('{field}').value = '{text}'"
        ));
    }

    /// Waits until the lamp of a user has this state.
    pub fn wait_for_lamp(&self, user: &str, state: &str) {
        let script = format!(
            "return [...document.querySelectorAll('#lamps li')]\
             .find((lamp) => lamp.textContent.startsWith('{user}:'))?.dataset.state"
        );
        wait_until(
            || self.run(&script) == state,
            || {
                format!(
                    "the lamp of {user} is {}: {}",
                    self.run(&script),
                    self.complaints()
                )
            },
        );
    }

    /// Presses a button by the keyboard.
    pub fn press(&self, button: &str) {
        self.run(&format!("document.getElementById('{button}').focus()"));
        let key = json!({"actions": [{"type": "key", "id": "keyboard", "actions": [
            {"type": "keyDown", "value": "\u{e007}"}, {"type": "keyUp", "value": "\u{e007}"}]}]});
        post(&format!("{}/actions", self.session), &key);
    }

    /// Waits until the page says so of its registration or call.
    pub fn wait_for(&self, name: &str, value: &str) {
        let script = format!("return document.body.dataset.{name}");
        wait_until(
            || self.run(&script) == value,
            || format!("{name} is not {value}: {}", self.complaints()),
        );
    }

    /// What a user reads, and what the browser has logged.
    pub fn complaints(&self) -> String {
        let status = self.run("return document.getElementById('status').textContent");
        let log = post(
            &format!("{}/se/log", self.session),
            &json!({"type": "browser"}),
        );
        format!("{status}\n{log:#}")
    }

    /// Waits until the loudest that comes from the other side is a tone of this height.
    pub fn wait_for_tone(&self, hertz: u32) {
        self.run(LISTEN);
        wait_until(
            || {
                let heard = self.run("return window.loudest ? window.loudest() : 0");
                let heard = heard.as_f64().unwrap_or(0.0);
                (heard - f64::from(hertz)).abs() < 40.0
            },
            || {
                let heard = self.run("return window.loudest ? window.loudest() : 0");
                format!(
                    "it hears {heard} instead of {hertz} Hz: {}",
                    self.complaints()
                )
            },
        );
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session.
        let _ = ureq::delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn post(url: &str, body: &Value) -> Value {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build();
    let agent = ureq::Agent::new_with_config(config);
    let request = agent.post(url).header("content-type", "application/json");
    let response = request
        .send(body.to_string())
        .expect("an answer of chromedriver");
    let text = response.into_body().read_to_string().expect("text");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    assert!(
        answer["value"]["error"].is_null(),
        "{url}: {}",
        answer["value"]
    );
    answer["value"].clone()
}

/// Makes `loudest`, the frequency in Hz that is loudest in what the page plays.
const LISTEN: &str = "
const context = new AudioContext();
const analyser = context.createAnalyser();
analyser.fftSize = 4096;
context.createMediaStreamSource(document.getElementById('remote').srcObject).connect(analyser);
window.loudest = () => {
  const bins = new Float32Array(analyser.frequencyBinCount);
  analyser.getFloatFrequencyData(bins);
  let best = 1;
  for (let bin = 2; bin < bins.length; bin++) if (bins[bin] > bins[best]) best = bin;
  return bins[best] < -90 ? 0 : best * context.sampleRate / analyser.fftSize;
};
";
