//! The key that signs what the proxy writes into routes. It is stored, so that requests
//! within dialogs find their way after a restart.

use crate::server::{
    persistence::Persistence,
    random::{RandomError, random_key},
};
use busyhour::runtime::Runtime;
use busyhour_store::{Change, Contents, SettingKind};

/// The key, and whether it is a new one that has to be stored.
pub(in crate::server) struct RouteKey {
    pub(in crate::server) key: [u8; 32],
    is_new: bool,
}

impl RouteKey {
    /// The stored key, or a new one.
    ///
    /// # Errors
    ///
    /// When there are no random numbers for a new one.
    pub(in crate::server) fn resume(
        contents: &Contents,
        runtime: &Runtime,
    ) -> Result<Self, RandomError> {
        let name = (SettingKind::Server, NAME.to_owned());
        let stored = contents.settings.get(&name).map(|text| parse(text));
        if let Some(None) = stored {
            tracing::warn!(
                "the stored key of routes cannot be read; calls that last cannot be ended through the server"
            );
        }
        Ok(match stored.flatten() {
            Some(key) => Self { key, is_new: false },
            None => Self {
                key: random_key(runtime)?,
                is_new: true,
            },
        })
    }

    /// Stores a new one.
    pub(in crate::server) fn keep(&self, persistence: &Persistence) {
        if !self.is_new {
            return;
        }
        let change = Change::PutSetting {
            kind: SettingKind::Server,
            name: NAME.to_owned(),
            value: self.key.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let told = |outcome: Result<(), busyhour_store::CommitError>| {
            if let Err(error) = outcome {
                tracing::warn!(%error, "the key of routes cannot be stored; calls that last end for the server at its next start");
            }
        };
        let refused = persistence.store().commit(vec![change], Box::new(told));
        if let Err(error) = refused {
            tracing::warn!(%error, "the key of routes cannot be stored; calls that last end for the server at its next start");
        }
    }
}

fn parse(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 2 * key.len() || !text.is_ascii() {
        return None;
    }
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(key)
}

/// Of the setting.
const NAME: &str = "route-key";
