//! [`Samples`]: the cpusets of containers, read again and again while something else happens.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::{CPUSETS, Machine};
use super::verify::Running;

/// A loop on the machine that reads the cpusets of all containers. It ends with [`Samples::finish`].
pub(super) struct Samples<'a> {
    machine: &'a Machine,
}

impl<'a> Samples<'a> {
    pub(super) fn start(machine: &'a Machine) -> Result<Self, String> {
        machine.write("/run/sample.sh", &format!(
            "while [ -e /run/sampling ]; do {{ {CPUSETS}; }} >>/run/samples; echo round >>/run/samples; sleep 0.3; done"
        ))?;
        machine.run(
            "rm -f /run/samples; touch /run/sampling; setsid sh /run/sample.sh </dev/null >/dev/null 2>&1 &",
        )?;
        Ok(Self { machine })
    }

    /// Ends the loop; checks that each of these containers had one cpuset all the time. The number of samples of all.
    pub(super) fn finish(self, containers: &[Running]) -> Result<usize, String> {
        let text = self
            .machine
            .run("rm -f /run/sampling; sleep 1; cat /run/samples")?;
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for line in text.lines() {
            if let Some((id, cpuset)) = line.split_once(' ') {
                found.entry(id).or_default().insert(cpuset);
                *counts.entry(id).or_default() += 1;
            }
        }
        let mut samples = 0;
        for one in containers {
            let cpusets = found.get(one.id.as_str()).map_or(0, BTreeSet::len);
            if cpusets != 1 {
                return Err(format!(
                    "{one:?}: expected one cpuset all the time, found {:?}",
                    found.get(one.id.as_str())
                ));
            }
            samples += counts.get(one.id.as_str()).copied().unwrap_or(0);
        }
        Ok(samples)
    }
}
