//! The certificates of a running server: read at the start, on SIGHUP, over HTTP, and when a
//! file has changed. What cannot be used replaces nothing.

use crate::{
    config::Config,
    net::{
        AcmeChallenge, AcmeClient, AcmeOptions, Authorities, Certificate, CertificateError,
        CertificateFiles, ChallengeAnswers, Sockets, acme_files, answers_only,
    },
    server::PeerConfig,
    web::{CertificatesApi, RenewError, WebTls},
};
use busyhour::{runtime::Runtime, timer::AddError};
use rustls::ServerConfig;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

/// Which files there are.
pub(super) struct CertificatePlan {
    files: Vec<CertificateFiles>,
    authorities: Option<PathBuf>,
    asks_clients: bool,
    acme: Option<AcmeOptions>,
    answers: ChallengeAnswers,
}

/// What was read.
pub(super) type ReadCertificates = (Option<Certificate>, Option<Authorities>);

/// The certificates, and who shows them.
pub(super) struct Certificates {
    plan: CertificatePlan,
    network: Arc<Sockets>,
    web: WebTls,
    state: Mutex<LookState>,
    acme: OnceLock<AcmeClient>,
}

#[derive(Default)]
struct LookState {
    /// As they were when they were read.
    read: Vec<FileMark>,
    /// As they were at the last look.
    seen: Vec<FileMark>,
    problem: Option<String>,
    /// Looks until the next warning of certificates that expire.
    looks_left: u32,
}

/// By what a changed file is known; `None` if it is not there.
type FileMark = Option<(SystemTime, u64)>;

impl CertificatePlan {
    pub(super) fn of(config: &Config) -> Self {
        let files = match config.serves_tls() {
            true => config.certificate_files(),
            false => Vec::new(),
        };
        Self {
            files,
            authorities: config.sip.tls_authorities.clone(),
            // Some telephones do not like to be asked.
            asks_clients: config.peers.iter().any(PeerConfig::shows_certificate),
            acme: config.acme.options(),
            answers: ChallengeAnswers::default(),
        }
    }

    pub(super) fn read(&self) -> Result<ReadCertificates, CertificateError> {
        let files = self.files();
        let answers = self.shown_answers();
        let certificate = match files.is_empty() {
            true => None,
            false => Some(Certificate::read_with(&files, self.asks_clients, answers)?),
        };
        let authorities = self.authorities.as_deref().map(Authorities::read);
        Ok((certificate, authorities.transpose()?))
    }

    /// What an authority by ACME is answered over HTTP.
    fn answers(&self) -> Option<ChallengeAnswers> {
        self.acme.as_ref().map(|_| self.answers.clone())
    }

    /// What it is shown over TLS.
    fn shown_answers(&self) -> Option<&ChallengeAnswers> {
        let acme = self.acme.as_ref()?;
        (acme.challenge == AcmeChallenge::TlsAlpn01).then_some(&self.answers)
    }

    /// Those of the configuration, and that of ACME once there is one.
    fn files(&self) -> Vec<CertificateFiles> {
        let by_acme = self.acme.as_ref().and_then(acme_files);
        self.files.iter().cloned().chain(by_acme).collect()
    }

    /// How HTTPS is encrypted.
    fn https(&self, certificate: Option<&Certificate>) -> Option<Arc<ServerConfig>> {
        let without = || self.shown_answers().map(answers_only);
        certificate.map(Certificate::https).or_else(without)
    }

    fn marks(&self) -> Vec<FileMark> {
        let files = self.files();
        let files = files.iter();
        let paths = files.flat_map(|files| [&files.certificate, &files.key]);
        paths
            .chain(&self.authorities)
            .map(|path| mark(path))
            .collect()
    }
}

fn mark(path: &Path) -> FileMark {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

impl Certificates {
    /// What `read` has read is shown by HTTPS, too.
    pub(super) fn new(
        plan: CertificatePlan,
        network: Arc<Sockets>,
        web: WebTls,
        read: &ReadCertificates,
    ) -> Self {
        web.replace(plan.https(read.0.as_ref()));
        let marks = plan.marks();
        let state = LookState {
            seen: marks.clone(),
            read: marks,
            ..LookState::default()
        };
        Self {
            plan,
            network,
            web,
            state: Mutex::new(state),
            acme: OnceLock::new(),
        }
    }

    /// What an authority by ACME is answered over HTTP.
    pub(super) fn answers(&self) -> Option<ChallengeAnswers> {
        self.plan.answers()
    }

    /// Orders certificates by ACME from now on.
    pub(super) fn order(self: &Arc<Self>) -> io::Result<()> {
        let Some(options) = self.plan.acme.clone() else {
            return Ok(());
        };
        let certificates = Arc::downgrade(self);
        let renewed = move || {
            if let Some(certificates) = certificates.upgrade() {
                // It is logged.
                let _ = certificates.reload();
            }
        };
        let client = AcmeClient::start(options, self.plan.answers.clone(), renewed)?;
        // It is set once.
        let _ = self.acme.set(client);
        Ok(())
    }

    /// Looks after the files from now on; those of ACME may come later.
    pub(super) fn watch(self: &Arc<Self>, runtime: &Runtime) -> Result<(), AddError> {
        if self.plan.marks().is_empty() && self.plan.acme.is_none() {
            return Ok(());
        }
        let certificates = Arc::downgrade(self);
        let look = move || match certificates.upgrade() {
            Some(certificates) => {
                certificates.look();
                LOOK
            }
            None => Duration::ZERO,
        };
        let timer = runtime.timers().timer().label("certificates");
        let timer = timer.after(LOOK).on(runtime.pool());
        timer.run_with_next_delay(look).map(drop)
    }

    /// Reads files that have changed, and are as they were at the last look: not while somebody
    /// writes them.
    fn look(&self) {
        let marks = self.plan.marks();
        let mut state = self.lock();
        let is_settled = state.seen == marks;
        let is_new = state.read != marks;
        state.seen = marks;
        let warns = state.looks_left == 0;
        state.looks_left = state.looks_left.checked_sub(1).unwrap_or(LOOKS_A_DAY);
        drop(state);
        if is_new && is_settled {
            // It is logged.
            let _ = self.reload();
        }
        if warns {
            self.warn();
        }
    }

    fn warn(&self) {
        for shown in self.network.streams.certificates() {
            if shown.expires_soon() {
                let (name, file, ends) = (&shown.name, &shown.file, &shown.not_after);
                tracing::warn!(name, file, ends, "a certificate ends soon: renew it");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LookState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CertificatesApi for Certificates {
    fn problem(&self) -> Option<String> {
        let of_acme = || self.acme.get().and_then(AcmeClient::problem);
        self.lock().problem.clone().or_else(of_acme)
    }

    fn renew(&self) -> Result<(), RenewError> {
        let client = self.acme.get().ok_or(RenewError::Off)?;
        client.renew().map_err(RenewError::TooOften)
    }

    fn reload(&self) -> Result<(), String> {
        // Before they are read: a change in between is found at the next look.
        let marks = self.plan.marks();
        let read = self.plan.read().map_err(|problem| problem.to_string());
        let problem = read.as_ref().err().cloned();
        let mut state = self.lock();
        (state.read, state.problem) = (marks, problem);
        match read {
            Ok((certificate, authorities)) => {
                self.web.replace(self.plan.https(certificate.as_ref()));
                let streams = &self.network.streams;
                streams.replace_certificate(certificate, authorities);
                drop(state);
                tracing::info!("certificate read again");
                self.warn();
                Ok(())
            }
            Err(problem) => {
                drop(state);
                tracing::error!(%problem, "the certificate was not reloaded; the old one stays");
                Err(problem)
            }
        }
    }
}

/// What renews certificates does so days before they end.
const LOOK: Duration = Duration::from_secs(10);
const LOOKS_A_DAY: u32 = 24 * 60 * 6;
