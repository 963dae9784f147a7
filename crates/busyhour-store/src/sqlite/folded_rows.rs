//! Changes of rows, of which several of one row become one.
//!
//! Rows of bindings and soft states are independent of each other: an id names one row of one of them, so only the order of the
//! changes of one id counts.

use crate::Change;
use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, EndedBinding};
use std::collections::HashMap;

/// Changes with the same effect as all that were [pushed](Self::push), in their order.
#[derive(Default)]
pub(super) struct FoldedRows {
    rows: Vec<RowChange>,
    /// Where the last change of an id is.
    last: HashMap<BindingId, usize>,
}

/// A change of a row, or its removal if its lease ends at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowChange {
    Put(Change),
    Ended(EndedBinding),
}

impl FoldedRows {
    pub(super) fn push(&mut self, new: RowChange) {
        let Some(id) = new.id() else {
            return self.rows.push(new);
        };
        let last = self.last.get(&id).map(|at| &mut self.rows[*at]);
        let left = match last {
            Some(last) => last.take_over(new),
            None => Some(new),
        };
        if let Some(new) = left {
            self.last.insert(id, self.rows.len());
            self.rows.push(new);
        }
    }

    /// In the order of the tables, since rows beside each other share pages.
    pub(super) fn sorted(&self) -> Vec<&RowChange> {
        // Ids beside places, since a comparison that looks into the rows would miss the cache.
        let ids = self.rows.iter().map(RowChange::id);
        let mut places: Vec<_> = ids.zip(0..).collect();
        places.sort_unstable();
        places
            .into_iter()
            .map(|(_, place): (_, usize)| &self.rows[place])
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.last.clear();
    }
}

impl RowChange {
    /// Of a record of a call there is none: these are never changed.
    fn id(&self) -> Option<BindingId> {
        match self {
            Self::Ended(ended) => Some(ended.id),
            Self::Put(Change::Binding(change)) => Some(match change {
                BindingChange::Put { id, .. }
                | BindingChange::Renew { id, .. }
                | BindingChange::Remove { id } => *id,
            }),
            Self::Put(Change::PutSoftState(row)) => Some(row.id),
            Self::Put(Change::RemoveSoftState(id)) => Some(*id),
            Self::Put(_) => None,
        }
    }

    /// Becomes both in one, or returns the one that has to follow.
    fn take_over(&mut self, new: Self) -> Option<Self> {
        match (&mut *self, &new) {
            (Self::Put(own), Self::Ended(ended)) => match own.expiry() {
                Some(at) if at == ended.expires_at => *self = own.removal(ended.id),
                // It ends at another time, or is gone.
                _ => {}
            },
            (Self::Put(Change::Binding(own)), Self::Put(Change::Binding(next))) => {
                return match (&mut *own, next) {
                    (
                        BindingChange::Put { lease, .. } | BindingChange::Renew { lease, .. },
                        BindingChange::Renew { lease: next, .. },
                    ) => {
                        *lease = *next;
                        None
                    }
                    // A row that is gone cannot be prolonged.
                    (BindingChange::Remove { .. }, BindingChange::Renew { .. }) => None,
                    (_, BindingChange::Put { .. } | BindingChange::Remove { .. }) => {
                        *self = new;
                        None
                    }
                };
            }
            (
                Self::Put(Change::PutSoftState(_) | Change::RemoveSoftState(_)),
                Self::Put(Change::PutSoftState(_) | Change::RemoveSoftState(_)),
            ) => *self = new,
            // A removal that is tried again.
            (Self::Ended(own), Self::Ended(next)) if own == next => {}
            _ => return Some(new),
        }
        None
    }
}

impl Change {
    /// When the lease ends that it writes.
    fn expiry(&self) -> Option<UnixTime> {
        match self {
            Self::Binding(
                BindingChange::Put { lease, .. } | BindingChange::Renew { lease, .. },
            ) => Some(lease.expires_at),
            Self::PutSoftState(row) => Some(row.expires_at),
            _ => None,
        }
    }

    fn removal(&self, id: BindingId) -> RowChange {
        RowChange::Put(match self {
            Self::Binding(_) => BindingChange::Remove { id }.into(),
            _ => Self::RemoveSoftState(id),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::schema, super::tables, *};
    use crate::{SoftState, SoftStateKind};
    use busyhour_registrar::{Contact, ContactParts, Lease};
    use busyhour_sip::Flow;
    use proptest::{collection::vec, prelude::*};
    use rusqlite::Connection;

    fn lease(until: u64) -> Lease {
        Lease {
            cseq: 1,
            granted_s: 60,
            expires_at: UnixTime::from_secs(until),
            removed: false,
        }
    }

    fn put(id: BindingId, until: u64) -> Change {
        let contact = Contact::new(ContactParts {
            uri: "sip:a@192.0.2.1",
            parameters: "",
            q_milli: None,
            call_id: &until.to_string(),
            path: "",
            user_agent: "",
            flow: Flow::udp(([192, 0, 2, 2], 5060).into(), ([192, 0, 2, 1], 5060).into()),
        });
        BindingChange::Put {
            id,
            aor: "sip:a@example.com".into(),
            contact,
            lease: lease(until),
        }
        .into()
    }

    /// Even ids are bindings, and odd ones soft states.
    fn changes() -> impl Strategy<Value = RowChange> {
        (0..6_u64, 0..4, 1..4_u64).prop_map(|(id, kind, until)| {
            let (is_binding, id) = (id % 2 == 0, BindingId(id));
            let expires_at = UnixTime::from_secs(until);
            match (kind, is_binding) {
                (0, _) => RowChange::Ended(EndedBinding { id, expires_at }),
                (1, true) => RowChange::Put(BindingChange::Remove { id }.into()),
                (1, false) => RowChange::Put(Change::RemoveSoftState(id)),
                (2, true) => {
                    let lease = lease(until);
                    RowChange::Put(BindingChange::Renew { id, lease }.into())
                }
                (_, true) => RowChange::Put(put(id, until)),
                (_, false) => RowChange::Put(Change::PutSoftState(SoftState {
                    id,
                    kind: SoftStateKind::Publication,
                    value: until.to_string().into(),
                    granted_s: 60,
                    expires_at,
                })),
            }
        })
    }

    fn database() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection, std::path::Path::new("memory")).unwrap();
        connection
    }

    fn rows(connection: &Connection) -> Vec<String> {
        let query = "SELECT 'b' || id || ' ' || call_id || ' ' || coalesce(expires_at_ns, '') \
            FROM contact LEFT JOIN lease USING (id) \
            UNION ALL SELECT 'l' || id FROM lease \
            UNION ALL SELECT 's' || id || value || expires_at_ns FROM soft_state ORDER BY 1";
        let mut statement = connection.prepare(query).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]
        #[test]
        fn folded_changes_do_what_each_in_turn_does(
            before in vec(changes(), 0..12),
            changes in vec(changes(), 0..24),
        ) {
            let (one_by_one, folded) = (database(), database());
            for connection in [&one_by_one, &folded] {
                tables::apply_rows(connection, &before).unwrap();
            }
            tables::apply_rows(&one_by_one, &changes).unwrap();
            let mut fold = FoldedRows::default();
            changes.into_iter().for_each(|change| fold.push(change));
            tables::apply_rows(&folded, fold.sorted()).unwrap();
            prop_assert_eq!(rows(&folded), rows(&one_by_one));
        }
    }

    #[test]
    fn a_row_that_is_refreshed_often_is_written_once() {
        let mut fold = FoldedRows::default();
        fold.push(RowChange::Put(put(BindingId(1), 1)));
        for until in 2..1_000 {
            let (id, lease) = (BindingId(1), lease(until));
            fold.push(RowChange::Put(BindingChange::Renew { id, lease }.into()));
        }
        assert_eq!(fold.len(), 1);
    }
}
