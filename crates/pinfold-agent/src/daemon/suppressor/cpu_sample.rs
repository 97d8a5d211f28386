//! [`CpuSample`]: the CPU time that was used until some moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pinfold_cgroup::{CgroupError, GroupPath, Hierarchy, control};
use pinfold_cluster::koordinator::cpu_topology::KoordinatorTopology;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::node_set::NodeId;

/// Microseconds of a unit in `/proc/stat`: the kernel always shows hundredths of a second.
const TICK: u64 = 10_000;

/// The CPU time used, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuSample {
    at: Duration,
    /// By the whole node.
    total: u64,
    /// By each container of a best-effort pod.
    groups: BTreeMap<String, u64>,
    /// On each CPU. Empty if the file cannot be read.
    cpus: BTreeMap<CpuId, u64>,
}

/// The CPUs that were used between two samples, in milli-CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// By everything but best-effort pods.
    pub(super) others: i64,
    /// The same by NUMA node, about: the time of best-effort pods counts as spread over their CPUs.
    pub(super) by_node: BTreeMap<NodeId, i64>,
}

impl CpuSample {
    /// Reads the counters. Containers that have just ended are left out.
    pub(super) fn read(
        hierarchy: &Hierarchy,
        stat: &Path,
        groups: &[String],
        at: Duration,
    ) -> Result<Self, CgroupError> {
        let mut sample = Self {
            at,
            total: hierarchy.cpu_usage(&GroupPath::root())?,
            cpus: control::read(stat).map_or_else(|_| BTreeMap::new(), |text| parse(&text)),
            ..Self::default()
        };
        for group in groups {
            let path = GroupPath::of_container(group);
            let used = path.ok().map(|path| hierarchy.cpu_usage(&path));
            if let Some(Ok(used)) = used {
                sample.groups.insert(group.clone(), used);
            }
        }
        Ok(sample)
    }

    /// The CPUs used since an earlier sample, while best-effort pods had `best_effort`. `None` if no time has passed.
    pub(super) fn since(
        &self,
        earlier: &Self,
        topology: &KoordinatorTopology,
        best_effort: &CpuSet,
    ) -> Option<Usage> {
        let passed = self.at.saturating_sub(earlier.at).as_micros();
        let milli = |used: u64| -> Option<i64> {
            let milli = u128::from(used).saturating_mul(1000).checked_div(passed)?;
            Some(i64::try_from(milli).unwrap_or(i64::MAX))
        };
        let own = self.groups.iter().map(|(group, used)| {
            // One that is new has used all its time since.
            used.saturating_sub(earlier.groups.get(group).copied().unwrap_or(0))
        });
        let own = own.fold(0_u64, u64::saturating_add);
        let total = milli(self.total.saturating_sub(earlier.total))?;
        let own = milli(own)?;
        let mut by_node = BTreeMap::new();
        let counted = self.cpus.keys().copied().collect();
        for (node, cpus) in topology.parts(&counted) {
            let used = cpus.iter().map(|cpu| {
                let since = earlier.cpus.get(&cpu).copied();
                let now = self.cpus.get(&cpu).copied().unwrap_or(0);
                since.map_or(0, |since| now.saturating_sub(since))
            });
            let used = milli(used.fold(0_u64, u64::saturating_add))?;
            let share = i64::try_from(cpus.common_len(best_effort)).unwrap_or(0);
            let all = i64::try_from(best_effort.len()).unwrap_or(i64::MAX).max(1);
            let others = used.saturating_sub(own.saturating_mul(share) / all);
            by_node.insert(node, others.max(0));
        }
        Some(Usage {
            others: total.saturating_sub(own).max(0),
            by_node,
        })
    }
}

/// The time that each CPU was busy, of `/proc/stat`.
fn parse(text: &str) -> BTreeMap<CpuId, u64> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = CpuId::new(words.next()?.parse().ok()?)?;
        // user nice system idle iowait irq softirq steal
        let numbers: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        let busy = numbers.iter().enumerate();
        let busy = busy.filter(|(at, _)| ![3, 4].contains(at));
        let ticks = busy.fold(0_u64, |sum, (_, number)| sum.saturating_add(*number));
        Some((cpu, ticks.saturating_mul(TICK)))
    };
    // The first line is the sum of all CPUs, whose word has no number.
    text.lines()
        .filter(|line| !line.starts_with("cpu "))
        .filter_map(line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_leaves_out_idle_and_waiting_and_the_sum_of_all_cpus() {
        let text =
            "cpu  9 9 9 9 9 9 9 9\ncpu0 100 1 10 500 7 2 3 4 50 6\ncpu1 0 0 0 9\nintr 5\ncpux 1\n";
        let found = parse(text);
        let cpu = |id| CpuId::new(id).expect("small");
        assert_eq!(found, BTreeMap::from([(cpu(0), 1_200_000), (cpu(1), 0)]));
    }
}
