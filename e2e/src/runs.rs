//! The listing of `pinfold ps`, compared with the kernel's view of the same processes.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::{CpuId, CpuSet};
use serde_json::Value;

use crate::report::equal;
use crate::transcript::Transcript;

/// One run as `pinfold ps -o json` lists it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) pid: u64,
    pub(crate) cpus: CpuSet,
    pub(crate) own: bool,
    /// The list of NUMA nodes, if memory was asked for.
    pub(crate) nodes: Option<String>,
    pub(crate) held_by: String,
    /// The last word of the command: what the scripts call the run.
    pub(crate) name: String,
}

/// The runs of one listing.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) runs: Vec<Listed>,
    pub(crate) shared: CpuSet,
}

impl Listing {
    /// Reads a section of JSON.
    pub(crate) fn read(said: &Transcript, section: &str) -> Result<Self, String> {
        let value = said.json(section)?;
        let runs = value["runs"].as_array().ok_or("no list of runs")?;
        Ok(Self {
            runs: runs.iter().map(listed).collect::<Result<_, _>>()?,
            shared: cpus(&value["occupancy"]["shared"])?,
        })
    }

    /// The run that a script calls so.
    pub(crate) fn run(&self, name: &str) -> Result<&Listed, String> {
        let found = self.runs.iter().find(|run| run.name == name);
        found.ok_or_else(|| format!("run {name} is not listed"))
    }

    /// No CPU belongs to two runs, or to one and to the shared pool.
    pub(crate) fn nothing_twice(&self) -> Result<(), String> {
        let mut taken = self.shared.clone();
        for run in self.runs.iter().filter(|run| run.own) {
            if !run.cpus.is_disjoint(&taken) {
                return Err(format!("CPUs {} of run {} are taken", run.cpus, run.name));
            }
            taken |= &run.cpus;
        }
        Ok(())
    }

    /// No run is left, and every CPU is shared again.
    pub(crate) fn is_empty(&self, all: &CpuSet) -> Result<(), String> {
        if let Some(run) = self.runs.first() {
            return Err(format!("run {} is still listed", run.name));
        }
        equal("shared CPUs", &self.shared, all)
    }
}

fn listed(run: &Value) -> Result<Listed, String> {
    let place = &run["placement"];
    let command = run["command"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(Listed {
        pid: run["process"]["pid"]
            .as_u64()
            .ok_or("a run without a process")?,
        cpus: cpus(&place["cpus"])?,
        own: place["exclusive_cpus"]
            .as_bool()
            .ok_or("a run without exclusive_cpus")?,
        nodes: node_list(&place["nodes"]),
        held_by: text(&run["confinement"]["by"]).unwrap_or_default(),
        name: command.last().and_then(text).unwrap_or_default(),
    })
}

/// Ids as the kernel would list them.
fn node_list(ids: &Value) -> Option<String> {
    let ids = ids.as_array()?.iter().filter_map(Value::as_u64);
    let ids = ids.filter_map(|id| CpuId::new(u32::try_from(id).ok()?));
    Some(ids.collect::<CpuSet>().to_string())
}

fn cpus(value: &Value) -> Result<CpuSet, String> {
    let text = value
        .as_str()
        .ok_or_else(|| format!("no list of CPUs: {value}"))?;
    text.parse().map_err(|error| format!("{text:?}: {error}"))
}

/// The kernel's view of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) pid: u64,
    pub(crate) cpus: String,
    pub(crate) nodes: String,
    /// Bytes that its control group has on each NUMA node, if that is counted.
    pub(crate) bytes: BTreeMap<String, u64>,
    /// Pages of its own memory on each NUMA node.
    pub(crate) pages: BTreeMap<String, u64>,
    /// The exit code, if it never ran.
    pub(crate) code: Option<i64>,
}

impl Seen {
    /// Reads a section that `look` of the scripts wrote.
    pub(crate) fn read(said: &Transcript, section: &str) -> Result<Self, String> {
        let mut seen = Self::default();
        for line in said.section(section)?.lines() {
            let (key, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            match key {
                "pid" => seen.pid = rest.trim().parse().unwrap_or(0),
                "rc" => seen.code = rest.trim().parse().ok(),
                "Cpus_allowed_list:" => rest.trim().clone_into(&mut seen.cpus),
                "Mems_allowed_list:" => rest.trim().clone_into(&mut seen.nodes),
                "anon" | "file" => count(&mut seen.bytes, rest),
                "maps" if !rest.contains("file=") => count(&mut seen.pages, rest),
                _ => {}
            }
        }
        Ok(seen)
    }

    /// The process is exactly where the listing says.
    pub(crate) fn is_where(&self, listed: &Listed, all_nodes: &str) -> Result<(), String> {
        equal("process", self.pid, listed.pid)?;
        equal(
            "Cpus_allowed_list",
            self.cpus.as_str(),
            &listed.cpus.to_string(),
        )?;
        let nodes = match (&listed.nodes, listed.held_by.as_str()) {
            (Some(nodes), "cgroup-v1" | "cgroup-v2") => nodes,
            // A memory policy does not show here.
            _ => all_nodes,
        };
        equal("Mems_allowed_list", self.nodes.as_str(), nodes)
    }

    /// All memory lies on the nodes of the listing, and there is at least `least` of it.
    pub(crate) fn memory_is_where(&self, listed: &Listed, least: u64) -> Result<(), String> {
        let nodes: Vec<u32> = match &listed.nodes {
            Some(list) => {
                let set: CpuSet = list.parse().map_err(|_| format!("no list: {list}"))?;
                set.iter().map(CpuId::get).collect()
            }
            None => return Ok(()),
        };
        let outside = |(node, amount): &(&String, &u64)| {
            let id = node.trim_start_matches('N').parse().ok();
            **amount > 0 && id.is_none_or(|id| !nodes.contains(&id))
        };
        if let Some((node, amount)) = self.bytes.iter().find(outside) {
            return Err(format!(
                "{amount} bytes on {node}, expected only on {nodes:?}"
            ));
        }
        if let Some((node, amount)) = self.pages.iter().find(outside) {
            return Err(format!(
                "{amount} pages on {node}, expected only on {nodes:?}"
            ));
        }
        let found: u64 = self
            .bytes
            .values()
            .sum::<u64>()
            .max(self.pages.values().sum::<u64>() * 4096);
        match found >= least {
            true => Ok(()),
            false => Err(format!("only {found} bytes were found, expected {least}")),
        }
    }
}

/// Adds up words like `N1=4096`.
fn count(into: &mut BTreeMap<String, u64>, text: &str) {
    for word in text.split_ascii_whitespace() {
        if let Some((node, amount)) = word.split_once('=').filter(|(key, _)| is_node(key)) {
            *into.entry(node.to_owned()).or_default() += amount.parse().unwrap_or(0);
        }
    }
}

fn is_node(key: &str) -> bool {
    key.strip_prefix('N')
        .is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}
