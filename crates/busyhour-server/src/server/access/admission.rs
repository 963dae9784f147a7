//! Who may do what: digest authentication, and whose name an account may use.

mod notes;

use super::{
    account_policy::AccountPolicy,
    asking::{AS_PROXY, AS_SERVER, Asking},
    logins::Logins,
    nonces::{Nonces, Use},
};
use crate::server::{
    credentials::http_credentials::{
        CredentialOwner, Credentials as FoundCredentials, HttpCredentials,
    },
    load::shares::Holders,
    random::Secrets,
    server_clock::ServerClock,
    settings::mailboxes::Mailboxes,
    sip::{receive::Request, responder::Responder},
    stats::{
        counters::AdmissionCounters,
        registration_log::{RegistrationLog, WRONG_PASSWORD},
    },
    tenant::tenants::TenantState,
};
use busyhour::clock::UnixTime;
use busyhour_iax2::{Credentials, Login};
use busyhour_registrar::{Domains, Refusal, watch::Package};
use busyhour_sip::{
    DigestCredentials, Flow, Host, Message, Method, Uri,
    auth::{AuthOutcome, Authenticator, Secret},
    source_of,
};
use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// The user of a request, as far as it is known.
enum Proof<'a> {
    /// Everybody may do everything here.
    Open,
    /// The request proved nobody and was challenged, unless its source gets no answers
    /// now.
    Challenged {
        is_answered: bool,
        answered: Answered,
    },
    /// The service for credentials was asked for its user; the request is handled again.
    Awaited,
    /// This user's.
    Of(Prover<'a>),
}

/// Which challenge a challenged request has answered.
#[derive(Clone, Copy)]
enum Answered {
    /// None.
    Nothing,
    /// One of ours whose nonce is no longer valid. A device answers the new one next.
    OldNonce,
    /// Ours, but in a form that was not offered, or that of another realm; noted as a
    /// failure.
    Unfit,
}

/// Who sent a request, if that was asked.
pub(in crate::server) struct Sender<'a>(Option<Prover<'a>>);

/// A user who has proved to be one.
struct Prover<'a> {
    /// As the directory knows it.
    username: Cow<'a, str>,
    /// Its domain has accounts of its own, so that the domain is a part of the name.
    is_of_tenant: bool,
}

impl Sender<'_> {
    /// Its account: the user, with the domain if that has accounts of its own.
    pub(in crate::server) fn account(&self) -> Option<&str> {
        self.0.as_ref().map(Prover::account)
    }

    /// Its account, as the directory knows it.
    pub(in crate::server) fn username(&self) -> Option<&str> {
        self.0.as_ref().map(|prover| &*prover.username)
    }
}

impl Prover<'_> {
    fn account(&self) -> &str {
        match self.is_of_tenant {
            true => &self.username,
            false => own_user(&self.username),
        }
    }
}

/// What became of the credentials of a request.
enum CredentialOutcome<'a> {
    /// Right; this is who has them.
    Granted(Prover<'a>),
    /// There are no credentials for our realm.
    Absent,
    /// They are for another realm, or of a form that was not offered; noted as a failure.
    Unfit,
    /// They answer no valid nonce for their source. If it was an older nonce of ours,
    /// the client receives at that source.
    Stale { is_ours: bool },
    /// Wrong.
    Denied,
    /// They are not known yet; the request waits.
    Awaited,
}

/// Checks who sends a request, and what they may do.
pub(in crate::server) struct Admission {
    pub(in crate::server) counters: AdmissionCounters,
    pub(in crate::server) logins: Logins,
    pub(in crate::server) nonces: Nonces,
    /// `None` where everybody may do everything.
    authenticator: Option<Authenticator>,
    nonce_salt: AtomicU32,
    domains: Domains,
    secrets: Arc<Secrets>,
    holders: Holders,
    clock: Arc<ServerClock>,
    accounts: Arc<AccountPolicy>,
    /// Where users without an account here are asked for.
    elsewhere: Option<Arc<HttpCredentials>>,
    mailboxes: Arc<Mailboxes>,
    responder: Arc<Responder>,
    log: Arc<RegistrationLog>,
}

impl Admission {
    pub(in crate::server) fn new(
        (authenticator, elsewhere): (Option<Authenticator>, Option<Arc<HttpCredentials>>),
        domains: Domains,
        (logins, nonces): (Logins, Nonces),
        (secrets, holders): (Arc<Secrets>, Holders),
        clock: Arc<ServerClock>,
        (accounts, mailboxes): (Arc<AccountPolicy>, Arc<Mailboxes>),
        (responder, log): (Arc<Responder>, Arc<RegistrationLog>),
    ) -> Self {
        Self {
            counters: AdmissionCounters::default(),
            logins,
            nonces,
            authenticator,
            nonce_salt: AtomicU32::new(0),
            domains,
            secrets,
            holders,
            clock,
            accounts,
            elsewhere,
            mailboxes,
            responder,
            log,
        }
    }

    /// Whether anybody has to prove who they are.
    pub(in crate::server) fn is_required(&self) -> bool {
        self.authenticator.is_some()
    }

    /// Whether a REGISTER may change `aor`; `false` when it was challenged, and
    /// so answered.
    pub(in crate::server) fn admit_registration(
        &self,
        request: &Request<'_>,
        aor: &str,
    ) -> Result<bool, Refusal> {
        let tenant = self.accounts.tenants.of_aor(aor);
        let proof = self.prove(request, AS_SERVER, tenant.as_deref());
        self.note_challenged(request, aor, &proof);
        self.note_credentials(request, &proof);
        match proof? {
            Proof::Open => {}
            Proof::Challenged { .. } | Proof::Awaited => return Ok(false),
            Proof::Of(prover) if self.is_owner(&prover, aor) => {}
            Proof::Of(_) => return Err(Refusal::Forbidden("Not Your Address")),
        }
        let is_registration = request.message.method() == Some(Method::Register);
        match tenant.filter(|_| is_registration) {
            Some(tenant) if !tenant.admits_registration(self.clock.now()) => {
                Err(self.responder.overloaded())
            }
            _ => Ok(true),
        }
    }

    /// Whether the sender may watch the account or extension `watched`: a user with an
    /// account may watch what its domain and the account allow, except mailboxes and
    /// registrations of others. `None` when it was challenged, and so answered.
    pub(in crate::server) fn admit_subscription<'a>(
        &self,
        request: &Request<'a>,
        watched: &str,
    ) -> Result<Option<Sender<'a>>, Refusal> {
        let tenant = self.tenant_of_sender(request, AS_SERVER);
        match self.prove(request, AS_SERVER, tenant.as_deref())? {
            Proof::Open => Ok(Some(Sender(None))),
            Proof::Challenged { .. } | Proof::Awaited => Ok(None),
            Proof::Of(prover) => {
                self.check_private(request.message, watched, prover.account())?;
                if !self.accounts.may_watch(prover.account(), watched) {
                    return Err(Refusal::Forbidden("Not A Watcher"));
                }
                Ok(Some(Sender(Some(prover))))
            }
        }
    }

    /// Whether the sender may subscribe to the list of this name, as to an account of that name, or
    /// to one that it brings, without a name: whoever shows who it is. What it may see of the
    /// resources is judged one by one. `None` when it was challenged, and so answered.
    pub(in crate::server) fn admit_list_subscription<'a>(
        &self,
        request: &Request<'a>,
        list: Option<&str>,
    ) -> Result<Option<Sender<'a>>, Refusal> {
        let tenant = self.tenant_of_sender(request, AS_SERVER);
        match self.prove(request, AS_SERVER, tenant.as_deref())? {
            Proof::Open => Ok(Some(Sender(None))),
            Proof::Challenged { .. } | Proof::Awaited => Ok(None),
            Proof::Of(prover) => {
                // Its entries, also those that the sender may not watch, are named to it.
                if list.is_some_and(|list| !self.accounts.may_watch(prover.account(), list)) {
                    return Err(Refusal::Forbidden("Not A Watcher"));
                }
                Ok(Some(Sender(Some(prover))))
            }
        }
    }

    /// Whether the sender may call in the name of `caller`, who is nobody if the sender
    /// does not show who it is. `None` when it was challenged, and so answered.
    pub(in crate::server) fn admit_call<'a>(
        &self,
        request: &Request<'a>,
        caller: Option<&str>,
    ) -> Result<Option<Sender<'a>>, Refusal> {
        let tenant = match caller {
            Some(aor) => self.accounts.tenants.of_aor(aor),
            None => self.tenant_of_sender(request, AS_PROXY),
        };
        match self.prove(request, AS_PROXY, tenant.as_deref())? {
            Proof::Open => Ok(Some(Sender(None))),
            Proof::Challenged { .. } | Proof::Awaited => Ok(None),
            Proof::Of(prover) => match caller.is_none_or(|aor| self.is_owner(&prover, aor)) {
                true => Ok(Some(Sender(Some(prover)))),
                false => Err(Refusal::Forbidden("Not Your Address")),
            },
        }
    }

    /// The domain whose realm a sender is challenged for: that of its From, or if that is not
    /// ours, the one whose credentials it shows, or the one that the request is for. `None` if
    /// it is the server's own realm.
    fn tenant_of_sender(&self, request: &Request<'_>, asking: Asking) -> Option<Arc<TenantState>> {
        if !self.domains.have_tenants() {
            return None;
        }
        let tenants = &self.accounts.tenants;
        let from = request.essentials.from.uri.as_sip();
        let from = from.filter(|uri| !matches!(uri.host, Host::Name("anonymous.invalid")));
        if let Some(from) = from.filter(|uri| self.domains.contain(&uri.host)) {
            return tenants.find(&self.domains.tenant_at(&from.host)?.name);
        }
        let shown = request.message.credentials(asking.credentials);
        let mut shown = shown.filter_map(|one| tenants.of_realm(one.ok()?.realm));
        shown.next().or_else(|| {
            let asked = request.essentials.request_uri.as_ref()?.as_sip()?;
            tenants.find(&self.domains.tenant_at(&asked.host)?.name)
        })
    }

    /// Whether an address of record is of the account that has proved itself.
    fn is_owner(&self, prover: &Prover<'_>, aor: &str) -> bool {
        let account = self.accounts.account_of(aor);
        let (_, address) = aor.split_once(':').unwrap_or(("", aor));
        let username = &*prover.username;
        username == account || !prover.is_of_tenant && account != address && username == address
    }

    /// `tenant` is the domain that the sender says it is of.
    fn prove<'a>(
        &self,
        request: &Request<'a>,
        asking: Asking,
        tenant: Option<&TenantState>,
    ) -> Result<Proof<'a>, Refusal> {
        let Some(own) = &self.authenticator else {
            return Ok(Proof::Open);
        };
        request.step("digest");
        let authenticator = tenant.and_then(TenantState::authenticator).unwrap_or(own);
        let outcome = self.credentials((authenticator, tenant), request, asking)?;
        let (is_stale, answered) = match outcome {
            CredentialOutcome::Granted(prover) => return Ok(Proof::Of(prover)),
            CredentialOutcome::Denied => return Err(WRONG_PASSWORD),
            CredentialOutcome::Awaited => {
                // It comes again.
                request.discard_span();
                return Ok(Proof::Awaited);
            }
            CredentialOutcome::Absent => (false, Answered::Nothing),
            CredentialOutcome::Unfit => (false, Answered::Unfit),
            CredentialOutcome::Stale { is_ours: true } => (true, Answered::OldNonce),
            CredentialOutcome::Stale { is_ours: false } => (true, Answered::Nothing),
        };
        let is_heard = matches!(answered, Answered::OldNonce);
        // Others may have used up all tokens of this source with forged addresses.
        let is_answered = is_heard || self.responder.may_answer(request.flow);
        if is_answered {
            request.answered(asking.status);
            self.challenge(authenticator, request, asking, is_stale);
        }
        Ok(Proof::Challenged {
            is_answered,
            answered,
        })
    }

    /// Notes which users were challenged, and which have answered. An Authorization
    /// header alone is no answer: some clients send an empty one first, and the nonce
    /// of others is never valid.
    fn note_challenged(
        &self,
        request: &Request<'_>,
        aor: &str,
        proof: &Result<Proof<'_>, Refusal>,
    ) {
        let Request { message, flow, .. } = *request;
        let is_registration = message.method().is_some_and(|it| it == Method::Register);
        match *proof {
            Ok(Proof::Open | Proof::Awaited) => {}
            Ok(Proof::Challenged {
                is_answered,
                answered: answered @ (Answered::Nothing | Answered::OldNonce),
            }) => {
                if is_answered && is_registration {
                    let has_old_nonce = matches!(answered, Answered::OldNonce);
                    let account = self.accounts.account_of(aor);
                    self.note_challenge(account, flow, "sip", has_old_nonce);
                }
            }
            // Only the refusal of a registration is noted as a failure.
            Err(_) if !is_registration => {}
            Ok(Proof::Of(_) | Proof::Challenged { .. }) | Err(_) => {
                self.log
                    .failures
                    .challenge_answered(self.accounts.account_of(aor), flow, "sip");
            }
        }
    }

    /// Only the owner may watch a mailbox (RFC 3842 §6), and only the account itself
    /// may watch its registrations (RFC 3680 §6) and its watchers (RFC 3857 §4.6).
    fn check_private(
        &self,
        message: &Message<'_>,
        watched: &str,
        own: &str,
    ) -> Result<(), Refusal> {
        let event = message.event()?;
        let package = event.and_then(|event| Package::from_name(event.package));
        match package {
            Some(Package::MessageSummary) => {}
            Some(Package::Registration) if watched != own => {
                return Err(Refusal::Forbidden("Not Your Registration"));
            }
            Some(package) if package.watched().is_some() && watched != own => {
                return Err(Refusal::Forbidden("Not Your Watchers"));
            }
            _ => return Ok(()),
        }
        match self.mailboxes.of(watched) == self.mailboxes.of(own) {
            true => Ok(()),
            false => Err(Refusal::Forbidden("Not Your Mailbox")),
        }
    }

    fn credentials<'a>(
        &self,
        (authenticator, tenant): (&Authenticator, Option<&TenantState>),
        request: &Request<'a>,
        asking: Asking,
    ) -> Result<CredentialOutcome<'a>, Refusal> {
        let Request { message, flow, .. } = *request;
        let method = message.method().map_or("", |method| method.as_str());
        let unix = self.clock.unix_time();
        let mut stranger = None;
        for credentials in message.credentials(asking.credentials) {
            let credentials = credentials?;
            if credentials.realm != authenticator.realm() {
                stranger = Some(credentials);
                continue;
            }
            if !is_for(credentials.uri, request, &self.domains) {
                return Err(Refusal::BadRequest(OTHER_URI.into()));
            }
            if credentials.nonce.is_empty() {
                // So a client of IMS names its user before it has a challenge.
                continue;
            }
            let prover = self.prover(credentials.username, tenant);
            let username = &*prover.username;
            if let Some(left) = self.login_pause(username, flow) {
                return Err(Refusal::LoginPaused(left));
            }
            let mut secret = self.secret(&prover);
            let source = source_of(flow.remote.ip());
            let verify = |secret: Option<&Secret>| {
                authenticator.verify(unix, source, method, &credentials, secret)
            };
            let mut verdict = verify(secret.as_deref());
            // Nobody is asked elsewhere for credentials that are stale or of another form.
            let is_fit = verdict == AuthOutcome::Refused(busyhour_sip::auth::Refusal::Secret);
            if secret.is_none() && is_fit {
                secret = match self.ask_elsewhere(&prover, tenant, authenticator, request) {
                    FoundCredentials::Found(found) => Some(Cow::Owned(found)),
                    FoundCredentials::Missing => None,
                    FoundCredentials::Awaited => return Ok(CredentialOutcome::Awaited),
                    FoundCredentials::Unavailable(left) => {
                        return Err(Refusal::Overloaded(left.max(RETRY_MIN)));
                    }
                };
                if secret.is_some() {
                    self.accounts.found_elsewhere(username);
                    verdict = verify(secret.as_deref());
                }
            }
            return Ok(match verdict {
                AuthOutcome::Accepted { nonce_count }
                    if self.is_replay(request, (&credentials, username), nonce_count, unix) =>
                {
                    CredentialOutcome::Stale { is_ours: true }
                }
                // Resets failures only after the replay check, so that nobody can reset
                // them with overheard credentials.
                AuthOutcome::Accepted { .. } => {
                    self.logins.succeeded(source, username);
                    self.responder.heard_at(flow);
                    // Only who knows the password learns it.
                    if self.accounts.directory.is_disabled(username) {
                        return Err(DISABLED);
                    }
                    CredentialOutcome::Granted(prover)
                }
                // The response is not checked: if only the right one got an answer, an
                // attacker could guess without being counted.
                AuthOutcome::Stale { is_ours } => CredentialOutcome::Stale { is_ours },
                AuthOutcome::Refused(busyhour_sip::auth::Refusal::Secret) => {
                    let reason = why_wrong(secret.is_some());
                    self.login_failed(flow, username, "sip", reason);
                    CredentialOutcome::Denied
                }
                AuthOutcome::Refused(_) => {
                    self.note_unfit(&credentials, (username, authenticator), flow, OTHER_FORM);
                    CredentialOutcome::Unfit
                }
            });
        }
        let Some(credentials) = stranger else {
            return Ok(CredentialOutcome::Absent);
        };
        let username = credentials.username;
        self.note_unfit(&credentials, (username, authenticator), flow, OTHER_REALM);
        Ok(CredentialOutcome::Unfit)
    }

    /// The user of credentials at a domain, or at the server itself.
    fn prover<'a>(&self, username: &'a str, tenant: Option<&TenantState>) -> Prover<'a> {
        let tenant = tenant.map(|state| &state.tenant);
        Prover {
            username: self.domains.account_named(username, tenant),
            is_of_tenant: tenant.is_some_and(|tenant| !tenant.has_server_accounts),
        }
    }

    /// The secret of a user; that of a domain with accounts of its own is good there alone.
    fn secret(&self, prover: &Prover<'_>) -> Option<Cow<'_, Secret>> {
        let is_elsewhere =
            !prover.is_of_tenant && self.domains.parts_of(&prover.username).0.is_some();
        match is_elsewhere {
            true => None,
            false => self.accounts.directory.secret(&prover.username),
        }
    }

    /// What the service for credentials says of a user who has no account here.
    fn ask_elsewhere(
        &self,
        prover: &Prover<'_>,
        tenant: Option<&TenantState>,
        authenticator: &Authenticator,
        request: &Request<'_>,
    ) -> FoundCredentials {
        let parts = self.domains.parts_of(&prover.username);
        let is_elsewhere = !prover.is_of_tenant && parts.0.is_some();
        let Some(service) = self.elsewhere.as_ref().filter(|_| !is_elsewhere) else {
            return FoundCredentials::Missing;
        };
        let domain = tenant.filter(|_| prover.is_of_tenant);
        let owner = CredentialOwner {
            account: &prover.username,
            user: parts.1,
            realm: authenticator.realm(),
            domain: domain.map(|state| state.tenant.name.as_str()),
        };
        let holder = self.holders.of(request.flow.remote.ip(), None);
        service.find(owner, (request.flow, request.datagram), holder)
    }

    /// Whether the credentials are a replay; counted if so. Without `qop` there is no
    /// count of the uses of a nonce, so it is valid once. `unix` is when the nonce was
    /// checked: at a later time its last use could already have been dropped.
    fn is_replay(
        &self,
        request: &Request<'_>,
        (credentials, username): (&DigestCredentials<'_>, &str),
        count: Option<u32>,
        unix: UnixTime,
    ) -> bool {
        let secrets = &self.secrets;
        let nonce = credentials.nonce;
        let used = Use {
            nonce,
            issued_s: Authenticator::issued_s(nonce).unwrap_or(0),
            holder: self.holders.of_account(username),
            count: count.unwrap_or(u32::MAX),
            request: secrets.name_of(request.flow.remote, request.datagram),
        };
        let is_replay = !self.nonces.admit(used, unix.as_secs());
        if is_replay {
            self.counters.replayed.increment();
        }
        is_replay
    }

    /// Whether a device of IAX2 knows its password. Without an account the check takes as long;
    /// the credentials of a client that failed too often are not checked.
    pub(in crate::server) fn login(&self, credentials: &Credentials<'_>, flow: Flow) -> Login {
        self.log
            .failures
            .challenge_answered(credentials.username, flow, "iax2");
        if self.login_pause(credentials.username, flow).is_some() {
            let reason = Refusal::LoginPaused(Duration::ZERO).reason().to_owned();
            self.log
                .failures
                .note(credentials.username, flow, "iax2", reason.into());
            return Login::Paused;
        }
        let secret = self.accounts.directory.secret(credentials.username);
        let expected = secret.and_then(|secret| secret.challenge_response(credentials.challenge));
        let decoy = || busyhour_sip::auth::challenge_response(credentials.challenge, "");
        let is_known = expected.is_some();
        let proves = credentials.proves(&expected.unwrap_or_else(decoy)) && is_known;
        let (source, username) = (flow.remote.ip(), credentials.username);
        if proves {
            self.logins.succeeded(source, username);
            if !self.accounts.directory.is_disabled(username) {
                return Login::Accepted;
            }
            let reason = DISABLED.reason().to_owned();
            self.log
                .failures
                .note(username, flow, "iax2", reason.into());
            return Login::Refused;
        }
        self.login_failed(flow, username, "iax2", why_wrong(is_known));
        Login::Refused
    }

    /// How long this user is refused from that source, after too many wrong passwords.
    fn login_pause(&self, username: &str, flow: Flow) -> Option<Duration> {
        let logins = &self.logins;
        let left = logins.pause_left(flow.remote.ip(), username, self.clock.now());
        if left.is_some() {
            self.counters.logins_paused.increment();
        }
        left
    }

    /// Answers 401 or 407. Nothing is stored: the nonce is signed, and a retransmission is
    /// challenged anew.
    fn challenge(
        &self,
        authenticator: &Authenticator,
        request: &Request<'_>,
        asking: Asking,
        is_stale: bool,
    ) {
        let unix = self.clock.unix_time();
        let source = source_of(request.flow.remote.ip());
        let salt = self.nonce_salt.fetch_add(1, Ordering::Relaxed);
        self.responder
            .respond_at_once(request, asking.status, |mut answer| {
                self.counters.challenged.increment();
                for challenge in authenticator.challenges(unix, source, salt, is_stale) {
                    answer = answer.value(asking.challenge, &challenge);
                }
                answer.finish();
            });
    }
}

/// The reason in the log for a wrong response; the answer does not distinguish the two
/// reasons.
fn why_wrong(is_known: bool) -> &'static str {
    match is_known {
        true => "wrong password",
        false => "unknown account",
    }
}

/// The user of credentials, without a domain after it.
fn own_user(username: &str) -> &str {
    username.split_once('@').map_or(username, |(user, _)| user)
}

/// Whether the `uri` of credentials matches the request (RFC 7616 §3.4.6): the same
/// user at the same host. A proxy on the way may have changed port and parameters, or
/// one of our domains for another (RFC 3261 §22.4), and a REGISTER has no user.
fn is_for(uri: &str, request: &Request<'_>, domains: &Domains) -> bool {
    let (Some(named), Some(asked)) = (Uri::parse(uri), request.essentials.request_uri) else {
        return false;
    };
    let (Some(named), Some(asked)) = (named.as_sip(), asked.as_sip()) else {
        return false;
    };
    let is_same_user = named.user.is_none() || asked.user.is_none() || named.user == asked.user;
    let are_ours = || domains.contain(&named.host) && domains.contain(&asked.host);
    is_same_user && (is_same_host(&named.host, &asked.host) || are_ours())
}

fn is_same_host(one: &Host<'_>, other: &Host<'_>) -> bool {
    match (one, other) {
        (Host::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
        _ => one == other,
    }
}

const DISABLED: Refusal = Refusal::Forbidden("Account Disabled");
const OTHER_REALM: &str = "credentials for another realm";
const OTHER_FORM: &str = "algorithm or qop not offered";
const OTHER_URI: &str = "Digest Uri Is Not The Request-URI";
/// When the service for credentials has no answer.
const RETRY_MIN: Duration = Duration::from_secs(1);
