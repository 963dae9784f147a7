use super::super::{HttpUrl, WebhookSecret};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RsaKeyPair},
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use serde::Deserialize;
use std::{fmt, sync::Arc, time::Duration};
use thiserror::Error;

/// A service that wakes telephones.
#[derive(Debug, Clone)]
pub struct PushConfig {
    /// What `pn-provider` of a contact is.
    pub provider: String,
    /// How it is asked.
    pub service: PushService,
    /// Where; without a path for Firebase and for Apple.
    pub url: HttpUrl,
    /// How long a call waits for a telephone that was woken.
    pub wait: Duration,
    /// For how long after a registration over datagrams, or through a proxy, a telephone is believed to
    /// be awake.
    pub awake_for: Duration,
    /// How long one request to the service may take.
    pub time_limit: Duration,
    /// Pushes to one telephone in an hour.
    pub hourly_max: u32,
}

/// How a service is asked to wake a telephone.
#[derive(Clone)]
pub enum PushService {
    /// A POST with JSON, signed as webhooks are.
    Webhook(Option<WebhookSecret>),
    /// Firebase Cloud Messaging, HTTP version 1.
    Fcm(Arc<ServiceAccount>),
    /// Apple Push Notification service, with tokens.
    Apns(Arc<AppleKey>),
}

/// Who we are to Google.
pub struct ServiceAccount {
    pub(super) email: String,
    pub(super) token_url: HttpUrl,
    pub(super) project: String,
    pub(super) key: RsaKeyPair,
}

/// Who we are to Apple.
pub struct AppleKey {
    pub(super) team_id: String,
    pub(super) key_id: String,
    pub(super) key: EcdsaKeyPair,
}

/// What is wrong with a service.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PushMistake {
    /// Not what Google gives.
    #[error("give the JSON file of a service account: {0}")]
    ServiceAccount(String),
    /// Not what Apple gives.
    #[error("give the .p8 file of an authentication key for push notifications: {0}")]
    AppleKey(String),
}

impl ServiceAccount {
    /// Reads the JSON that Google gives for a service account.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(json: &str) -> Result<Self, PushMistake> {
        #[derive(Deserialize)]
        struct Written {
            client_email: String,
            private_key: String,
            token_uri: String,
            project_id: String,
        }
        let wrong = |reason: &dyn fmt::Display| PushMistake::ServiceAccount(reason.to_string());
        // What serde says may have a part of the key in it.
        let written: Written = serde_json::from_str(json).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            wrong(&format_args!(
                "line {line}, column {column} is not as it should be"
            ))
        })?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(written.private_key.as_bytes());
        let key = key.map_err(|error| wrong(&format_args!("private_key: {error}")))?;
        let key = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der());
        Ok(Self {
            email: written.client_email,
            token_url: written.token_uri.parse().map_err(|error| wrong(&error))?,
            project: written.project_id,
            key: key.map_err(|error| wrong(&format_args!("private_key: {error}")))?,
        })
    }
}

impl AppleKey {
    /// Reads the key that Apple gives, in PEM.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(pem: &str, team_id: &str, key_id: &str) -> Result<Self, PushMistake> {
        let wrong = |reason: &dyn fmt::Display| PushMistake::AppleKey(reason.to_string());
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes());
        let key = key.map_err(|error| wrong(&error))?;
        let key = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            key.secret_pkcs8_der(),
            &SystemRandom::new(),
        );
        Ok(Self {
            team_id: team_id.to_owned(),
            key_id: key_id.to_owned(),
            key: key.map_err(|error| wrong(&error))?,
        })
    }
}

impl PushConfig {
    /// One with the default limits.
    pub fn new(provider: &str, service: PushService, url: HttpUrl) -> Self {
        Self {
            provider: provider.to_owned(),
            service,
            url,
            wait: Duration::from_secs(20),
            awake_for: Duration::from_secs(10),
            time_limit: Duration::from_secs(5),
            hourly_max: 60,
        }
    }
}

impl PartialEq for PushConfig {
    /// But for the keys, which the configuration reads once.
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| {
            (
                it.provider.clone(),
                it.url.clone(),
                it.service.name(),
                it.wait,
            )
        };
        key(self) == key(other)
    }
}

impl PushService {
    /// How old a token must be before the service wants another: Apple refuses more than one in
    /// twenty minutes.
    pub(super) fn token_age_min(&self) -> Duration {
        match self {
            Self::Apns(_) => Duration::from_secs(20 * 60),
            Self::Webhook(_) | Self::Fcm(_) => Duration::ZERO,
        }
    }

    /// As the configuration names it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Webhook(_) => "webhook",
            Self::Fcm(_) => "fcm",
            Self::Apns(_) => "apns",
        }
    }
}

impl fmt::Debug for PushService {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
