//! The engines, and which of them are ready to run.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};

use crate::{engine::Engine, scenario};

/// An engine, and the reason if it is missing.
pub type Ready = (Engine, Option<String>);

/// Prints scenarios, metrics and engines.
pub fn list() -> Result<()> {
    let engines = Engine::load_all(&engines_folder())?;
    for part in scenario::all() {
        let work = if part.work == part.name {
            String::new()
        } else {
            format!(" ({})", part.work)
        };
        println!("{}{work}: {}", part.name, part.about);
        let metrics = part.metrics.iter();
        let metrics: Vec<_> = metrics
            .map(|metric| format!("{} [{}]", metric.name, metric.unit))
            .collect();
        println!("  metrics: {}", metrics.join(", "));
        for engine in &engines {
            list_engine(engine, part.work);
        }
    }
    Ok(())
}

fn list_engine(engine: &Engine, work: &str) {
    let Some(support) = engine.support(work) else {
        return;
    };
    let partial = if support.lacks.is_empty() {
        String::new()
    } else {
        format!(" (partial: lacks {})", support.lacks)
    };
    println!("  {:<24} {}{partial}", engine.name, engine.about());
}

/// Builds the engines with these names, or all, and prints the result of each; the
/// missing ones are last.
pub fn build(names: &[String]) -> Result<()> {
    refuse_unknown(names)?;
    let ready = ready(|engine| names.is_empty() || names.contains(&engine.name))?;
    for (engine, _) in ready.iter().filter(|(_, missing)| missing.is_none()) {
        println!("{:<24} built", engine.name);
    }
    for (engine, missing) in &ready {
        if let Some(reason) = missing {
            println!("{:<24} MISSING: {reason}", engine.name);
        }
    }
    Ok(())
}

/// The names of the engines that are Busyhour itself, by their declarations.
pub fn own_names() -> Result<BTreeSet<String>> {
    let engines = Engine::load_all(&engines_folder())?;
    let own = engines.into_iter().filter(Engine::is_busyhour);
    Ok(own.map(|engine| engine.name).collect())
}

/// The engines for a part of a scenario, built: all of them, or only those
/// named.
pub fn ready_for(work: &str, names: &[String]) -> Result<Vec<Ready>> {
    refuse_unknown(names)?;
    ready(|engine| {
        engine.support(work).is_some() && (names.is_empty() || names.contains(&engine.name))
    })
}

fn refuse_unknown(names: &[String]) -> Result<()> {
    let known = Engine::load_all(&engines_folder())?;
    let is_unknown = |name: &&String| known.iter().all(|engine| engine.name != **name);
    if let Some(unknown) = names.iter().find(is_unknown) {
        bail!("no engine `{unknown}`; `versus list` names them");
    }
    Ok(())
}

/// The wanted engines, built; those that are missing have the reason.
fn ready(wanted: impl Fn(&Engine) -> bool) -> Result<Vec<Ready>> {
    let mut built: HashMap<PathBuf, Option<String>> = HashMap::new();
    let engines = Engine::load_all(&engines_folder())?;
    let ready = engines.into_iter().filter(wanted).map(|engine| {
        let missing = engine.lacks().or_else(|| {
            let folder = built.entry(engine.folder.clone());
            folder.or_insert_with(|| build_one(&engine)).clone()
        });
        (engine, missing)
    });
    Ok(ready.collect())
}

fn build_one(engine: &Engine) -> Option<String> {
    eprintln!("building {}", engine.name);
    engine.build().err().map(|error| format!("{error:#}"))
}

/// The folder of this workspace.
pub fn bench_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(PathBuf::new, Path::to_path_buf)
}

pub fn engines_folder() -> PathBuf {
    bench_folder().join("engines")
}
