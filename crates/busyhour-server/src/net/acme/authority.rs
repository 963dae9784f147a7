//! One order: from an account to a certificate that may be used.

use super::{
    AcmeChallenge, AcmeOptions, ChallengeAnswers,
    dns_hook::DnsRecords,
    renewal::OrderErrorKind,
    storage::{
        account_path, certificate_path, certificate_text, files, has_account_at_authority, replace,
        write_beside,
    },
};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use std::{fmt::Display, fs, io, time::Duration};

/// Why there is no new certificate.
#[derive(Debug)]
pub(super) struct OrderError {
    pub(super) kind: OrderErrorKind,
    pub(super) problem: String,
}

impl OrderError {
    /// The authority did not come to an end.
    pub(super) fn late() -> Self {
        here("the authority takes too long".to_owned())
    }
}

/// Orders a certificate, and puts it in the place of the old one if it may be used. The caller
/// clears the answers.
pub(super) async fn order(
    options: &AcmeOptions,
    answers: &ChallengeAnswers,
) -> Result<(), OrderError> {
    let account = account(options).await?;
    let names = options.names.iter().cloned();
    let identifiers: Vec<_> = names.map(Identifier::Dns).collect();
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await?;
    // They are removed when the order is over, or given up.
    let mut records = DnsRecords::new(options.dns_hook.as_deref());
    answer(&mut order, options.challenge, answers, &mut records).await?;
    let (key, chain) = finish(&mut order).await?;
    keep(options, &key, &chain)
}

async fn account(options: &AcmeOptions) -> Result<Account, OrderError> {
    let builder = || match &options.authorities {
        Some(path) => Account::builder_with_root(path),
        None => Account::builder(),
    };
    let path = account_path(options);
    let of_file = |problem: &dyn Display| here(format!("{}: {problem}", path.display()));
    if has_account_at_authority(options) {
        let kept = fs::read(&path).map_err(|error| of_file(&error))?;
        let credentials: AccountCredentials =
            serde_json::from_slice(&kept).map_err(|error| of_file(&error))?;
        return Ok(builder()?.from_credentials(credentials).await?);
    }
    let contact = options.contact.as_ref().map(|it| format!("mailto:{it}"));
    let contact: Vec<_> = contact.iter().map(String::as_str).collect();
    let wanted = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let directory = options.directory.clone();
    let (account, credentials) = builder()?.create(&wanted, directory, None).await?;
    let text = serde_json::to_string(&credentials).map_err(|error| of_file(&error))?;
    let kept = write_beside(&path, &text).and_then(|beside| replace(&beside, &path));
    kept.map_err(|error| of_file(&error))?;
    Ok(account)
}

/// Says for each name that is not known to be ours that the answer is ready.
async fn answer(
    order: &mut Order,
    challenge: AcmeChallenge,
    answers: &ChallengeAnswers,
    records: &mut DnsRecords<'_>,
) -> Result<(), OrderError> {
    let kind = match challenge {
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        AcmeChallenge::Dns01 => ChallengeType::Dns01,
    };
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = authorization.identifier().to_string();
        let offered = authorization.challenge(kind.clone());
        let mut offered = offered.ok_or_else(|| {
            refused(format!(
                "the authority does not offer {} for {name}",
                challenge.name()
            ))
        })?;
        let proof = offered.key_authorization();
        match challenge {
            AcmeChallenge::Http01 => answers.put_text(&offered.token, proof.as_str()),
            AcmeChallenge::TlsAlpn01 => {
                let made = answers.put_digest(&name, proof.digest().as_ref());
                made.map_err(here)?;
            }
            AcmeChallenge::Dns01 => records.put(&name, &proof.dns_value()).map_err(here)?,
        }
        offered.set_ready().await?;
    }
    Ok(())
}

/// The key and the chain, in PEM.
async fn finish(order: &mut Order) -> Result<(String, String), OrderError> {
    let patience = RetryPolicy::new().timeout(PATIENCE);
    let status = order.poll_ready(&patience).await.map_err(|error| {
        let OrderError { kind, problem } = error.into();
        let problem = format!("the authority did not find that the names are ours: {problem}");
        OrderError { kind, problem }
    })?;
    if status != OrderStatus::Ready {
        let problem = format!("the authority did not find that the names are ours: {status:?}");
        return Err(refused(problem));
    }
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&patience).await?;
    Ok((key, chain))
}

fn keep(options: &AcmeOptions, key: &str, chain: &str) -> Result<(), OrderError> {
    let path = certificate_path(options);
    let of_file = |error: io::Error| here(format!("{}: {error}", path.display()));
    let beside = write_beside(&path, &certificate_text(options, key, chain)).map_err(of_file)?;
    let fits = files(options, &beside).check_for(&options.names);
    fits.map_err(|problem| {
        here(format!(
            "the authority's certificate is not used: {problem}"
        ))
    })?;
    replace(&beside, &path).map_err(of_file)
}

/// A fault on this side: trying again soon does no harm to the authority.
fn here(problem: String) -> OrderError {
    OrderError {
        kind: OrderErrorKind::Unreachable,
        problem,
    }
}

fn refused(problem: String) -> OrderError {
    OrderError {
        kind: OrderErrorKind::Refused,
        problem,
    }
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Api(problem) => match problem.r#type.as_deref() {
                Some(kind) if kind.ends_with(":rateLimited") => OrderErrorKind::RateLimited,
                // RFC 8555, 6.5: to be tried again, and the library did so a few times already.
                Some(kind) if kind.ends_with(":badNonce") => OrderErrorKind::Unreachable,
                _ if problem.status.is_some_and(|status| status >= 500) => {
                    OrderErrorKind::Unreachable
                }
                _ => OrderErrorKind::Refused,
            },
            _ => OrderErrorKind::Unreachable,
        };
        Self {
            kind,
            problem: error.to_string(),
        }
    }
}

/// For each step of an authority.
const PATIENCE: Duration = Duration::from_secs(90);
