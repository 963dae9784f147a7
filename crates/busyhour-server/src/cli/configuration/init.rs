use crate::cli::Failure;
use crate::{
    config::{Config, KEYS, Overrides, SettingKey, default_database},
    console,
};
use clap::Args;
use std::{
    fmt::Write as _,
    fs::OpenOptions,
    io::{self, BufRead, IsTerminal, Write as _},
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

/// Ask five questions and write a configuration with comments
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Init {
    /// The file to write, which must not exist
    #[arg(value_name = "FILE", default_value = "busyhour.toml")]
    file: PathBuf,

    /// Ask nothing: the answer to every question is its default
    #[arg(long, short)]
    yes: bool,

    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

/// A question, and the settings that its answer gives.
struct Question {
    text: &'static str,
    default: String,
    settings: fn(&str) -> Vec<(&'static str, String)>,
}

impl Init {
    /// Asks, checks the answers, and writes the file.
    ///
    /// # Errors
    ///
    /// If the file exists or cannot be written, or if an answer is not allowed and nobody
    /// can be asked again.
    pub fn run(self) -> Result<(), Failure> {
        let file = self.file.display();
        // Before somebody answers in vain.
        if self.file.symlink_metadata().is_ok() {
            return Err(Failure::running(format!(
                "{file} is there already, and is not overwritten"
            )));
        }
        let mut settings = Vec::new();
        for (number, question) in (1..).zip(questions()) {
            settings.extend(self.ask(number, &question)?);
        }
        let text = document(&settings);
        self.write(&text)
            .map_err(|error| Failure::running(format!("{file}: {error}")))?;
        if self.json {
            let given: serde_json::Map<_, _> = settings
                .into_iter()
                .map(|(path, value)| (path.to_owned(), value.into()))
                .collect();
            let object = serde_json::json!({"file": self.file, "settings": given});
            return console::print(object).map_err(Failure::running);
        }
        console::confirm(format_args!(
            "{file} is written. Next:\n  busyhour serve --config {file}\n  \
             busyhour device add alice --config {file}      in another terminal"
        ))
        .map_err(Failure::running)
    }

    /// Asks until the answer is allowed.
    fn ask(
        &self,
        number: u32,
        question: &Question,
    ) -> Result<Vec<(&'static str, String)>, Failure> {
        loop {
            let answer = match self.yes {
                true => String::new(),
                false => self.answer(number, question)?,
            };
            let answer = match answer.trim() {
                "" => question.default.as_str(),
                given => given,
            };
            let settings = (question.settings)(answer);
            match check(&settings) {
                Ok(()) => return Ok(settings),
                Err(mistake) if !io::stdin().is_terminal() => return Err(Failure::usage(mistake)),
                Err(mistake) => console::print_error(format_args!("busyhour: {mistake}")),
            }
        }
    }

    /// One line of standard input; at its end, as if nothing had been answered.
    fn answer(&self, number: u32, question: &Question) -> Result<String, Failure> {
        // The questions are for a person, and JSON is for a program.
        let mut out = io::stderr().lock();
        let _ = write!(out, "{number}/5 {} [{}] ", question.text, question.default);
        let _ = out.flush();
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        read.map_err(|error| Failure::running(format!("standard input: {error}")))?;
        if !io::stdin().is_terminal() {
            let _ = writeln!(out);
        }
        Ok(line)
    }

    /// It may get passwords later, so not everybody may read it.
    fn write(&self, text: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o640);
        let mut file = options.open(&self.file)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}

fn questions() -> [Question; 5] {
    let here = own_address();
    [
        Question {
            text: "At which address do telephones reach this machine? (127.0.0.1: only programs on it)",
            default: here.to_string(),
            settings: |answer| {
                let address = |port: u16| with_port(answer, port);
                vec![
                    ("sip.listen", address(5060)),
                    ("iax2.listen", address(4569)),
                ]
            },
        },
        Question {
            text: "Which domain stands in the addresses of devices, as in alice@example.com? (none: any)",
            default: "none".into(),
            settings: |answer| match answer {
                "none" => Vec::new(),
                domain => vec![("sip.domains", domain.to_owned())],
            },
        },
        Question {
            text: "Where is the database?",
            default: default_database().display().to_string(),
            settings: |answer| vec![("store.path", answer.to_owned())],
        },
        Question {
            text: "At which address is the dashboard? (off: nowhere; other machines need a token)",
            default: "127.0.0.1:8080".into(),
            settings: |answer| vec![("http.listen", answer.to_owned())],
        },
        Question {
            text: "Which digest algorithms do your telephones know? (MD5: also old ones)",
            default: "SHA-256,MD5".into(),
            settings: |answer| vec![("sip.algorithms", answer.to_owned())],
        },
    ]
}

/// The address by which this machine reaches others. Nothing is sent.
fn own_address() -> std::net::IpAddr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let address = socket.and_then(|socket| {
        // TEST-NET-1 (RFC 5737), which no route but the default one leads to.
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    address.map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
}

/// An answer with a port is for SIP as it is; IAX2 keeps its own port.
fn with_port(answer: &str, port: u16) -> String {
    let bare = answer.parse().map(|ip| SocketAddr::new(ip, port));
    let given = answer.parse::<SocketAddr>().map(|given| match port {
        5060 => given,
        _ => SocketAddr::new(given.ip(), port),
    });
    bare.or(given)
        .map_or(answer.to_owned(), |address| address.to_string())
}

fn check(settings: &[(&'static str, String)]) -> Result<(), String> {
    let mut config = Config::default();
    for (path, value) in settings {
        let key = SettingKey::find(path).ok_or_else(|| format!("{path} is no setting"))?;
        key.set(&mut config, value)?;
    }
    Ok(())
}

/// The file: what was answered, each with what it does and what else is allowed.
fn document(settings: &[(&'static str, String)]) -> String {
    let mut config = Config::default();
    let mut text = String::from(HEAD);
    let mut section = "";
    // In the order of the reference, so that each section comes once.
    for key in KEYS {
        let Some((_, value)) = settings.iter().find(|(path, _)| *path == key.path) else {
            continue;
        };
        // Checked when it was answered.
        let _ = key.set(&mut config, value);
        if key.section() != section {
            section = key.section();
            let _ = write!(text, "\n[{section}]\n");
        }
        let (help, allowed) = (key.help, key.allowed);
        let line = key.toml(&config);
        let _ = write!(text, "\n# {help}.\n# Allowed: {allowed}.\n{line}\n");
    }
    debug_assert!(
        Config::parse("new", &text, &Overrides::default()).is_ok(),
        "{text}"
    );
    text
}

const HEAD: &str = "\
# The configuration of `busyhour serve`, made by `busyhour init`.
# `busyhour check-config FILE` reports mistakes. All other settings have their defaults:
# `busyhour serve --config FILE --print-config` lists them all.
";

const AFTER_HELP: &str = "\
Examples:
  busyhour init                      asks, and writes busyhour.toml
  busyhour init --yes my.toml        writes the defaults for this machine
  printf '192.0.2.1\\nexample.com\\n' | busyhour init     the answers, one a line

Exit codes: 0 written, 1 the file exists or cannot be written, 2 an answer is not allowed.";
