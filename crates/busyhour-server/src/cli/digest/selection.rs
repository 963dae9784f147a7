use crate::archive::{Archive, SeriesId};
use globset::{Glob, GlobSet, GlobSetBuilder};

/// Which series are wanted.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    globs: Option<GlobSet>,
}

impl Selection {
    /// All series without a pattern, else those that match any.
    pub(super) fn new(patterns: &[String]) -> Result<Self, String> {
        let mut builder = GlobSetBuilder::new();
        for pattern in patterns {
            let glob = Glob::new(pattern);
            builder.add(glob.map_err(|error| format!("--metrics {pattern}: {}", error.kind()))?);
        }
        let globs = builder.build().map_err(|error| error.to_string())?;
        Ok(Self {
            globs: (!patterns.is_empty()).then_some(globs),
        })
    }

    /// Those of one archive.
    pub(super) fn of(&self, archive: &Archive) -> Vec<SeriesId> {
        let mut series = archive.series();
        if let Some(globs) = &self.globs {
            series.retain(|id| {
                let metric = &archive.metrics()[id.metric];
                let any = metric.names.iter().any(|name| globs.is_match(name));
                any || globs.is_match(series_name(archive, *id))
            });
        }
        series
    }
}

/// The metric's name, with its instance in brackets if it has instances.
pub(super) fn series_name(archive: &Archive, id: SeriesId) -> String {
    let metric = &archive.metrics()[id.metric];
    match metric.domain {
        None => metric.name().to_owned(),
        Some(_) => format!("{}[{}]", metric.name(), metric.instances[id.instance].name),
    }
}
