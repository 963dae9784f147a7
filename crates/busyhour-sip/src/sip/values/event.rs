//! Event and Subscription-State (RFC 6665 §8.2).

use crate::sip::Params;
use crate::sip::text::lex::{self, Cursor, VALUE};

/// An event package with its templates and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// `presence`, `dialog`, `presence.winfo`, …
    pub package: &'a str,
    /// `id` and what a package defines.
    pub params: Params<'a>,
}

/// The state a notifier gives a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionState<'a> {
    /// `active`, `pending`, `terminated` or another token.
    pub state: &'a str,
    /// `expires`, `reason`, `retry-after`.
    pub params: Params<'a>,
}

impl<'a> Event<'a> {
    /// Reads the value; `None` when its grammar is broken.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (package, params) = token_with_params(text)?;
        let event = Self { package, params };
        // An `id` that needs quotes is invalid (RFC 6665 §8.4).
        let is_plain = |id: &str| lex::all(id, VALUE);
        event.id().is_none_or(is_plain).then_some(event)
    }

    /// The `id` that tells subscriptions of one dialog apart.
    pub fn id(&self) -> Option<&'a str> {
        self.params.value("id")
    }
}

impl<'a> SubscriptionState<'a> {
    /// Reads the value; `None` when its grammar is broken.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (state, params) = token_with_params(text)?;
        Some(Self { state, params })
    }

    /// Whether the subscription is over.
    pub fn is_terminated(&self) -> bool {
        self.state.eq_ignore_ascii_case("terminated")
    }

    /// Seconds that remain, where the notifier says.
    pub fn expires(&self) -> Option<u32> {
        lex::saturating_u32(self.params.value("expires")?)
    }
}

fn token_with_params(text: &str) -> Option<(&str, Params<'_>)> {
    let mut cursor = Cursor::new(text);
    cursor.skip_space();
    let token = cursor.token()?;
    Some((token, Params::parse(cursor.rest())?))
}
