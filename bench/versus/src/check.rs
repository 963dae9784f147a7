//! What a run must have done to count, so that no engine wins by not working.
//!
//! The harness computes what it expects from the inputs that the engines
//! generate (PROTOCOL.md defines the generator).

use serde_json::{Map, Value};

use crate::{input::Input, params::Params};

/// The conditions on the `checks` object of one run.
#[derive(Debug, Default)]
pub struct Expect {
    exact: Vec<(&'static str, u64)>,
    /// Conditions for engines with the full contract only (exact order).
    exact_if_full: Vec<(&'static str, u64)>,
    positive: Vec<&'static str>,
    equal: Vec<(&'static str, &'static str)>,
    /// Values that all engines must agree on, within a billionth.
    pub agree: Vec<&'static str>,
}

impl Expect {
    /// The first violated condition, as text.
    pub fn violation(&self, checks: &Map<String, Value>, full_contract: bool) -> Option<String> {
        let strict = self.exact_if_full.iter().filter(|_| full_contract);
        let wrong = self.exact.iter().chain(strict).find_map(|(name, wanted)| {
            let got = number(checks, name);
            (got != Some(*wanted)).then(|| format!("{name} is {}, not {wanted}", shown(got)))
        });
        wrong
            .or_else(|| self.idle(checks))
            .or_else(|| self.unequal(checks))
    }

    fn idle(&self, checks: &Map<String, Value>) -> Option<String> {
        let idle = self
            .positive
            .iter()
            .find(|name| number(checks, name).is_none_or(|n| n == 0));
        idle.map(|name| format!("{name} is not above zero: no work was done"))
    }

    fn unequal(&self, checks: &Map<String, Value>) -> Option<String> {
        let differs = |pair: &&(&str, &str)| number(checks, pair.0) != number(checks, pair.1);
        let (a, b) = self.equal.iter().find(differs)?;
        let (left, right) = (shown(number(checks, a)), shown(number(checks, b)));
        Some(format!("{a} is {left} but {b} is {right}"))
    }

    pub fn random_access(params: &Params) -> Self {
        Self {
            exact: vec![("loads", params.number("loads"))],
            ..Self::default()
        }
    }

    pub fn hand_over(params: &Params) -> Self {
        Self {
            exact: vec![("turns", params.number("turns"))],
            ..Self::default()
        }
    }

    pub fn only_compute(params: &Params) -> Self {
        Self {
            exact: vec![("steps", params.number("steps"))],
            ..Self::default()
        }
    }

    pub fn timers(params: &Params) -> Self {
        let n = params.number("n");
        let input = Input::timers(params.number("seed"), n);
        Self {
            exact: vec![
                ("cancelled", n),
                ("expired", n),
                ("remaining", 0),
                ("deadline_sum", input.deadline_sum()),
            ],
            exact_if_full: vec![("order_hash", input.expiry_order_hash())],
            ..Self::default()
        }
    }

    pub fn timers_shared(params: &Params) -> Self {
        let total = params.number("n") * params.number("threads");
        Self {
            exact: vec![("added", total), ("cancelled", total), ("remaining", 0)],
            ..Self::default()
        }
    }

    pub fn requeue(_: &Params) -> Self {
        Self {
            positive: vec!["counter"],
            equal: vec![("counter", "tasks")],
            ..Self::default()
        }
    }

    pub fn external(params: &Params) -> Self {
        Self {
            exact: vec![("counter", params.number("n"))],
            ..Self::default()
        }
    }

    pub fn pingpong(_: &Params) -> Self {
        Self {
            exact: vec![("overlaps", 0)],
            positive: vec!["counter"],
            equal: vec![("counter", "tasks")],
            ..Self::default()
        }
    }

    pub fn run_queue(_: &Params) -> Self {
        Self {
            exact: vec![("zero_work", 0)],
            positive: vec!["switches"],
            ..Self::default()
        }
    }

    pub fn bus(params: &Params) -> Self {
        let updates = params.number("updates");
        let cache_sum =
            Input::last_value_sum(params.number("seed"), params.number("keys"), updates);
        Self {
            exact: vec![
                ("received", updates),
                ("received_sum", updates * (updates + 1) / 2),
                ("cache_sum", cache_sum),
            ],
            ..Self::default()
        }
    }

    pub fn lookup(_: &Params) -> Self {
        Self {
            exact: vec![("misses", 0)],
            positive: vec!["lookups"],
            ..Self::default()
        }
    }

    pub fn fanout(params: &Params) -> Self {
        Self {
            exact: vec![("matched", params.number("updates")), ("others", 0)],
            ..Self::default()
        }
    }

    pub fn buffers(params: &Params) -> Self {
        let pairs = params.number("pairs") * params.number("threads");
        Self {
            exact: vec![
                ("pairs", pairs),
                ("failures", 0),
                ("live_after", params.number("live")),
            ],
            ..Self::default()
        }
    }

    pub fn digest(params: &Params) -> Self {
        Self {
            exact: vec![("metrics", params.number("metrics"))],
            positive: vec!["values"],
            agree: vec!["values", "sum"],
            ..Self::default()
        }
    }

    pub fn digest_folder(params: &Params) -> Self {
        Self {
            exact: vec![("archives", params.number("archives"))],
            positive: vec!["values"],
            agree: vec!["values", "sum"],
            ..Self::default()
        }
    }

    /// What was acknowledged is there when the log is opened again, and nothing else, since nothing was under way.
    pub fn durable_log(_: &Params) -> Self {
        Self {
            positive: vec!["acknowledged"],
            equal: vec![("seen", "acknowledged")],
            ..Self::default()
        }
    }

    pub fn storm_watchers(params: &Params) -> Self {
        let watchers = params.number("watchers");
        Self {
            exact: vec![
                ("failed", 0),
                ("wrong", 0),
                ("watchers", watchers),
                ("sent", params.number("devices")),
                ("notified", watchers),
            ],
            equal: vec![("acknowledged", "sent")],
            ..Self::default()
        }
    }

    /// Every call goes as planned on both sides. With the full contract every lamp is right
    /// at the end, so that no device waits for its lamp before it is called again.
    pub fn calls(params: &Params) -> Self {
        let offered = params.get("offered");
        let calls = offered.map(|offered| ("calls", offered * params.number("seconds")));
        let lamps = [("lamps_wrong", 0), ("lamps_stale", 0)];
        Self {
            exact: vec![("failed", 0), ("unexpected", 0)],
            exact_if_full: lamps.into_iter().chain(calls).collect(),
            positive: vec!["answered"],
            equal: vec![("answered", "calls")],
            ..Self::default()
        }
    }

    /// Not all registrations succeed, but the load must have been as planned.
    pub fn storm_overload(_: &Params) -> Self {
        Self {
            exact: vec![("held", 1)],
            positive: vec!["acknowledged"],
            ..Self::default()
        }
    }

    pub fn storm(_: &Params) -> Self {
        Self {
            exact: vec![("failed", 0)],
            positive: vec!["acknowledged"],
            equal: vec![("acknowledged", "sent")],
            ..Self::default()
        }
    }
}

fn number(checks: &Map<String, Value>, name: &str) -> Option<u64> {
    checks.get(name).and_then(Value::as_u64)
}

fn shown(value: Option<u64>) -> String {
    value.map_or_else(|| "absent".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_engine_that_did_nothing_is_detected() {
        let expect = Expect::requeue(&Params::default());
        let violation = expect.violation(&checks(r#"{"counter":0,"tasks":0}"#), true);
        assert!(violation.unwrap().contains("no work"));
    }

    #[test]
    fn an_engine_that_lost_tasks_is_detected() {
        let expect = Expect::requeue(&Params::default());
        let violation = expect.violation(&checks(r#"{"counter":9,"tasks":10}"#), true);
        assert_eq!(violation.unwrap(), "counter is 9 but tasks is 10");
    }

    #[test]
    fn a_log_that_forgets_a_record_is_detected() {
        let expect = Expect::durable_log(&Params::default());
        let violation = expect.violation(&checks(r#"{"acknowledged":10,"seen":9}"#), true);
        assert_eq!(violation.unwrap(), "seen is 9 but acknowledged is 10");
    }

    #[test]
    fn only_the_full_contract_requires_the_order() {
        let params = Params::default().with("n", 3).with("seed", 1);
        let sum = Input::timers(1, 3).deadline_sum();
        let text = format!(
            r#"{{"cancelled":3,"expired":3,"remaining":0,"deadline_sum":{sum},"order_hash":1}}"#
        );
        let expect = Expect::timers(&params);
        assert!(expect.violation(&checks(&text), false).is_none());
        assert!(
            expect
                .violation(&checks(&text), true)
                .unwrap()
                .starts_with("order_hash")
        );
    }
}
