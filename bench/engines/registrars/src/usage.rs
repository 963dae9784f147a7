//! How much the processes of a server have used, according to `/proc`: the one
//! that was started and all its children.

use std::fs;

#[derive(Debug, Default, Clone, Copy)]
pub struct Usage {
    pub cpu_s: f64,
    pub resident_bytes: u64,
}

impl Usage {
    pub fn of_tree(root: u32) -> Self {
        let all: Vec<(u32, Stat)> = processes()
            .filter_map(|pid| Some((pid, Stat::read(pid)?)))
            .collect();
        let mut tree = vec![root];
        let mut next = 0;
        while let Some(parent) = tree.get(next).copied() {
            tree.extend(
                all.iter()
                    .filter(|(_, stat)| stat.parent == parent)
                    .map(|(pid, _)| *pid),
            );
            next += 1;
        }
        let members = all.iter().filter(|(pid, _)| tree.contains(pid));
        members.fold(Self::default(), |sum, (pid, stat)| Self {
            cpu_s: sum.cpu_s + stat.ticks as f64 / TICKS_PER_S,
            resident_bytes: sum.resident_bytes + proportional_bytes(*pid),
        })
    }
}

struct Stat {
    parent: u32,
    ticks: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the command may contain spaces; the fields after its closing
        // bracket do not.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            parent: number(1)? as u32,
            ticks: number(11)? + number(12)?,
        })
    }
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Memory that processes share is divided among them, so that it counts once.
fn proportional_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

const TICKS_PER_S: f64 = 100.0;
