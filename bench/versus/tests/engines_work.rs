//! Engines must do the work that is measured, which is checked at a tiny size.
//! This test checks those of this tree; `versus check` also checks the
//! installed peers.

use std::process::{Command, Output};

#[test]
fn the_engines_of_this_tree_do_the_work() {
    let output = versus(&["check", "--engine", OURS, "--scenario", SCENARIOS]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "an engine failed its checks:\n{text}"
    );
    assert!(
        text.contains(", 0 engines failed, 0 missing"),
        "an engine is missing:\n{text}"
    );
}

#[test]
fn an_unknown_scenario_is_a_clear_error() {
    let output = versus(&["run", "nonsense"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        text.contains("no scenario `nonsense`") && text.contains("timers"),
        "{text}"
    );
}

#[test]
fn a_record_gives_ratios_and_a_page() {
    let folder = std::env::temp_dir().join(format!("versus-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let record = folder.join("record.json");
    let run = |args: &[&str]| {
        let output = versus(args);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let record_path = record.to_str().unwrap();
    run(&[
        "run",
        "timers",
        "--quick",
        "--rounds",
        "1",
        "--engine",
        "busyhour,std-binary-heap",
        "--json",
        record_path,
    ]);
    let ratios = run(&["compare", record_path, "--metric", "cancelled_life_ns"]);
    assert!(
        ratios.contains("std-binary-heap") && ratios.contains('×'),
        "{ratios}"
    );
    run(&["report", record_path, "--out", folder.to_str().unwrap()]);
    let page = std::fs::read_to_string(folder.join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("std-binary-heap"));
    assert!(
        std::fs::read_to_string(folder.join("tables.md"))
            .unwrap()
            .contains("## timers")
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

/// All engines but those that need more than this tree and a compiler; `make peers`
/// checks the others.
const OURS: &str = "busyhour,seed-before,seed-after,std-binary-heap,std-btreemap,machine,increments-only,locks-only,ring-only,slots-only,keys-only,blocks-only,busyhour-calls-only,busyhour-pointers-only";

/// All scenarios but those that measure the server, which would have to be built with all
/// optimizations first.
const SCENARIOS: &str =
    "timers,pool-requeue,pool-external,serializer-pingpong,run-queue,bus-cache,buffers";

/// Runs `versus`, which builds the engines first: soon, since nothing is timed here. A later
/// build for measuring sees that these were built otherwise.
fn versus(args: &[&str]) -> Output {
    let soon_built = [("LTO", "off"), ("OPT_LEVEL", "0"), ("CODEGEN_UNITS", "16")];
    let settings = soon_built.map(|(name, value)| (format!("CARGO_PROFILE_RELEASE_{name}"), value));
    let command = &mut Command::new(env!("CARGO_BIN_EXE_versus"));
    command.args(args).envs(settings).output().unwrap()
}
