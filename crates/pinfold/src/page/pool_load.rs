//! [`PoolLoad`]: how busy the CPUs of the shared pool are, from `/proc/stat` and `/proc/pressure/cpu`.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use pinfold_core::cpu_set::{CpuId, CpuSet};
use serde::Serialize;

/// The shortest time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Measures how busy the shared pool is.
#[derive(Debug, Default)]
pub(super) struct PoolLoad {
    pool: CpuSet,
    sample: Option<(Instant, BTreeMap<u32, CpuTime>)>,
    measured: Option<MeasuredLoad>,
}

/// The time that a CPU was busy and its whole time, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTime {
    busy: u64,
    whole: u64,
}

/// How busy the shared pool was in the last second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct MeasuredLoad {
    /// CPUs of the pool.
    cpus: usize,
    /// Tenths of CPUs that were busy.
    busy_tenths: u64,
    /// The percentage of the last ten seconds in which a process of the node waited for a CPU, as the kernel says it;
    /// none if the kernel does not measure it.
    waiting_percent: Option<f64>,
}

impl PoolLoad {
    pub(super) fn measured(&self) -> Option<MeasuredLoad> {
        self.measured
    }

    /// Measures the CPUs of the pool, unless that was just done. Returns whether the result is another one.
    pub(super) fn measure(&mut self, pool: &CpuSet) -> bool {
        if self.pool != *pool {
            self.pool.clone_from(pool);
            (self.sample, self.measured) = (None, None);
        }
        let is_due = |(at, _): &(Instant, _)| at.elapsed() >= INTERVAL;
        if !self.sample.as_ref().is_none_or(is_due) {
            return false;
        }
        let Ok(stat) = fs::read_to_string("/proc/stat") else {
            return false;
        };
        let now = cpu_times(&stat);
        let before = self.sample.replace((Instant::now(), now.clone()));
        let Some((_, before)) = before.filter(|_| !pool.is_empty()) else {
            return false;
        };
        let pressure = fs::read_to_string("/proc/pressure/cpu");
        let measured = MeasuredLoad {
            cpus: pool.len(),
            busy_tenths: busy_tenths(pool, &before, &now),
            waiting_percent: pressure.ok().and_then(|text| waiting_percent(&text)),
        };
        self.measured.replace(measured) != Some(measured)
    }
}

/// The times of every CPU in `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn cpu_times(stat: &str) -> BTreeMap<u32, CpuTime> {
    let mut times = BTreeMap::new();
    for line in stat.lines() {
        let mut words = line.split_ascii_whitespace();
        let id = words.next().and_then(|name| name.strip_prefix("cpu"));
        let Some(id) = id.and_then(|id| id.parse().ok()) else {
            continue;
        };
        let mut time = CpuTime::default();
        for (index, ticks) in words.take(8).enumerate() {
            let ticks: u64 = ticks.parse().unwrap_or(0);
            time.whole = time.whole.saturating_add(ticks);
            if !matches!(index, 3 | 4) {
                time.busy = time.busy.saturating_add(ticks);
            }
        }
        times.insert(id, time);
    }
    times
}

/// Tenths of CPUs of a pool that were busy between two samples.
fn busy_tenths(
    pool: &CpuSet,
    before: &BTreeMap<u32, CpuTime>,
    now: &BTreeMap<u32, CpuTime>,
) -> u64 {
    let share = |cpu: CpuId| {
        let (before, now) = (before.get(&cpu.get())?, now.get(&cpu.get())?);
        let whole = now.whole.saturating_sub(before.whole);
        let busy = now.busy.saturating_sub(before.busy).min(whole);
        (whole > 0).then(|| busy.saturating_mul(1000) / whole)
    };
    let thousandths = pool.iter().filter_map(share);
    thousandths.fold(0, u64::saturating_add).div_ceil(100)
}

/// The share of the last ten seconds in a line such as `some avg10=1.25 avg60=0.00 avg300=0.00 total=1`.
fn waiting_percent(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find(|line| line.starts_with("some "))?;
    let share = line
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("avg10="))?;
    share.parse().ok().filter(|share: &f64| share.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_all_but_idle_and_waiting_for_disks_on_the_cpus_of_the_pool() {
        let before = "cpu  9 9 9 9 9 9 9 9\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\ncpu2 0 0 0 0 0 0 0 0 0 0\n";
        let now = "cpu  9 9 9 9 9 9 9 9\ncpu0 20 5 10 50 10 2 2 1 7 7\ncpu1 100 0 0 0 0 0 0 0 0 0\ncpu2 0 0 0 100 0 0 0 0 0 0\nintr 1\n";
        let (before, now) = (cpu_times(before), cpu_times(now));
        for (pool, expected) in [("0", 4), ("1", 10), ("2", 0), ("0-2", 14), ("3", 0)] {
            let pool = pool.parse().expect("CPUs");
            assert_eq!(busy_tenths(&pool, &before, &now), expected, "{pool}");
        }
    }

    #[test]
    fn the_pressure_is_the_share_of_the_last_ten_seconds() {
        let text = "some avg10=1.25 avg60=0.30 avg300=0.00 total=17\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(waiting_percent(text), Some(1.25));
        assert_eq!(waiting_percent("full avg10=1.00"), None);
        assert_eq!(waiting_percent("some avg10=x"), None);
    }
}
