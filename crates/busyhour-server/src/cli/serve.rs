use super::{
    Failure,
    reload::ConfigSource,
    service::Service,
    signals::{Signal, Signals},
};
use crate::{
    config::{Config, LogFormat, LogLevel, Overrides},
    console,
    logs::{self, RunningLog},
};
use clap::Args;
use sd_notify::NotifyState;
use std::path::PathBuf;
use tracing_subscriber::filter::LevelFilter;

/// Run the server: register devices, notify watchers, show the dashboard
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Serve {
    /// The configuration file; without it, the server uses the defaults
    #[arg(long, short, value_name = "FILE", env = "BUSYHOUR_CONFIG")]
    config: Option<PathBuf>,

    /// Print the configuration in effect, each setting with its origin, and exit
    #[arg(long)]
    print_config: bool,

    #[command(flatten)]
    overrides: Overrides,
}

impl Serve {
    /// Serves until SIGTERM or SIGINT, or until the store ends; then drains.
    ///
    /// # Errors
    ///
    /// Why the configuration is invalid, what could not be started, why the store
    /// ended, or what could not be finished in time.
    pub fn run(self) -> Result<(), Failure> {
        let config = self.config.as_deref();
        if self.print_config {
            let text = Config::load(config, &self.overrides)?.print();
            return console::print(text.trim_end()).map_err(Failure::running);
        }
        let loaded = Config::load_to_serve(config, &self.overrides)?;
        let log = start_logs(&loaded.config);
        for warning in &loaded.warnings {
            tracing::warn!(event = "configuration_warning", "{warning}");
        }
        let mut signals = Signals::listen().map_err(Failure::running)?;
        let ending = signals.ending();
        let source = ConfigSource {
            file: self.config,
            overrides: self.overrides,
        };
        let service = Service::start(loaded, source, log, &ending)?;
        tell_service_manager(NotifyState::Ready);
        wait(&mut signals, &service);
        tell_service_manager(NotifyState::Stopping);
        let stopped = service.stop();
        match ending.reason() {
            Some(reason) => Err(Failure::running(reason)),
            None => stopped,
        }
    }
}

/// Waits for a signal that ends the server; a signal that requests a reload is handled here.
fn wait(signals: &mut Signals, service: &Service) {
    while signals.wait() == Signal::Reload {
        // What is wrong is logged.
        let _ = service.reloader.reload();
    }
}

fn start_logs(config: &Config) -> RunningLog {
    let format = match config.log.format {
        LogFormat::Text => logs::LineFormat::Text {
            is_coloured: console::is_coloured(&std::io::stderr()),
        },
        LogFormat::Json => logs::LineFormat::Json,
    };
    logs::start(level_of(config), format)
}

/// The least severe lines that a configuration wants.
pub(super) fn level_of(config: &Config) -> LevelFilter {
    match config.log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Does nothing unless systemd started the program and expects notifications.
fn tell_service_manager(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager cannot be notified");
    }
}

const AFTER_HELP: &str = "\
You can give every setting in the file, in the environment and as a flag; a flag
overrides the environment, and the environment overrides the file. `busyhour serve
--help` lists all settings by section, with their defaults; -h leaves them out.

Examples:
  busyhour serve
      SIP on 127.0.0.1:5060 (UDP and TCP), IAX2 on 127.0.0.1:4569, the dashboard on
      http://127.0.0.1:8080/
  busyhour serve --config /etc/busyhour/busyhour.toml
  busyhour serve --sip-listen 0.0.0.0:5060 --http-listen off
  BUSYHOUR_SIP_AUTH=open busyhour serve --store-durability memory
      a server for load tests: no passwords, nothing on disk
  busyhour serve --print-config > busyhour.toml
      writes a configuration file to start from

Signals:
  SIGTERM, SIGINT  finish what is queued (at most runtime.drain_seconds), exit with 0;
                   a second signal exits at once with 1
  SIGHUP           read the file and the TLS certificates again; the log names the
                   settings that have changed and need a restart

When the server is ready, it prints a line to standard output that begins with
`ready ` and names the addresses in use, with the port that the system chose for port 0.";
