//! Values at regular moments, compared with pmFetch(3) in interpolation mode and
//! with `pmrep`.

use super::{open, peer};
use busyhour::clock::UnixTime;
use busyhour_pcp::{Archive, Counters, RenderOptions, Rendering, Semantics, Window};
use peer::Fetched;
use std::{path::Path, time::Duration};
use tempfile::TempDir;

/// A window, in the form that PCP's tools and this crate need.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    pub from_ns: u64,
    pub step_ms: u64,
    pub count: usize,
}

impl Moments {
    fn window(self) -> Window {
        let step = Duration::from_millis(self.step_ms);
        let from = UnixTime::from_nanos(self.from_ns);
        Window::new(from, from + step * (self.count - 1) as u32, step)
    }
}

/// Checks that the values are bit for bit those that libpcp fetches; with
/// `wrap`, those of counters that overflow.
pub fn check_raw(base: &Path, moments: Moments, wrap: bool) {
    let archive = open(base);
    let options = RenderOptions {
        counters: Counters::Raw,
        counter_wrap: wrap,
        ..RenderOptions::default()
    };
    let rendering = render(&archive, moments.window(), options);
    let mut expected = peer::fetch(base, moments.from_ns, moments.step_ms, moments.count, wrap);
    let by_id = |archive: &Archive, index: usize, rendering: &Rendering| {
        let id = rendering.series()[index];
        let metric = &archive.metrics()[id.metric];
        format!("{}[{}]", metric.name(), metric.instances[id.instance].id)
    };
    for index in 0..rendering.series().len() {
        let name = by_id(&archive, index, &rendering);
        if wrap && name.starts_with(peer::SIGNED) {
            continue;
        }
        let ours: Vec<Option<f64>> = rendering.points(index).collect();
        let theirs = expected.remove(&name);
        let theirs = theirs.unwrap_or_else(|| vec![None; moments.count]);
        assert_eq!(ours, theirs, "{name} of {}, {moments:?}", base.display());
    }
    assert!(
        expected.is_empty(),
        "these series were not rendered: {:?}",
        expected.keys()
    );
}

fn render(archive: &Archive, window: Window, options: RenderOptions) -> Rendering {
    let rendering = archive.render(&archive.series(), window, options, None);
    let rendering = rendering.expect("a valid archive");
    assert_eq!(rendering.damage(), None);
    rendering
}

#[test]
fn every_value_is_the_one_that_libpcp_interpolates() {
    let place = TempDir::new().unwrap();
    for (version, seed) in [(2, 1), (3, 2), (3, 3)] {
        let base = place.path().join(format!("seed{seed}"));
        peer::write(&base, version, seed, 100);
        let (start, end) = bounds(&base);
        for (offset_ms, step_ms) in [(0, 60_000), (0, 10_000), (500_123, 7_001)] {
            let from_ns = start + offset_ms * 1_000_000;
            let count = ((end - from_ns) / (step_ms * 1_000_000)) as usize + 3;
            let moments = Moments {
                from_ns,
                step_ms,
                count,
            };
            check_raw(&base, moments, false);
            check_raw(&base, moments, true);
        }
    }
}

fn bounds(base: &Path) -> (u64, u64) {
    let archive = open(base);
    (archive.start().as_nanos(), archive.end().as_nanos())
}

#[test]
fn every_rate_is_the_one_that_pmrep_reports() {
    let place = TempDir::new().unwrap();
    for version in [2, 3] {
        let base = place.path().join(format!("version{version}"));
        peer::write(&base, version, 9, 100);
        let step = Duration::from_secs(20);
        // Every metric whose name begins with `t.`.
        assert_eq!(check_reported(&base, step, &["t"], false), ["t.text"]);
        let wrapping = ["t.u32", "t.i64", "t.u64", "t.f32", "t.f64"];
        assert!(check_reported(&base, step, &wrapping, true).is_empty());
    }
}

/// Compares all series of these metrics over the whole archive, and returns the
/// columns that are not among them.
///
/// With `wrap`, both sides take a counter that falls for one that has
/// overflowed.
pub fn check_reported(base: &Path, step: Duration, metrics: &[&str], wrap: bool) -> Vec<String> {
    let archive = open(base);
    let window = Window::new(archive.start(), archive.end(), step);
    let options = RenderOptions {
        counter_wrap: wrap,
        ..RenderOptions::default()
    };
    let rendering = render(&archive, window, options);
    let mut reported: Fetched = peer::report(base, step, window.count(), metrics, wrap);
    for (index, id) in rendering.series().iter().enumerate() {
        let metric = &archive.metrics()[id.metric];
        let name = match metric.instances[id.instance].name.as_str() {
            "" => metric.name().to_owned(),
            instance => format!("{}-{instance}", metric.name()),
        };
        let Some(theirs) = reported.remove(&name) else {
            let is_asked = metrics.iter().any(|asked| metric.name().starts_with(asked));
            assert!(!is_asked, "no {name}");
            continue;
        };
        // In a gap `pmrep` goes on showing a discrete value, which pmFetch(3)
        // does not return; `check_raw` compares that.
        if metric.semantics != Semantics::Discrete {
            assert_close(&name, rendering.values(index), &theirs);
        }
    }
    reported.into_keys().collect()
}

#[test]
fn every_wrapped_rate_is_the_one_that_pmval_prints() {
    let place = TempDir::new().unwrap();
    let base = place.path().join("archive");
    peer::write(&base, 3, 12, 100);
    let archive = open(&base);
    let step = Duration::from_secs(30);
    let window = Window::new(archive.start(), archive.end(), step);
    let mut falls = 0;
    for name in ["t.u32", "t.i64", "t.u64"].map(|kind| format!("{kind}.counter.one")) {
        let series = archive.find(&name, None).expect("the metric was logged");
        let rates = [false, true].map(|counter_wrap| {
            let options = RenderOptions {
                counter_wrap,
                ..RenderOptions::default()
            };
            let rendering = archive.render(&[series], window, options, None).unwrap();
            // There is no rate at the first moment, and `pmval` prints no line
            // for it.
            let ours: Vec<Option<f64>> = rendering.points(0).skip(1).collect();
            let theirs = peer::values(&base, &name, step, counter_wrap);
            let ours: Vec<f64> = ours.iter().map(|rate| rate.unwrap_or(f64::NAN)).collect();
            assert_close(&name, &ours, &theirs);
            ours.iter().filter(|rate| !rate.is_nan()).count()
        });
        falls += rates[1] - rates[0];
    }
    assert!(falls > 1, "{falls} rates of counters that have overflowed");
}

/// Checks that they are equal to nine decimal places, as many as `pmrep`
/// prints.
fn assert_close(name: &str, ours: &[f64], theirs: &[Option<f64>]) {
    assert_eq!(ours.len(), theirs.len(), "{name}");
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let same = match theirs {
            None => ours.is_nan(),
            Some(theirs) => (ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0),
        };
        assert!(same, "{name} at {index}: {ours} instead of {theirs:?}");
    }
}
