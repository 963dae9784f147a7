//! The requests by which services are asked to wake a telephone, and what their answers mean.

use super::{
    access_token,
    push_config::{PushConfig, PushService, ServiceAccount},
    push_target::PushTarget,
};
use crate::server::{HttpAnswer, HttpFailure, HttpPurpose, HttpRequest, HttpUrl};
use hyper::{
    Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde_json::{Value, json};

/// Why a telephone is woken.
#[derive(Debug, Clone)]
pub(super) struct WakeReason {
    /// `call`, `message`, or `refresh`.
    pub(super) kind: &'static str,
    /// Whose telephone it is.
    pub(super) aor: String,
    /// Of a call or message.
    pub(super) call_id: String,
}

/// What a service has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PushVerdict {
    /// It wakes the telephone.
    Accepted,
    /// It does not know the telephone any more.
    Unregistered,
    /// It does not believe our token: a new one is needed.
    NewToken,
    /// It may do so later.
    Again(String),
    /// It never will.
    Refused(String),
}

/// The request that asks Google for an access token.
pub(super) fn token_request(account: &ServiceAccount, unix_seconds: u64) -> Option<HttpRequest> {
    let url = account.token_url.clone();
    let mut request = HttpRequest::new(HttpPurpose::Push, Method::POST, url);
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers.insert(CONTENT_TYPE, form);
    request.body = access_token::request_to_google(account, unix_seconds)?.into();
    request.needs_body = true;
    Some(request)
}

/// The access token and for how many seconds it is good.
pub(super) fn token_in(answer: &HttpAnswer) -> Option<(String, u64)> {
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    let token = body["access_token"].as_str()?.to_owned();
    Some((token, body["expires_in"].as_u64().unwrap_or(300)))
}

/// The request that wakes a telephone. `token` says who we are, where that is needed.
pub(super) fn wake_request(
    config: &PushConfig,
    target: &PushTarget,
    reason: &WakeReason,
    id: &str,
    (unix_seconds, token): (u64, &str),
) -> Option<HttpRequest> {
    let told = json!({
        "type": reason.kind,
        "aor": reason.aor,
        "call_id": reason.call_id,
    });
    let lives = config.wait.as_secs();
    let (path, body) = match &config.service {
        PushService::Webhook(_) => {
            let mut body = told;
            body["provider"] = (&*target.provider).into();
            body["prid"] = (&*target.prid).into();
            body["param"] = (&*target.param).into();
            (String::new(), body)
        }
        PushService::Fcm(account) => (
            format!("/v1/projects/{}/messages:send", account.project),
            json!({"message": {
                "token": &*target.prid,
                "data": told,
                "android": {"priority": "high", "ttl": format!("{lives}s")},
            }}),
        ),
        PushService::Apns(_) => {
            // The telephone says it, and it becomes a part of the path.
            if !target.prid.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return None;
            }
            let mut body = told;
            body["aps"] = json!({"content-available": 1});
            (format!("/3/device/{}", target.prid), body)
        }
    };
    let url: HttpUrl = match path.is_empty() {
        true => config.url.clone(),
        false => {
            let base = config.url.to_string();
            format!("{}{path}", base.trim_end_matches('/'))
                .parse()
                .ok()?
        }
    };
    let mut request = HttpRequest::new(HttpPurpose::Push, Method::POST, url);
    request.time_limit = config.time_limit;
    request.body = body.to_string().into();
    let mut insert = |name: &'static str, value: &str| {
        let value = HeaderValue::from_str(value).ok();
        value.map(|value| request.headers.insert(HeaderName::from_static(name), value))
    };
    insert("content-type", "application/json")?;
    match &config.service {
        PushService::Webhook(secret) => {
            insert("webhook-id", id)?;
            insert("webhook-timestamp", &unix_seconds.to_string())?;
            if let Some(secret) = secret {
                let signature = secret.sign(id, unix_seconds, body.to_string().as_bytes());
                insert("webhook-signature", &signature)?;
            }
        }
        PushService::Fcm(_) | PushService::Apns(_) => {
            insert(AUTHORIZATION_NAME, &format!("Bearer {token}"))?;
        }
    }
    if let PushService::Apns(key) = &config.service {
        let topic = topic(&target.param, &key.team_id);
        let (kind, priority) = match topic.ends_with(".voip") {
            true => ("voip", "10"),
            false => ("background", "5"),
        };
        insert("apns-topic", topic)?;
        insert("apns-push-type", kind)?;
        insert("apns-priority", priority)?;
        insert("apns-expiration", &(unix_seconds + lives).to_string())?;
    }
    debug_assert_eq!(AUTHORIZATION_NAME, AUTHORIZATION.as_str());
    Some(request)
}

/// `pn-param` of Apple is the team, a full stop, and the topic (RFC 8599 §10.2).
fn topic<'p>(param: &'p str, team_id: &str) -> &'p str {
    let rest = param.strip_prefix(team_id);
    rest.and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or(param)
}

impl PushVerdict {
    pub(super) fn of(service: &PushService, outcome: &Result<HttpAnswer, HttpFailure>) -> Self {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(failure) => return Self::Again(failure.to_string()),
        };
        let status = answer.status;
        let text = String::from_utf8_lossy(&answer.body);
        let is_unknown = match service {
            PushService::Webhook(_) => status == StatusCode::GONE,
            PushService::Fcm(_) => text.contains("UNREGISTERED"),
            PushService::Apns(_) => status == StatusCode::GONE || text.contains("BadDeviceToken"),
        };
        let needs_token = match service {
            PushService::Webhook(_) => false,
            PushService::Fcm(_) => status == StatusCode::UNAUTHORIZED,
            // 429 TooManyProviderTokenUpdates is none of these: it wants fewer tokens.
            PushService::Apns(_) => {
                status == StatusCode::FORBIDDEN && text.contains("ProviderToken")
            }
        };
        let said = format!("answered {status}");
        match () {
            () if status.is_success() => Self::Accepted,
            () if is_unknown => Self::Unregistered,
            () if needs_token => Self::NewToken,
            () if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Self::Again(said)
            }
            () => Self::Refused(said),
        }
    }
}

const AUTHORIZATION_NAME: &str = "authorization";
