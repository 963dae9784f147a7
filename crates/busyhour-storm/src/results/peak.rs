//! The highest CPU use of a server during a phase.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use busyhour::clock::{Clock, Instant};

use super::process::Process;

/// Reads the CPU time of a process each second, on a thread of its own.
pub(crate) struct PeakMeter {
    stop: Sender<()>,
    thread: JoinHandle<Peak>,
}

impl PeakMeter {
    pub fn start(process: Process, clock: &Clock) -> Self {
        let (stop, stopped) = mpsc::channel();
        let (clock, mut peak) = (clock.clone(), Peak::default());
        let read = move |peak: &mut Peak, is_last| {
            if let Some(usage) = process.usage() {
                peak.add(usage.cpu, clock.now(), is_last);
            }
        };
        read(&mut peak, false);
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                read(&mut peak, false);
            }
            read(&mut peak, true);
            peak
        });
        Self { stop, thread }
    }

    /// The highest use in percent of a core; `None` if the process could not be
    /// read twice.
    pub fn end(self) -> Option<f64> {
        drop(self.stop);
        self.thread.join().ok()?.percent
    }
}

/// The highest use between two readings that followed each other.
#[derive(Debug, Default)]
struct Peak {
    last: Option<(Duration, Instant)>,
    percent: Option<f64>,
}

impl Peak {
    /// Adds a reading. The last one follows soon after the one before, which
    /// says little: it counts only if there is no other.
    fn add(&mut self, cpu: Duration, at: Instant, is_last: bool) {
        let Some((cpu_before, since)) = self.last.replace((cpu, at)) else {
            return;
        };
        let elapsed = at - since;
        let counts = !elapsed.is_zero() && (!is_last || self.percent.is_none());
        if counts {
            let used = cpu.saturating_sub(cpu_before).as_secs_f64();
            let percent = 100.0 * used / elapsed.as_secs_f64();
            self.percent = Some(self.percent.unwrap_or_default().max(percent));
        }
    }
}

const STEP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn peak_of(readings: &[(u64, u64)]) -> Option<f64> {
        let (mut peak, last) = (Peak::default(), readings.len() - 1);
        for (index, (cpu_ms, at_ms)) in readings.iter().enumerate() {
            let at = Instant::ZERO + Duration::from_millis(*at_ms);
            peak.add(Duration::from_millis(*cpu_ms), at, index == last);
        }
        peak.percent
    }

    #[test]
    fn the_busiest_second_decides() {
        let readings = [
            (0, 0),
            (100, 1_000),
            (1_500, 2_000),
            (1_600, 3_000),
            (1_600, 3_001),
        ];
        assert_eq!(peak_of(&readings), Some(140.0));
    }

    #[test]
    fn the_last_part_of_a_second_counts_only_if_there_is_no_other() {
        assert_eq!(peak_of(&[(0, 0), (100, 1_000), (150, 1_010)]), Some(10.0));
        assert_eq!(peak_of(&[(0, 0), (50, 100)]), Some(50.0));
        assert_eq!(peak_of(&[(0, 0), (0, 0)]), None);
        assert_eq!(peak_of(&[(7, 0)]), None);
    }

    #[test]
    fn this_process_is_measured_and_a_missing_one_is_not() {
        let (clock, here) = (Clock::machine(), Process::new(std::process::id()));
        let used = || here.usage().map_or(Duration::ZERO, |usage| usage.cpu);
        let before = used();
        let meter = PeakMeter::start(here, &clock);
        while used() < before + Duration::from_millis(30) {}
        assert!(meter.end().is_some_and(|percent| percent > 0.0));
        let missing = PeakMeter::start(Process::new(u32::MAX), &clock);
        assert_eq!(missing.end(), None);
    }
}
