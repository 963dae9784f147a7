//! The settings of media relays.

use super::{Allowed, SettingKey};
use crate::config::values::{OFF, put};
use crate::server::{MediaWish, RelayConfig};
use std::net::SocketAddr;

pub(super) const MEDIA: &[SettingKey] = &[
    SettingKey {
        path: "media.relays",
        allowed: Allowed::Text(
            "addresses and ports such as 127.0.0.1:2223, separated by commas, each with a weight from 1 to 1000 as in 127.0.0.1:2223=2, or off",
        ),
        help: "Each rtpengine that relays the media of calls, at the address where it listens for NG commands (listen-ng)",
        assign: |config, text| put(&mut config.media.relays, relays_or(OFF, text)),
        show: |config| show_relays_or(OFF, &config.media.relays),
    },
    SettingKey {
        path: "media.use",
        allowed: Allowed::OneOf(&["auto", "always", "never"]),
        help: "Which calls use a media relay: those whose media cannot flow from end to end, all, or none but those of peers that want it",
        assign: |config, text| put(&mut config.media.wish, media_wish(text)),
        show: |config| show_media_wish(config.media.wish).to_owned(),
    },
    SettingKey {
        path: "media.without_relay",
        allowed: Allowed::OneOf(&["refuse", "pass"]),
        help: "What becomes of a call that needs a media relay when none answers: it is refused, or goes on without one",
        assign: |config, text| {
            let refuses = match text {
                "refuse" => Some(true),
                "pass" => Some(false),
                _ => None,
            };
            put(&mut config.media.refuses, refuses)
        },
        show: |config| {
            if config.media.refuses {
                "refuse"
            } else {
                "pass"
            }
            .to_owned()
        },
    },
];

/// Media relays with their weights, `192.0.2.1:2223=2`; none for `word`.
fn relays_or(word: &str, text: &str) -> Option<Vec<RelayConfig>> {
    if text == word {
        return Some(Vec::new());
    }
    let relays = text.split(',').map(|one| {
        let (address, weight) = one.trim().split_once('=').unwrap_or((one.trim(), "1"));
        let weight = weight
            .parse()
            .ok()
            .filter(|weight| (1..=1000).contains(weight));
        let address: SocketAddr = address.parse().ok()?;
        Some(RelayConfig {
            address,
            weight: weight.filter(|_| address.port() != 0)?,
        })
    });
    relays.collect()
}

fn show_relays_or(word: &str, relays: &[RelayConfig]) -> String {
    let show = |relay: &RelayConfig| match relay.weight {
        1 => relay.address.to_string(),
        weight => format!("{}={weight}", relay.address),
    };
    let shown: Vec<_> = relays.iter().map(show).collect();
    match shown.is_empty() {
        true => word.to_owned(),
        false => shown.join(","),
    }
}

pub(in crate::config) fn media_wish(text: &str) -> Option<MediaWish> {
    let all = [MediaWish::Auto, MediaWish::Always, MediaWish::Never];
    all.into_iter().find(|wish| show_media_wish(*wish) == text)
}

pub(in crate::config) fn show_media_wish(wish: MediaWish) -> &'static str {
    match wish {
        MediaWish::Auto => "auto",
        MediaWish::Always => "always",
        MediaWish::Never => "never",
    }
}
