//! What is refused to a domain, by what it has used up.

use super::tenant_view::TenantUse;
use crate::server::stats::counters::Counter;

/// What a domain has used up when something is refused to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum TenantQuota {
    /// `max_accounts`.
    Accounts,
    /// `max_contacts`.
    Contacts,
    /// `registrations_per_second`.
    Registrations,
    /// `max_watchers`, or its share of the subscriptions and of what lists show.
    Watchers,
    /// `max_calls`.
    Calls,
    /// `memory_kib`, or its share of the memory and places of requests.
    Memory,
    /// Its share of something that has no quota of its own.
    OtherShare,
}

/// How often what was refused.
#[derive(Debug, Default)]
pub(super) struct QuotaCounters([Counter; COUNT]);

impl QuotaCounters {
    pub(super) fn note(&self, quota: TenantQuota) {
        self.0[quota as usize].increment();
    }

    /// A view with these counts, and nothing else.
    pub(super) fn view(&self) -> TenantUse {
        let of = |quota: TenantQuota| self.0[quota as usize].get();
        TenantUse {
            refused: self.0.iter().map(Counter::get).sum(),
            refused_accounts: of(TenantQuota::Accounts),
            refused_contacts: of(TenantQuota::Contacts),
            refused_registrations: of(TenantQuota::Registrations),
            refused_watchers: of(TenantQuota::Watchers),
            refused_calls: of(TenantQuota::Calls),
            refused_memory: of(TenantQuota::Memory),
            refused_other_share: of(TenantQuota::OtherShare),
            ..TenantUse::default()
        }
    }
}

const COUNT: usize = TenantQuota::OtherShare as usize + 1;
