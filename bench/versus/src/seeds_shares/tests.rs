use super::*;
use crate::{
    engine::Contract,
    record::{Status, add_rounds},
    scenario::Better,
};

fn row(scenario: &str, engine: &str, metric: &str, params: Params, rounds: &[f64]) -> Row {
    Row {
        scenario: scenario.to_owned(),
        engine: engine.to_owned(),
        params,
        metric: metric.to_owned(),
        unit: String::new(),
        better: Better::Lower,
        median: median(rounds),
        min: None,
        max: None,
        runs: rounds.len(),
        cpu_s: None,
        peak_kib: None,
        contract: Contract::Full,
        status: Status::Ok,
        reason: String::new(),
        rounds: rounds.to_vec(),
    }
}

fn rate(engine: &str, rounds: &[f64]) -> Row {
    let params = Params::default().with("workers", 50).with("ms", 1_000);
    row("serializer-pingpong", engine, "tasks_per_s", params, rounds)
}

fn digest(engine: &str, threads: u64, metrics: u64, rounds: &[f64]) -> Row {
    let params = Params::default()
        .with("threads", threads)
        .with("metrics", metrics);
    row("digest", engine, "digest_ms", params, rounds)
}

fn folder(engine: &str, threads: u64, rounds: &[f64]) -> Row {
    let params = Params::default()
        .with("threads", threads)
        .with("archives", 200);
    row("digest", engine, "digest_ms", params, rounds)
}

fn compute(threads: u64, rounds: &[f64]) -> Row {
    let params = Params::default().with("threads", threads);
    row("only-compute", "machine", "compute_ms", params, rounds)
}

/// The cells of a line, for a machine with two cores.
fn line(rows: &[Row], table: &str, what: &str) -> Vec<(String, bool)> {
    let mut tables = SHARE_TABLES.iter();
    let table = tables.find(|other| other.title.contains(table)).unwrap();
    let grid = table.grid_on(rows, 2).expect("figures");
    let (_, cells) = grid.lines.into_iter().find(|line| line.0 == what).unwrap();
    let cells = cells.into_iter();
    cells.map(|cell| (cell.text, cell.is_losing)).collect()
}

#[test]
fn the_seeds_own_penalty_comes_out_as_it_says() {
    let rows = [
        rate("seed-before", &[553_033.0]),
        rate("seed-before-unordered", &[760_310.0]),
        rate("seed-after", &[1_633_256.0]),
        rate("seed-after-unordered", &[2_041_833.0]),
        rate("busyhour", &[9e6]),
        rate("busyhour-unordered", &[10e6]),
    ];
    let cells = line(&rows, "ordering", "of the rate, 50 threads");
    assert_eq!(cells[2].0, "27 % (one round)");
    assert_eq!(cells[3].0, "20 % (one round)");
    assert_eq!(cells[4], ("10 % (one round)".to_owned(), false));
    let cells = line(&rows, "ordering", "time of a task, 50 threads");
    assert_eq!(cells[2].0, "493 ns (one round)");
    assert_eq!(cells[3].0, "123 ns (one round)");
    assert_eq!(cells[4], ("11.1 ns (one round)".to_owned(), false));
}

#[test]
fn a_penalty_above_what_is_wanted_is_lost_with_a_place_for_the_reason() {
    let rows = [
        rate("busyhour", &[7e6]),
        rate("busyhour-unordered", &[10e6]),
    ];
    let cells = line(&rows, "ordering", "of the rate, 50 threads");
    assert_eq!(cells[4], ("30 % (one round)".to_owned(), true));
    assert!(cells[8].0.contains("plain push"), "{}", cells[8].0);
}

#[test]
fn an_efficiency_is_of_the_rounds_next_to_each_other() {
    let rows = [
        folder("busyhour", 1, &[100.0, 200.0, 300.0]),
        folder("busyhour", 2, &[50.0, 125.0, 200.0]),
        folder("busyhour", 8, &[50.0, 100.0, 150.0]),
        compute(1, &[100.0, 100.0]),
        compute(2, &[62.5, 62.5]),
        folder("libpcp-together", 1, &[100.0]),
        folder("libpcp-together", 8, &[40.0]),
    ];
    let two = line(&rows, "folder", "2 threads");
    assert_eq!(two[4], ("80 % (75 %–100 %)".to_owned(), true));
    assert_eq!(two[8].0, "open: the ranges overlap");
    assert_eq!((two[5].0.as_str(), two[6].0.as_str()), ("85 %", "100 %"));
    assert_eq!(two[7].0, "80 % (80 %–80 %)");
    // Behind the other structure, though nothing else is wanted.
    let eight = line(&rows, "folder", "8 threads");
    assert_eq!(eight[3].0, "31 % (one round)");
    assert_eq!(eight[4], ("25 % (25 %–25 %)".to_owned(), true));
    assert_eq!(eight[7].0, "left out");
    assert_eq!(eight[8].0, "not found out");
    assert_eq!((eight[5].0.as_str(), eight[6].0.as_str()), ("–", "25 %"));
}

#[test]
fn a_small_job_that_threads_make_slower_is_lost() {
    let at = |ours: f64| {
        let rows = [
            digest("busyhour", 1, 20, &[10.0]),
            digest("busyhour", 8, 20, &[ours]),
            // Figures of another size are not taken for these.
            digest("busyhour", 1, 390, &[1.0]),
            digest("busyhour", 8, 390, &[9.0]),
            digest("libpcp-together", 1, 20, &[10.0]),
            digest("libpcp-together", 8, 20, &[30.0]),
        ];
        line(&rows, "small job", "20 metrics")
    };
    assert_eq!(at(10.4)[4], ("1.04× (one round)".to_owned(), false));
    assert_eq!(at(10.6)[4], ("1.06× (one round)".to_owned(), true));
    assert_eq!(at(10.6)[3].0, "3.00× (one round)");
    assert_eq!(at(10.6)[6].0, "0.50×");
}

#[test]
fn the_share_of_choosing_is_of_the_whole_turn_beside_what_a_ring_takes() {
    let figures = |engine: &str, choosing: f64, turn: f64| {
        let params = Params::default().with("work_us", 10).with("rq", 200);
        let row = |metric: &str, value| row("run-queue", engine, metric, params.clone(), &[value]);
        [row("choosing_ns", choosing), row("turn_ns", turn)]
    };
    let at = |ours: f64| {
        let rows = [
            figures("seed-before", 1000.0, 11_000.0),
            figures("seed-after", 50.0, 10_000.0),
            figures("machine", 5.0, 10_000.0),
            figures(US, ours, 10_200.0),
        ];
        line(&rows.concat(), "choosing", "RQ 200")
    };
    let cells = at(40.0);
    assert_eq!(cells[2].0, "9.09 % (one round)");
    assert_eq!(cells[3].0, "0.50 % (one round)");
    assert_eq!(cells[4], ("0.39 % (one round)".to_owned(), false));
    assert_eq!((cells[5].0.as_str(), cells[7].0.as_str()), ("2.00 %", "–"));
    assert_eq!(cells[6].0, "0.05 % (one round)");
    assert!(at(60.0)[4].1, "behind the new structure");
}

#[test]
fn a_failed_figure_says_why_and_hides_no_table() {
    let mut failed = rate("busyhour-unordered", &[]);
    failed.status = Status::Failed;
    failed.reason = "no room".to_owned();
    let rows = [rate("busyhour", &[7e6]), failed];
    let cells = line(&rows, "ordering", "of the rate, 50 threads");
    assert_eq!(cells[4], ("failed: no room".to_owned(), false));
    assert_eq!(cells[2].0, "left out");
}

#[test]
fn every_line_is_measured_by_engines_and_sizes_that_run() {
    for table in SHARE_TABLES {
        let part = scenario::parts(table.work)[0];
        assert_eq!(part.work, table.work);
        let sizes = table.sizes();
        for line in table.lines {
            for at in [line.at, line.base_at] {
                assert!(sizes.contains(&table.params(line, at)), "{}", line.what);
            }
        }
    }
}

#[test]
fn rounds_of_several_runs_are_one_row() {
    let mut rows = vec![rate("busyhour", &[3.0]), rate("seed-after", &[1.0])];
    add_rounds(&mut rows, vec![rate("busyhour", &[1.0])]);
    add_rounds(&mut rows, vec![rate("busyhour", &[2.0])]);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].rounds, [3.0, 1.0, 2.0]);
    assert_eq!((rows[0].median, rows[0].runs), (Some(2.0), 3));
    assert_eq!((rows[0].min, rows[0].max), (Some(1.0), Some(3.0)));
    let mut failed = rate("busyhour", &[]);
    failed.status = Status::Failed;
    add_rounds(&mut rows, vec![failed]);
    add_rounds(&mut rows, vec![rate("busyhour", &[9.0])]);
    assert_eq!(rows[0].status, Status::Failed);
    assert!(rows[0].rounds.is_empty());
}
