//! What Graphite's documentation says about each function and format, checked
//! with recorded values.

#[path = "../../../../fuzz/any_bytes.rs"]
mod any_bytes;
mod properties;

use busyhour_graphite::{Error, Graphite, Limit, Limits, Parameters, Points, Recorded, TimeLimit};
use serde_json::{Value, json};
use std::sync::Arc;

/// Later than every recorded value.
const NOW: i64 = 1_000_000;

fn recorded() -> Recorded {
    let points = |values: &[f64]| {
        let values: Vec<_> = values
            .iter()
            .map(|value| value.is_finite().then_some(*value))
            .collect();
        Points::new(600, 60, values)
    };
    const GAP: f64 = f64::NAN;
    Recorded::new([
        ("web.1.hits", points(&[0.0, 60.0, 180.0, 240.0, 30.0, 90.0])),
        ("web.2.hits", points(&[1.0, 2.0, 3.0, GAP, GAP, 6.0])),
        ("web.10.hits", points(&[GAP, 4.0, 4.0, 4.0, 4.0, 4.0])),
        ("web.1.errors", points(&[0.0, 6.0, 18.0, 24.0, 3.0, 9.0])),
        ("web.2.errors", points(&[1.0, 1.0, 1.0, 1.0, 1.0, 0.0])),
        (
            "db.load",
            Points::new(600, 120, [Some(10.0), Some(20.0), None]),
        ),
    ])
}

fn graphite(limits: Limits) -> Graphite {
    Graphite::new(vec![Arc::new(recorded())], limits)
}

fn ask(query: &str) -> Result<String, Error> {
    let parameters = Parameters::parse(query, b"");
    let answer = graphite(Limits::default()).render(&parameters, NOW, &TimeLimit::none())?;
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}

/// The names and values of the series; missing values are null.
fn series(target: &str) -> Vec<(String, Value)> {
    let query: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("target", target)
        .append_pair("from", "540")
        .append_pair("until", "900")
        .append_pair("format", "json")
        .finish();
    let found: Vec<Value> = serde_json::from_str(&ask(&query).unwrap()).unwrap();
    let shown = |series: &Value| {
        let points = series["datapoints"].as_array().unwrap().iter();
        let values: Value = points.map(|point| point[0].clone()).collect();
        (series["target"].as_str().unwrap().to_owned(), values)
    };
    found.iter().map(shown).collect()
}

fn one(target: &str) -> (String, Value) {
    let mut found = series(target);
    assert_eq!(found.len(), 1, "{target}: {found:?}");
    found.remove(0)
}

fn names(target: &str) -> Vec<String> {
    series(target).into_iter().map(|(name, _)| name).collect()
}

fn refusal(target: &str) -> String {
    let query = format!("target={target}&from=540&until=900&format=json");
    ask(&query).unwrap_err().to_string()
}

#[test]
fn combined_series_ignore_missing_values() {
    let sum = one("sum(web.*.hits)");
    assert_eq!(
        sum,
        (
            "sumSeries(web.*.hits)".into(),
            json!([1.0, 66.0, 187.0, 244.0, 34.0, 100.0])
        )
    );
    let (name, values) = one("avg(web.1.hits,web.2.hits)");
    assert_eq!(name, "averageSeries(web.1.hits,web.2.hits)");
    assert_eq!(values, json!([0.5, 31.0, 91.5, 240.0, 30.0, 48.0]));
    assert_eq!(
        one("minSeries(web.*.hits)").1,
        json!([0.0, 2.0, 3.0, 4.0, 4.0, 4.0])
    );
    assert_eq!(
        one("max(web.*.hits)").1,
        json!([1.0, 60.0, 180.0, 240.0, 30.0, 90.0])
    );
    assert_eq!(one("diffSeries(web.1.hits,web.2.hits)").1[2], json!(177.0));
    assert_eq!(
        one("aggregate(web.*.hits,'count')").0,
        "countSeries(web.*.hits)"
    );
    assert!(series("sum(none.*)").is_empty());
}

#[test]
fn series_of_different_steps_get_a_common_one() {
    let (_, values) = one("sumSeries(web.1.errors,db.load)");
    assert_eq!(values, json!([13.0, 41.0, 6.0]));
}

#[test]
fn transformations_apply_to_each_value() {
    assert_eq!(
        one("scale(web.2.hits,0.5)"),
        (
            "scale(web.2.hits,0.5)".into(),
            json!([0.5, 1.0, 1.5, null, null, 3.0])
        )
    );
    let (name, values) = one("derivative(web.1.hits)");
    assert_eq!(name, "derivative(web.1.hits)");
    assert_eq!(values, json!([null, 60.0, 120.0, 60.0, -210.0, 60.0]));
    assert_eq!(
        one("nonNegativeDerivative(web.1.hits)").1,
        json!([null, 60.0, 120.0, 60.0, null, 60.0])
    );
    assert_eq!(
        one("nonNegativeDerivative(web.1.hits,255)").1[4],
        json!(46.0)
    );
    assert_eq!(
        one("nonNegativeDerivative(web.1.hits,minValue=0)").1[4],
        json!(30.0)
    );
    assert_eq!(
        one("perSecond(web.1.hits)").1,
        json!([null, 1.0, 2.0, 1.0, null, 1.0])
    );
    assert_eq!(
        one("derivative(web.2.hits)").1,
        json!([null, 1.0, 1.0, null, null, null])
    );
    assert_eq!(
        one("integral(web.2.hits)").1,
        json!([1.0, 3.0, 6.0, null, null, 12.0])
    );
    assert_eq!(one("absolute(scale(web.2.errors,-1))").1[0], json!(1.0));
    assert_eq!(one("offset(web.2.errors,-1)").0, "offset(web.2.errors,-1)");
    assert_eq!(one("transformNull(web.2.hits,-1)").1[3], json!(-1.0));
}

#[test]
fn gaps_are_filled_up_to_their_limit() {
    assert_eq!(
        one("keepLastValue(web.2.hits)").1,
        json!([1.0, 2.0, 3.0, 3.0, 3.0, 6.0])
    );
    assert_eq!(
        one("keepLastValue(web.2.hits,1)").1,
        json!([1.0, 2.0, 3.0, null, null, 6.0])
    );
    assert_eq!(one("keepLastValue(web.2.hits,inf)").1[4], json!(3.0));
    assert_eq!(one("keepLastValue(web.10.hits)").1[0], Value::Null);
}

#[test]
fn a_moving_window_uses_earlier_values() {
    let (name, values) = one("movingAverage(web.1.errors,2)");
    assert_eq!(name, "movingAverage(web.1.errors,2)");
    // The window before the first points is fetched, too; here it is empty.
    assert_eq!(values, json!([null, 0.0, 3.0, 12.0, 21.0, 13.5]));
    let (name, values) = one("movingAverage(web.1.errors,'2min')");
    assert_eq!(name, "movingAverage(web.1.errors,\"2min\")");
    assert_eq!(values[5], json!(13.5));
    assert_eq!(one("movingMax(web.1.errors,3)").1[5], json!(24.0));
    assert_eq!(one("movingMedian(web.1.errors,3)").1[5], json!(18.0));
    assert_eq!(
        one("movingAverage(web.2.hits,2,1)").1,
        json!([null, null, 1.5, 2.5, null, null])
    );
}

#[test]
fn summaries_align_with_the_clock_or_with_the_request() {
    let (name, values) = one("summarize(web.1.errors,'3min')");
    assert_eq!(name, "summarize(web.1.errors, \"3min\", \"sum\")");
    // The boundaries 540, 720 and 900, and a bucket that begins where the
    // series ends.
    assert_eq!(values, json!([6.0, 45.0, 9.0]));
    let (name, values) = one("summarize(web.1.errors,'2min','max',true)");
    assert_eq!(name, "summarize(web.1.errors, \"2min\", \"max\", true)");
    assert_eq!(values, json!([6.0, 24.0, 9.0]));
}

#[test]
fn a_shift_shows_earlier_values_at_the_present_time() {
    let (name, values) = one("timeShift(web.1.errors,'1min')");
    assert_eq!(name, "timeShift(web.1.errors, \"-1min\")");
    assert_eq!(values, json!([null, 0.0, 6.0, 18.0, 24.0, 3.0]));
    assert_eq!(one("timeShift(web.1.errors,'+1min')").1[0], json!(6.0));
}

#[test]
fn percentages() {
    let all = series("asPercent(web.1.errors,web.1.hits)");
    assert_eq!(
        all[0],
        (
            "asPercent(web.1.errors,web.1.hits)".into(),
            json!([null, 10.0, 10.0, 10.0, 10.0, 10.0])
        )
    );
    assert_eq!(
        one("asPercent(web.1.hits,1500)").0,
        "asPercent(web.1.hits,1500)"
    );
    assert_eq!(one("asPercent(web.1.hits,120)").1[1], json!(50.0));
    let parts = series("asPercent(web.{1,2}.errors)");
    assert_eq!(
        parts[0].0,
        "asPercent(web.1.errors,sumSeries(web.{1,2}.errors))"
    );
    assert_eq!(parts[0].1[3], json!(96.0));
    let matched = names("asPercent(web.*.errors,web.*.hits,1)");
    assert_eq!(
        matched,
        [
            "asPercent(web.1.errors,web.1.hits)",
            "asPercent(web.2.errors,web.2.hits)",
            "asPercent(MISSING,web.10.hits)"
        ]
    );
    let of_groups = names("asPercent(web.*.*,None,1)");
    assert_eq!(of_groups[0], "asPercent(web.1.errors,sumSeries(web.*.*))");
    assert!(
        refusal("asPercent(web.*.hits,web.*.errors)")
            .starts_with("asPercent: total stands for 2 series")
    );
}

#[test]
fn names_are_built_from_nodes_of_the_path() {
    assert_eq!(names("aliasByNode(web.*.hits,1)"), ["1", "10", "2"]);
    assert_eq!(names("aliasByNode(scale(web.1.hits,2),0,-1)"), ["web.hits"]);
    assert_eq!(names("alias(web.1.hits,'one')"), ["one"]);
    assert_eq!(names("aliasByMetric(web.1.*)"), ["errors", "hits"]);
    let groups = series("groupByNode(web.*.*,2,'sum')");
    assert_eq!(
        groups[0],
        ("errors".into(), json!([1.0, 7.0, 19.0, 25.0, 4.0, 9.0]))
    );
    assert_eq!(groups[1].0, "hits");
    assert_eq!(
        names("groupByNodes(web.*.*,'sum',0,1)"),
        ["web.1", "web.10", "web.2"]
    );
}

#[test]
fn sorting_and_filtering() {
    assert_eq!(
        names("sortByName(web.*.hits,true)"),
        ["web.1.hits", "web.2.hits", "web.10.hits"]
    );
    assert_eq!(
        names("sortByName(web.*.hits,reverse=true)"),
        ["web.2.hits", "web.10.hits", "web.1.hits"]
    );
    assert_eq!(
        names("sortByTotal(web.*.hits)"),
        ["web.1.hits", "web.10.hits", "web.2.hits"]
    );
    assert_eq!(
        names("sortByMaxima(web.*.hits)"),
        ["web.1.hits", "web.2.hits", "web.10.hits"]
    );
    assert_eq!(
        names("sortByMinima(web.*.hits)"),
        ["web.1.hits", "web.2.hits", "web.10.hits"]
    );
    assert_eq!(
        names("sortBy(web.*.hits,'last',true)"),
        ["web.1.hits", "web.2.hits", "web.10.hits"]
    );
    assert_eq!(names("limit(sortByName(web.*.hits),1)"), ["web.1.hits"]);
    assert_eq!(
        names("web.*.hits|sortByName()|limit(2)"),
        ["web.1.hits", "web.10.hits"]
    );
    assert_eq!(names("highestCurrent(web.*.hits,1)"), ["web.1.hits"]);
    assert!(names("removeEmptySeries(scale(nothing.here,1))").is_empty());
}

#[test]
fn more_values_than_requested_are_consolidated() {
    let query = "target=web.1.errors&from=540&until=900&format=json&maxDataPoints=";
    let all: Value = serde_json::from_str(&ask(&format!("{query}6")).unwrap()).unwrap();
    assert_eq!(all[0]["datapoints"].as_array().unwrap().len(), 6);
    let few: Value = serde_json::from_str(&ask(&format!("{query}3")).unwrap()).unwrap();
    assert_eq!(
        few[0]["datapoints"],
        json!([[12.0, 720], [13.5, 840], [9.0, 960]])
    );
    let one: Value = serde_json::from_str(&ask(&format!("{query}1")).unwrap()).unwrap();
    assert_eq!(one[0]["datapoints"], json!([[10.0, 600]]));
    let by =
        "target=consolidateBy(web.1.errors,'max')&from=540&until=900&format=json&maxDataPoints=1";
    let most: Value = serde_json::from_str(&ask(by).unwrap()).unwrap();
    assert_eq!(most[0]["datapoints"], json!([[24.0, 600]]));
}

#[test]
fn every_format_is_written_as_documented() {
    let query = "target=web.2.hits&from=540&until=900&format=";
    assert_eq!(
        ask(&format!("{query}raw")).unwrap(),
        "web.2.hits,600,960,60|1.0,2.0,3.0,None,None,6.0\n"
    );
    assert!(
        ask(&format!("{query}csv"))
            .unwrap()
            .starts_with("web.2.hits,1970-01-01 00:10:00,1.0\r\n")
    );
    assert!(ask(&format!("{query}svg")).unwrap().contains("<svg"));
    assert!(ask(query).unwrap().contains("PNG"));
    let compact = ask(&format!("{query}json&noNullPoints=1")).unwrap();
    let compact: Value = serde_json::from_str(&compact).unwrap();
    assert_eq!(compact[0]["datapoints"].as_array().unwrap().len(), 4);
    assert!(
        ask(&format!("{query}pdf"))
            .unwrap_err()
            .to_string()
            .contains("one of: json")
    );
}

#[test]
fn errors_say_what_where_and_what_to_do() {
    for (target, message) in [
        (
            "scal(web.1.hits,2)",
            "there is no function `scal` (did you mean scale?)",
        ),
        ("scale(web.1.hits)", "scale needs the argument factor"),
        (
            "scale(web.1.hits,'x')",
            "scale: factor is a number, found the text 'x'",
        ),
        ("scale(web.1.hits,1,2)", "scale takes 2 arguments, found 3"),
        (
            "scale(web.1.hits,by=2)",
            "scale has no argument `by`; it has seriesList, factor",
        ),
        (
            "scale(5,2)",
            "scale: expected a path or a function, found the number 5",
        ),
        (
            "summarize(web.1.hits,'soon')",
            "summarize: `soon` is no span of time",
        ),
        (
            "sortBy(web.1.hits,'best')",
            "sortBy: there is no aggregation `best`",
        ),
        (
            "movingAverage(web.1.hits,0)",
            "movingAverage: give a count of points from 1",
        ),
        ("web.{1", "web.{1: a { without its }"),
    ] {
        let found = refusal(target);
        assert!(found.starts_with(message), "{found}");
    }
    assert!(
        ask("target=a&from=soon")
            .unwrap_err()
            .to_string()
            .starts_with("from: `soon` is no time")
    );
    assert!(ask("target=a&from=now&until=now").is_err());
    assert!(
        ask("target=a&tz=Mars")
            .unwrap_err()
            .to_string()
            .starts_with("tz: `Mars`")
    );
}

#[test]
fn each_limit_refuses_with_its_name_and_a_count() {
    let query = "target=sum(web.*.hits)&from=540&until=900&format=json";
    let base = Limits::default;
    for (limits, limit) in [
        (
            Limits {
                points_max: 17,
                ..base()
            },
            Limit::Points,
        ),
        (
            Limits {
                series_max: 2,
                ..base()
            },
            Limit::Series,
        ),
        (
            Limits {
                range_seconds_max: 359,
                ..base()
            },
            Limit::Range,
        ),
        (
            Limits {
                memory_bytes_max: 300,
                ..base()
            },
            Limit::Memory,
        ),
        (
            Limits {
                depth_max: 1,
                ..base()
            },
            Limit::Depth,
        ),
    ] {
        let graphite = graphite(limits);
        let parameters = Parameters::parse(query, b"");
        let refusal = graphite
            .render(&parameters, NOW, &TimeLimit::none())
            .unwrap_err();
        assert!(
            matches!(&refusal, Error::TooLarge(found, _) if *found == limit),
            "{refusal}"
        );
        let stats = graphite.stats(Default::default());
        let counts = [
            stats.refused_points,
            stats.refused_series,
            stats.refused_range,
            stats.refused_memory,
            stats.refused_depth,
        ];
        assert_eq!(counts.iter().sum::<u64>(), 1);
        assert_eq!(counts[limit as usize], 1);
    }
    let graphite = graphite(base());
    let refusal = graphite
        .render(
            &Parameters::parse(query, b""),
            NOW,
            &TimeLimit::new(|| true),
        )
        .unwrap_err();
    assert!(matches!(refusal, Error::TooLarge(Limit::Duration, _)));
    assert_eq!(graphite.stats(Default::default()).refused_duration, 1);
}

#[test]
fn hostile_targets_are_refused_before_they_use_resources() {
    for target in [
        "(".repeat(10_000),
        "sum(".repeat(10_000),
        "{a,b}".repeat(1000),
        "web.*|scale(2)".to_owned() + &"|scale(2)".repeat(1000),
        "movingMedian(web.*.hits,999999)".to_owned(),
        "timeShift(web.*.hits,'99999999999999y')".to_owned(),
        "summarize(web.*.hits,'9999999999d')".to_owned(),
        "[".repeat(5000),
    ] {
        let query: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("target", &target)
            .append_pair("from", "540")
            .append_pair("until", "900")
            .append_pair("format", "json")
            .finish();
        // There must be an answer or a refusal, without delay.
        let _ = ask(&query);
    }
    let many = "target=a&".repeat(1000);
    assert!(matches!(ask(&many), Err(Error::TooLarge(..))));
}

#[test]
fn nested_calls_are_bounded() {
    let nested = |call: &str, inner: &str, end: &str| {
        format!("{}{inner}{}", call.repeat(30), end.repeat(30))
    };
    let names = refusal(&nested("asPercent(", "web.*.hits", ")"));
    assert!(names.contains("the name of a series"), "{names}");
    let braces = refusal(&"{x}".repeat(40));
    assert!(braces.contains("40 braces"), "{braces}");
    // Each call evaluates its argument twice, but not if nothing matches.
    assert_eq!(series(&nested("movingAverage(", "nope", ",1)")), []);
}

#[test]
fn the_shared_property_holds_for_any_bytes() {
    any_bytes::hold_for("graphite_target", 2_000, properties::hold);
}
