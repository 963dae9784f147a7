//! The metadata: descriptions of metrics and their instance domains.

use crate::{
    Domain, Instance, Metric, MetricId, Problem, Semantics, Units, ValueType,
    error::Flaw,
    format::{
        domain::Change,
        fields::{Fields, Version, until_zero},
        frame::Framing,
    },
};
use std::collections::{HashMap, HashSet};

/// What the `.meta` file says.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) metrics: Vec<Metric>,
    pub(crate) domains: HashMap<u32, Domain>,
    known: HashSet<MetricId>,
}

impl Catalog {
    /// Reads the records after the label, which end at `offset` of the file. Damaged
    /// records are left out; the first damage is returned as well.
    pub(crate) fn parse(bytes: &[u8], offset: u64, version: Version) -> (Self, Option<Flaw>) {
        let mut catalog = Self::default();
        let (mut bad_record, mut bad_frame) = (None, None);
        let on_frame = |frame: crate::format::frame::Frame<'_>| {
            if let Err(problem) = catalog.record(frame.body(), version) {
                let offset = offset + frame.at as u64;
                bad_record.get_or_insert(Flaw { offset, problem });
            }
        };
        let on_flaw = |flaw: Flaw| {
            let offset = offset + flaw.offset;
            bad_frame.get_or_insert(Flaw { offset, ..flaw });
        };
        FRAMING.walk(bytes, true, on_frame, on_flaw);
        catalog.resolve();
        let first = bad_record.into_iter().chain(bad_frame);
        (catalog, first.min_by_key(|flaw| flaw.offset))
    }

    fn record(&mut self, body: &[u8], version: Version) -> Result<(), Problem> {
        let mut fields = Fields(body);
        match fields.u32()? {
            DESCRIPTION => self.description(fields),
            DOMAIN_V2 => self.domain(fields, Version::V2, true),
            DOMAIN => self.domain(fields, version, true),
            DOMAIN_DELTA => self.domain(fields, version, false),
            // Labels and help texts change no value; their frames were checked.
            LABELS_V2 | HELP_TEXT | LABELS => Ok(()),
            other => Err(Problem::Tag(other)),
        }
    }

    fn description(&mut self, mut fields: Fields<'_>) -> Result<(), Problem> {
        let id = MetricId(fields.u32()?);
        let value_type = ValueType::from_code(fields.i32()?);
        let domain = Some(fields.u32()?).filter(|domain| *domain != NO_DOMAIN);
        let semantics = Semantics::from_code(fields.i32()?);
        let units = Units::unpack(fields.u32()?);
        let names = names(fields)?;
        if self.known.insert(id) {
            self.metrics.push(Metric {
                names,
                id,
                value_type,
                semantics,
                units,
                domain,
                instances: [Instance::only()].into(),
            });
        }
        Ok(())
    }

    fn domain(
        &mut self,
        mut fields: Fields<'_>,
        version: Version,
        is_full: bool,
    ) -> Result<(), Problem> {
        let at = fields.time(version)?;
        let number = fields.u32()?;
        let count = fields.u32()? as usize;
        let ids = fields.take(count.checked_mul(4).ok_or(Problem::Outside)?)?;
        let offsets = fields.take(ids.len())?;
        let mut change = Change {
            at,
            is_full,
            added: Vec::new(),
            removed: Vec::new(),
        };
        // Names do not overlap, so together they are no longer than their table.
        let mut names_left = fields.0.len();
        for (id, offset) in words(ids).zip(words(offsets)) {
            let id = id.cast_signed();
            if offset == REMOVED && !is_full {
                change.removed.push(id);
                continue;
            }
            let name = fields.0.get(offset as usize..).ok_or(Problem::Outside)?;
            let name = until_zero(name.get(..names_left).unwrap_or(name));
            names_left = names_left.saturating_sub(name.len());
            change.added.push(Instance { id, name });
        }
        let domain = self.domains.entry(number).or_default();
        if domain.is_empty() && !is_full {
            return Err(Problem::Delta(number));
        }
        domain.push(change);
        Ok(())
    }

    /// Gives the metrics of one domain their instances, one list for all.
    fn resolve(&mut self) {
        let lists: HashMap<u32, _> = self
            .domains
            .iter()
            .map(|(number, domain)| (*number, domain.all()))
            .collect();
        for metric in &mut self.metrics {
            if let Some(domain) = metric.domain {
                metric.instances = lists.get(&domain).cloned().unwrap_or_default();
            }
        }
        self.metrics.sort_by(|a, b| a.names.cmp(&b.names));
    }
}

fn names(mut fields: Fields<'_>) -> Result<Vec<String>, Problem> {
    let count = fields.u32()? as usize;
    // Each name takes at least its length, so the record bounds the count.
    if count == 0 || count > fields.0.len() / 4 {
        return Err(Problem::Outside);
    }
    (0..count)
        .map(|_| {
            let len = fields.u32()? as usize;
            fields.text(len)
        })
        .collect()
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let (words, _) = bytes.as_chunks();
    words.iter().copied().map(u32::from_be_bytes)
}

const FRAMING: Framing<fn(&[u8]) -> bool> = Framing {
    alignment: 1,
    is_plausible: |body| {
        matches!(
            crate::format::frame::word(body, 0),
            Some(DESCRIPTION..=LABELS)
        )
    },
};

const DESCRIPTION: u32 = 1;
const DOMAIN_V2: u32 = 2;
const LABELS_V2: u32 = 3;
const HELP_TEXT: u32 = 4;
const DOMAIN: u32 = 5;
const DOMAIN_DELTA: u32 = 6;
const LABELS: u32 = 7;

const NO_DOMAIN: u32 = u32::MAX;
const REMOVED: u32 = u32::MAX;
