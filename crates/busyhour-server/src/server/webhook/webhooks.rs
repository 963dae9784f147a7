//! The part of the server that has the webhooks.

use super::{
    WebhookMistake, WebhookSecret, WebhookStats, WebhookTestResult, WebhookView,
    delivery::{Delivery, DeliveryContext},
    webhook_config::{WebhookConfig, WebhookEntry},
};
use crate::server::{
    HttpClient, change::changes::Changes, http_client::breaker::Breakers, persistence::Persistence,
    random::random_key, server_clock::ServerClock,
};
use busyhour::{pool::JoinHandle, runtime::Runtime};
use busyhour_store::{Change, Completion, Refused, SettingKind};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};
use thiserror::Error;

/// The webhooks of the configuration, and those that were set over HTTP.
pub(in crate::server) struct Webhooks {
    runtime: Runtime,
    context: Arc<DeliveryContext>,
    persistence: Arc<Persistence>,
    table: Mutex<BTreeMap<String, Running>>,
}

/// A webhook with its task, which ends when this is dropped.
struct Running {
    delivery: Arc<Delivery>,
    task: JoinHandle<()>,
}

/// Why a webhook is not set or removed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebhookRefusal {
    /// It is wrong.
    #[error(transparent)]
    Mistake(#[from] WebhookMistake),
    /// It stands in the configuration file.
    #[error("webhook `{0}` is in the configuration: change it there")]
    Configured(String),
    /// The configuration is to define it while the server runs, but it was set over HTTP.
    #[error("it was set over HTTP: remove it there first, or leave it out of the file")]
    SetOverHttp,
    /// There are as many as may be.
    #[error("there are {WEBHOOKS_MAX} webhooks already: remove some")]
    Full,
    /// The operating system gives no random numbers for its secret.
    #[error("no secret can be made")]
    NoSecret,
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] Refused),
}

impl Webhooks {
    pub(in crate::server) fn new(
        runtime: &Runtime,
        http: Arc<dyn HttpClient>,
        changes: Arc<Changes>,
        clock: Arc<ServerClock>,
        persistence: Arc<Persistence>,
    ) -> Self {
        Self {
            runtime: runtime.clone(),
            context: Arc::new(DeliveryContext {
                changes,
                clock,
                timers: runtime.timers().clone(),
                http,
                breakers: Mutex::new(Breakers::default()),
                last_id: AtomicU64::new(0),
            }),
            persistence,
            table: Mutex::default(),
        }
    }

    /// Whether the configuration may have these from now on.
    pub(in crate::server) fn check_configured(
        &self,
        configured: &[(String, WebhookConfig)],
    ) -> Result<(), (String, WebhookRefusal)> {
        let table = self.lock();
        let is_set = |name: &str| {
            let running = table.get(name);
            running.is_some_and(|running| !running.delivery.is_configured)
        };
        match configured.iter().find(|(name, _)| is_set(name)) {
            Some((name, _)) => Err((name.clone(), WebhookRefusal::SetOverHttp)),
            None => Ok(()),
        }
    }

    /// Takes those of the configuration, in place of those before. One that stays as it is goes on.
    pub(in crate::server) fn replace_configured(&self, configured: &[(String, WebhookConfig)]) {
        let mut table = self.lock();
        let is_gone = |name: &String| !configured.iter().any(|(wanted, _)| wanted == name);
        let before = table.iter().filter(|(_, it)| it.delivery.is_configured);
        let gone: Vec<_> = before
            .map(|(name, _)| name.clone())
            .filter(is_gone)
            .collect();
        for name in gone {
            self.end(&mut table, &name);
        }
        for (name, config) in configured {
            let known = table.get(name).map(|running| &running.delivery);
            let stays = |known: &Arc<Delivery>| known.is_configured && known.has(config);
            if !known.is_some_and(stays) {
                self.begin(&mut table, name, config.clone(), true);
            }
        }
    }

    /// Takes a stored one back in. One of the configuration with the same name counts more.
    pub(in crate::server) fn restore(&self, name: &str, value: &str) -> Result<(), String> {
        let entry: WebhookEntry = serde_json::from_str(value).map_err(|error| error.to_string())?;
        let config = entry.check(name).map_err(|mistake| mistake.to_string())?;
        let mut table = self.lock();
        if table.contains_key(name) {
            return Err("the configuration has one of this name".to_owned());
        }
        self.begin(&mut table, name, config, false);
        Ok(())
    }

    /// Sets and stores one; returns whether it is new, and its secret if it was made here.
    pub(in crate::server) fn set(
        &self,
        name: &str,
        mut entry: WebhookEntry,
        done: Completion,
    ) -> Result<(bool, Option<String>), WebhookRefusal> {
        let mut table = self.lock();
        let before = table.get(name);
        if before.is_some_and(|before| before.delivery.is_configured) {
            return Err(WebhookRefusal::Configured(name.to_owned()));
        }
        if before.is_none() && table.len() >= WEBHOOKS_MAX {
            return Err(WebhookRefusal::Full);
        }
        let mut made = None;
        if entry.secret.is_none() {
            // A change of its filter keeps the secret.
            let kept = before.and_then(|before| before.delivery.config.entry.secret.clone());
            if kept.is_none() {
                let key = random_key(&self.runtime).map_err(|_| WebhookRefusal::NoSecret)?;
                made = Some(WebhookSecret::of(&key).text().to_owned());
            }
            entry.secret = kept.or_else(|| made.clone());
        }
        let value = serde_json::to_string(&entry).unwrap_or_default();
        let config = entry.check(name)?;
        let put = Change::PutSetting {
            kind: SettingKind::Webhook,
            name: name.to_owned(),
            value,
        };
        let is_same = before.is_some_and(|before| before.delivery.has(&config));
        self.persistence.store().commit(vec![put], done)?;
        if is_same {
            return Ok((false, made));
        }
        Ok((self.begin(&mut table, name, config, false), made))
    }

    /// Removes one; `false` if there is none.
    pub(in crate::server) fn remove(
        &self,
        name: &str,
        done: Completion,
    ) -> Result<bool, WebhookRefusal> {
        let mut table = self.lock();
        match table.get(name) {
            None => return Ok(false),
            Some(running) if running.delivery.is_configured => {
                return Err(WebhookRefusal::Configured(name.to_owned()));
            }
            Some(_) => {}
        }
        let forget = Change::RemoveSetting {
            kind: SettingKind::Webhook,
            name: name.to_owned(),
        };
        self.persistence.store().commit(vec![forget], done)?;
        self.end(&mut table, name);
        Ok(true)
    }

    /// Posts a test event and tells what became of it; `false` if there is no such webhook.
    pub(in crate::server) fn test(
        &self,
        name: &str,
        listener: Box<dyn FnOnce(WebhookTestResult) + Send>,
    ) -> bool {
        let Some(delivery) = self.lock().get(name).map(|it| it.delivery.clone()) else {
            return false;
        };
        let context = self.context.clone();
        // It goes on without its handle, and has a time limit.
        let test = async move { listener(context.test(&delivery).await) };
        drop(self.runtime.pool().spawn(test));
        true
    }

    pub(in crate::server) fn list(&self) -> Vec<WebhookView> {
        self.lock().values().map(|it| it.delivery.view()).collect()
    }

    pub(in crate::server) fn stats(&self) -> WebhookStats {
        let mut stats = WebhookStats {
            breaker_open_count: self.context.breakers().open_count() as u64,
            ..WebhookStats::default()
        };
        for view in self.list() {
            stats.webhook_count += 1;
            stats.failing_count += u64::from(view.last_error.is_some());
            stats.delivered += view.delivered;
            stats.batches += view.batches;
            stats.failed_attempts += view.failed_attempts;
            stats.lost += view.lost;
        }
        stats
    }

    /// Replaces one of the same name; returns whether there was none.
    fn begin(
        &self,
        table: &mut BTreeMap<String, Running>,
        name: &str,
        config: WebhookConfig,
        is_configured: bool,
    ) -> bool {
        let before = table.get(name).map(|it| it.delivery.clone());
        let seed = random_key(&self.runtime).map_or(0, |key| key.iter().fold(0, mixed));
        let delivery = Delivery::new(name, config, is_configured, self.context.clone());
        let delivery = Arc::new(delivery);
        // Before the one that it replaces ends, so that what changes meanwhile is kept.
        let reader = delivery.begin_to_read(before.as_deref());
        self.end(table, name);
        let task = delivery.clone().run(reader, seed);
        let task = self.runtime.pool().spawn(task);
        table.insert(name.to_owned(), Running { delivery, task });
        before.is_none()
    }

    fn end(&self, table: &mut BTreeMap<String, Running>, name: &str) -> bool {
        let Some(ended) = table.remove(name) else {
            return false;
        };
        let url = &ended.delivery.config.entry.url;
        let is_needed = |it: &Running| it.delivery.config.entry.url == *url;
        if !table.values().any(is_needed) {
            self.context.breakers().forget(url);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn mixed(seed: u64, byte: &u8) -> u64 {
    seed.rotate_left(8) ^ u64::from(*byte)
}

/// Each reads all changes.
const WEBHOOKS_MAX: usize = 64;
