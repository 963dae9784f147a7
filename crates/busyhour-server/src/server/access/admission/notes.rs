//! What is noted and logged of clients that do not prove who they are.

use super::{Admission, Answered, Proof};
use crate::server::{CredentialJudgement, access::failures, sip::receive::Request};
use busyhour_registrar::Refusal;
use busyhour_sip::{
    DigestCredentials, Flow, HeaderName, Method,
    auth::{Algorithm, Authenticator},
    source_of,
};

impl Admission {
    /// Such a client is challenged again and again, and never learns what is wrong.
    pub(super) fn note_unfit(
        &self,
        shown: &DigestCredentials<'_>,
        (username, authenticator): (&str, &Authenticator),
        flow: Flow,
        reason: &'static str,
    ) {
        self.log.failures.note(username, flow, "sip", reason.into());
        let offered = offered(authenticator);
        self.log.login_unfit(
            flow,
            (shown, username),
            reason,
            (authenticator.realm(), &offered),
        );
    }

    /// A login failed: that counts against its source and its user.
    pub(super) fn login_failed(
        &self,
        flow: Flow,
        username: &str,
        protocol: &'static str,
        reason: &'static str,
    ) {
        let (source, holder) = (
            source_of(flow.remote.ip()),
            self.holders.of(flow.remote.ip(), None),
        );
        self.logins
            .failed(source, holder, username, self.clock.now());
        self.log.login_failed(flow, username, protocol, reason);
    }

    /// The network learns of a REGISTER that answers a challenge, by which it judges all that show credentials.
    pub(super) fn note_credentials(
        &self,
        request: &Request<'_>,
        proof: &Result<Proof<'_>, Refusal>,
    ) {
        let judgement = match proof {
            Ok(Proof::Of(_)) => CredentialJudgement::Answer,
            Ok(Proof::Challenged {
                answered: Answered::OldNonce,
                ..
            }) => CredentialJudgement::OldAnswer,
            Ok(Proof::Open | Proof::Awaited | Proof::Challenged { .. }) | Err(_) => return,
        };
        if request.message.method() == Some(Method::Register) {
            let network = self.responder.network();
            network.note_credentials(request.flow, judgement);
        }
    }

    /// Another node looks at the credentials of this request, if it shows any; what it accepts comes back.
    pub(in crate::server) fn note_handed_on(&self, request: &Request<'_>) {
        let shows = || request.message.header(HeaderName::Authorization).is_some();
        if request.message.method() == Some(Method::Register) && shows() {
            let network = self.responder.network();
            network.note_credentials(request.flow, CredentialJudgement::Elsewhere);
        }
    }

    /// Another node has accepted a REGISTER that came over this flow, with its credentials if any are required.
    pub(in crate::server) fn note_accepted_elsewhere(&self, flow: Flow) {
        if self.is_required() {
            let network = self.responder.network();
            network.note_credentials(flow, CredentialJudgement::AcceptedElsewhere);
        }
    }

    /// A device was asked for its password. Users without an account are not noted, so
    /// the table has at most as many users as there are accounts.
    pub(in crate::server) fn note_challenge(
        &self,
        user: &str,
        flow: Flow,
        protocol: &'static str,
        has_old_nonce: bool,
    ) {
        let is_known = self.accounts.directory.knows(user);
        let reason = match has_old_nonce {
            true => failures::ANSWERS_OLD_NONCE,
            false => failures::NEVER_ANSWERED,
        };
        let failures = &self.log.failures;
        // With an account or without: so the log takes no time that tells.
        if failures.note_challenge(user, flow, protocol, reason, is_known) {
            let offered = match protocol {
                "iax2" => Algorithm::Md5.name().to_owned(),
                _ => self.authenticator.as_ref().map(offered).unwrap_or_default(),
            };
            self.log
                .login_unanswered(flow, (user, is_known), protocol, &offered);
        }
    }
}

/// The algorithms that are offered, as they stand in `sip.algorithms`.
fn offered(authenticator: &Authenticator) -> String {
    let names: Vec<_> = authenticator
        .algorithms()
        .iter()
        .map(|it| it.name())
        .collect();
    names.join(", ")
}
