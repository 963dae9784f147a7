//! An engine: one folder below `engines/`, built by its own build file; each
//! measurement is a process of its own.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{params::Params, version};

/// Whether the engine does everything that the scenario asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contract {
    Full,
    Partial,
}

/// One way to run a folder's program; each has its own name in the tables.
#[derive(Debug, Clone)]
pub struct Engine {
    pub name: String,
    pub folder: PathBuf,
    manifest: Manifest,
    variant: Variant,
}

/// The content of `engine.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    /// A description for readers.
    about: String,
    /// Commands that must exist before the build is tried.
    #[serde(default)]
    needs: Vec<String>,
    /// The command that builds the program, run in the folder.
    build: Vec<String>,
    /// The command that runs the program, relative to the folder; scenario and
    /// parameters follow.
    run: Vec<String>,
    /// Crates whose versions count as the peer's, as in the folder's lock file.
    #[serde(default)]
    crates: Vec<String>,
    /// The command that prints the peer's version, if it is no crate.
    #[serde(default)]
    version: Vec<String>,
    engine: Vec<Variant>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    /// Whether this is Busyhour itself, in whatever language it is called: it is no rival.
    #[serde(default)]
    is_busyhour: bool,
    #[serde(default)]
    args: Vec<String>,
    /// The program, if it is not the one of the folder.
    run: Option<Vec<String>>,
    /// Commands that only this name needs.
    #[serde(default)]
    needs: Vec<String>,
    /// The command that prints the version of what only this name measures.
    #[serde(default)]
    version: Vec<String>,
    scenarios: BTreeMap<String, Support>,
}

/// What an engine offers in one scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Support {
    pub contract: Contract,
    /// What is missing, when the contract is partial.
    #[serde(default)]
    pub lacks: String,
    /// The largest values of parameters; above them a run would take minutes, so it
    /// is left out.
    #[serde(default)]
    pub at_most: BTreeMap<String, u64>,
}

impl Engine {
    /// Every engine below `engines`, by folder name.
    pub fn load_all(engines: &Path) -> Result<Vec<Self>> {
        let mut folders: Vec<PathBuf> = fs::read_dir(engines)
            .with_context(|| format!("{}: no engines here", engines.display()))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.join("engine.toml").is_file())
            .collect();
        folders.sort();
        let engines = folders.iter().map(|folder| Self::load(folder));
        Ok(engines
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    fn load(folder: &Path) -> Result<Vec<Self>> {
        let path = folder.join("engine.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let manifest: Manifest =
            toml::from_str(&text).with_context(|| path.display().to_string())?;
        let engine = |variant: &Variant| Self {
            name: variant.name.clone(),
            folder: folder.to_path_buf(),
            manifest: manifest.clone(),
            variant: variant.clone(),
        };
        Ok(manifest.engine.iter().map(engine).collect())
    }

    /// Whether this is Busyhour itself.
    pub fn is_busyhour(&self) -> bool {
        self.variant.is_busyhour
    }

    pub fn about(&self) -> &str {
        &self.manifest.about
    }

    /// What it lacks, for all scenarios together.
    pub fn lacking(&self) -> String {
        let mut lacks: Vec<_> = self
            .variant
            .scenarios
            .values()
            .map(|support| support.lacks.as_str())
            .collect();
        lacks.retain(|lack| !lack.is_empty());
        lacks.sort_unstable();
        lacks.dedup();
        lacks.join("; ")
    }

    pub fn support(&self, scenario: &str) -> Option<&Support> {
        self.variant.scenarios.get(scenario)
    }

    /// Whether a run with these parameters takes part.
    pub fn takes(&self, scenario: &str, params: &Params) -> bool {
        self.support(scenario).is_some_and(|support| {
            let below =
                |(key, most): (&String, &u64)| params.get(key).is_none_or(|value| value <= *most);
            support.at_most.iter().all(below)
        })
    }

    /// The first command that is not on this machine, which is why the engine is missing.
    pub fn lacks(&self) -> Option<String> {
        let mut needs = self.manifest.needs.iter().chain(&self.variant.needs);
        let command = needs.find(|command| !is_on_path(command))?;
        Some(format!(
            "`{command}` is not installed (make peers installs what Debian has)"
        ))
    }

    /// The version of what is measured, if it is another one's.
    pub fn version(&self) -> String {
        let crates = self.manifest.crates.iter();
        let mut versions: Vec<String> = crates
            .filter_map(|name| version::of_crate(&self.folder, name))
            .collect();
        versions.extend(version::of_command(&self.manifest.version));
        versions.extend(version::of_command(&self.variant.version));
        versions.join(", ")
    }

    /// Builds the folder's program; the error says why the engine is missing.
    pub fn build(&self) -> Result<()> {
        let Some((program, args)) = self.manifest.build.split_first() else {
            return Ok(());
        };
        let output = Command::new(program)
            .args(args)
            .current_dir(&self.folder)
            // The program is expected in the folder's own target folder.
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("`{program}` cannot be started"))?;
        if !output.status.success() {
            bail!("build failed: {}", last_line(&output.stderr));
        }
        Ok(())
    }

    /// The command for one measurement.
    pub fn command(&self, scenario: &str, params: &Params) -> Result<Command> {
        let run = self.variant.run.as_ref().unwrap_or(&self.manifest.run);
        let (program, args) = run.split_first().context("engine.toml: `run` is empty")?;
        let local = self.folder.join(program);
        let mut command = Command::new(if local.is_file() {
            local
        } else {
            PathBuf::from(program)
        });
        command
            .args(args)
            .args(&self.variant.args)
            .arg(scenario)
            .args(params.to_args());
        command
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }
}

fn is_on_path(command: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else {
        return false;
    };
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.unwrap_or("no message").to_owned()
}
