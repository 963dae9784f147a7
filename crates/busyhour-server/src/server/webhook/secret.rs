use base64::{Engine, engine::general_purpose::STANDARD};
use ring::hmac;
use std::fmt;

/// The key that a webhook and its receiver share. Signatures are those of *Standard Webhooks*,
/// version `v1`: HMAC-SHA-256, so that libraries of many languages verify them.
///
/// ```
/// use busyhour_server::server::WebhookSecret;
///
/// let secret = WebhookSecret::read("whsec_c2VjcmV0IG9mIHRoZSBzaG9wLCBuZXZlciB0b2xk");
/// let signature = secret.sign("msg_1", 1_795_465_200, b"{}");
/// assert_eq!(signature, "v1,/SUj6tY47CpHoZWNrRZa2KlG5IVXBVmEfRhPE9urC/I=");
/// ```
#[derive(Clone)]
pub struct WebhookSecret {
    text: String,
    key: hmac::Key,
}

impl WebhookSecret {
    /// The secret that a text names: `whsec_` and the key in Base64, or the key itself.
    pub fn read(text: &str) -> Self {
        let text = text.trim();
        let decoded = text
            .strip_prefix(PREFIX)
            .and_then(|it| STANDARD.decode(it).ok());
        let key = decoded.unwrap_or_else(|| text.as_bytes().to_vec());
        Self {
            text: text.to_owned(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        }
    }

    /// One that nobody can guess, of these random bytes.
    pub(super) fn of(random: &[u8; 32]) -> Self {
        Self::read(&format!("{PREFIX}{}", STANDARD.encode(random)))
    }

    /// What the receiver is given.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The value of the header `webhook-signature`: the HMAC of the id, the time in seconds since
    /// 1970 and the body, with full stops between them.
    pub fn sign(&self, id: &str, unix_seconds: u64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(format!("{id}.{unix_seconds}.").as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    }
}

impl PartialEq for WebhookSecret {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("WebhookSecret")
    }
}

const PREFIX: &str = "whsec_";
