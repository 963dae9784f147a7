//! Seeds that are run, and the smallest run that fails.

use busyhour::runtime::{Counterexample, Trial, explore};
use std::{cell::Cell, time::Duration};

/// Fails if two of the mishaps happen; the third does nothing.
fn fails_by_two(trial: &Trial) -> Result<(), String> {
    let mut found = 0;
    for number in 0..20 {
        let is_included = trial.includes(format!("step {number}"));
        for mishap in ["lost", "doubled", "late"] {
            let happens = trial.happens(format!("{mishap} {number}"), 3);
            found += u32::from(is_included && happens && mishap != "late");
        }
    }
    match found {
        0 | 1 => Ok(()),
        _ => Err(format!("{found} of them")),
    }
}

#[test]
fn a_failing_run_is_made_as_small_as_it_gets() {
    let found = explore(0..10, fails_by_two).unwrap_err();
    assert_eq!(found.message, "2 of them");
    let lines: Vec<&str> = found.timeline.iter().map(|(_, line)| &**line).collect();
    // One step with both mishaps, or two with one each.
    let steps = lines.iter().filter(|line| line.starts_with("step")).count();
    assert!(matches!((steps, lines.len()), (1, 3) | (2, 4)), "{found}");
    assert!(lines.iter().all(|line| !line.starts_with("late")));
    let again = explore([found.seed], fails_by_two);
    assert_eq!(again, Err(found), "the same each time");
}

#[test]
fn seeds_end_with_the_first_that_fails() {
    let seeds = Cell::new(0);
    let outcome = explore(0..100, |trial| {
        seeds.set(seeds.get().max(trial.seed()));
        match trial.seed() {
            7 => Err("seven".to_owned()),
            _ => Ok(()),
        }
    });
    assert_eq!((outcome.unwrap_err().seed, seeds.get()), (7, 7));
    assert_eq!(explore(0..100, |_| Ok(())), Ok(()));
}

#[test]
fn a_panic_is_a_failure_and_the_timeline_has_the_virtual_time() {
    let found: Counterexample = explore([3], |trial| {
        trial.note("begin");
        trial.run_for(Duration::from_secs(60));
        trial.note("an hour later");
        assert!(!trial.happens("rain", 1), "it rains");
        Ok(())
    })
    .unwrap_err();
    assert_eq!(found.message, "it rains");
    let text = found.to_string();
    assert!(text.starts_with("seed 3, without 0 choices: it rains\n"));
    assert!(text.ends_with("\n   60000.000 ms  rain"), "{text}");
}

/// What is chosen does not depend on what else is asked.
#[test]
fn a_choice_depends_on_its_name_and_count_alone() {
    let numbers = |others: u32| {
        let found = explore([5], |trial| {
            (0..others).for_each(|_| _ = trial.number_below("other", 10));
            let numbers = [(); 8].map(|()| trial.number_below("delay", 1_000));
            Err(format!("{numbers:?}"))
        });
        found.unwrap_err()
    };
    // All are left out at last, since the run fails without them.
    assert_eq!(numbers(0).message, format!("{:?}", [0; 8]));
    let first = |others: u32| {
        let seen = Cell::new(None);
        _ = explore([5], |trial| {
            (0..others).for_each(|_| _ = trial.number_below("other", 10));
            let numbers = [(); 8].map(|()| trial.number_below("delay", 1_000));
            seen.set(Some(numbers));
            Ok(())
        });
        seen.get().unwrap()
    };
    assert_eq!(first(0), first(9));
    assert!(first(0).iter().any(|number| *number != first(0)[0]));
    let never = explore([5], |trial| match trial.happens("never", 0) {
        true => Err(String::new()),
        false => Ok(()),
    });
    assert_eq!(never, Ok(()));
}
