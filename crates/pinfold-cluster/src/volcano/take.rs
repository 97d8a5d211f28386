//! Takes a number of CPUs so that as few sockets and cores as possible are split.
//!
//! Mirrors `takeByTopology`, which is copied from an early kubelet: whole sockets while at least a socket is needed,
//! whole cores while at least a core is needed, then single threads, first on sockets of which CPUs were taken already,
//! there on the fullest socket and the core with the fewest free threads.
//!
//! Volcano mixes up id spaces: a socket or core counts as free if its number happens to be the number of an available
//! CPU, a "free" one need not be whole, and a core number stands for the cores of that number in all sockets at once,
//! so that it may take **more** CPUs than requested. Two of its comparisons are not orderings. Sound mode has the same
//! three steps with a core being (socket, number), "free" meaning whole, and keys compared one after the other.

use crate::volcano::VolcanoDefects;
use std::cmp::Reverse;

use smallvec::SmallVec;

use super::cpu_detail::CpuDetail;
use super::go_sort;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;

/// More CPUs are needed than available. The message is that of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough cpus available to satisfy request")]
pub struct NotEnoughCpus {
    /// The number of CPUs needed.
    pub needed: usize,
    /// The number of CPUs available.
    pub available: usize,
}

/// Takes `needed` CPUs out of `available`. CPUs that `detail` does not list are not available.
///
/// # Errors
/// If there are fewer.
pub fn take(
    detail: &CpuDetail,
    available: &CpuSet,
    needed: usize,
    fidelity: Fidelity,
) -> Result<CpuSet, NotEnoughCpus> {
    if needed == 0 {
        return Ok(CpuSet::new());
    }
    let free = available & detail.all();
    if needed > free.len() {
        return Err(NotEnoughCpus {
            needed,
            available: free.len(),
        });
    }
    let mut taking = Taking {
        detail,
        free,
        taken: CpuSet::new(),
        needed,
    };
    if fidelity.mixes_up_core_numbers() {
        taking.sockets_by_number();
        taking.cores_by_number();
        taking.threads_by_number();
    } else {
        taking.whole_sockets();
        taking.whole_cores();
        taking.threads();
    }
    Ok(taking.taken)
}

/// The CPUs still free, the CPUs taken, and the number still needed.
struct Taking<'a> {
    detail: &'a CpuDetail,
    free: CpuSet,
    taken: CpuSet,
    needed: usize,
}

impl Taking<'_> {
    fn claim(&mut self, cpus: &CpuSet) {
        self.free -= cpus;
        self.taken |= cpus;
        self.needed = self.needed.saturating_sub(cpus.len());
    }

    /// Takes the CPUs one by one, ascending, as many as needed.
    fn claim_threads(&mut self, cpus: &CpuSet) {
        for cpu in (cpus & &self.free).iter().take(self.needed) {
            self.claim(&CpuSet::single(cpu));
        }
    }

    fn whole_sockets(&mut self) {
        let detail = self.detail;
        for socket in detail.sockets() {
            if socket.cpus.len() <= self.needed && socket.cpus.is_subset(&self.free) {
                self.claim(&socket.cpus);
            }
        }
    }

    /// Takes whole cores, first on the socket with the fewest of them free.
    fn whole_cores(&mut self) {
        if self.needed == 0 {
            return;
        }
        let detail = self.detail;
        let mut sockets: SmallVec<[(usize, u32); 8]> = SmallVec::new();
        for socket in detail.sockets() {
            let cores = detail.cores_of_socket(socket.id).iter();
            let whole = cores.filter(|core| core.cpus.is_subset(&self.free)).count();
            sockets.push((whole, socket.id));
        }
        sockets.sort_unstable();
        for (_, socket) in sockets {
            for core in detail.cores_of_socket(socket) {
                if self.needed == 0 {
                    return;
                }
                if core.cpus.len() <= self.needed && core.cpus.is_subset(&self.free) {
                    self.claim(&core.cpus);
                }
            }
        }
    }

    /// Takes single threads: first on sockets of which most CPUs were taken, then on sockets with the fewest free, then
    /// on cores with the fewest free.
    fn threads(&mut self) {
        if self.needed == 0 {
            return;
        }
        let detail = self.detail;
        let mut cores = Vec::with_capacity(detail.cores().len());
        for socket in detail.sockets() {
            let given = socket.cpus.common_len(&self.taken);
            let left = socket.cpus.common_len(&self.free);
            for core in detail.cores_of_socket(socket.id) {
                let threads = core.cpus.common_len(&self.free);
                if threads > 0 {
                    cores.push(((Reverse(given), left, threads, core.id), &core.cpus));
                }
            }
        }
        cores.sort_unstable_by_key(|&(key, _)| key);
        for (_, cpus) in cores {
            self.claim_threads(cpus);
        }
    }

    fn is_free_cpu_number(&self, number: u32) -> bool {
        CpuId::new(number).is_some_and(|cpu| self.free.contains(cpu))
    }

    /// Takes all free CPUs of sockets that have free CPUs and whose number is that of a free CPU.
    fn sockets_by_number(&mut self) {
        let detail = self.detail;
        let worth = detail.cpus_per_socket();
        let counts_as_free: SmallVec<[&CpuSet; 8]> = detail
            .sockets()
            .iter()
            .filter(|socket| {
                !socket.cpus.is_disjoint(&self.free) && self.is_free_cpu_number(socket.id)
            })
            .map(|socket| &socket.cpus)
            .collect();
        for cpus in counts_as_free {
            if self.needed == 0 || self.needed < worth {
                break;
            }
            self.claim(&(cpus & &self.free));
        }
    }

    /// Takes all free CPUs with the core number of a core that has free CPUs and whose number is that of a free CPU, in
    /// any socket.
    fn cores_by_number(&mut self) {
        let detail = self.detail;
        let worth = detail.cpus_per_core();
        if self.needed == 0 || self.needed < worth {
            return;
        }
        let mut sockets: SmallVec<[(SmallVec<[u32; 32]>, u32); 8]> = SmallVec::new();
        for socket in detail.sockets() {
            if !socket.cpus.is_disjoint(&self.free) {
                let cores = detail.cores_of_socket(socket.id).iter();
                let counts_as_free = cores.filter(|core| {
                    !core.cpus.is_disjoint(&self.free) && self.is_free_cpu_number(core.id.number)
                });
                sockets.push((
                    counts_as_free.map(|core| core.id.number).collect(),
                    socket.id,
                ));
            }
        }
        go_sort::sort(&mut sockets, |a, b| a.0.len() < b.0.len() || a.1 < b.1);
        for number in sockets.iter().flat_map(|(numbers, _)| numbers) {
            if self.needed == 0 || self.needed < worth {
                return;
            }
            let named = detail.core_numbers();
            if let Ok(at) = named.binary_search_by_key(number, |core| core.number) {
                self.claim(&(&named[at].cpus & &self.free));
            }
        }
    }

    /// Takes single threads by core number, compared by "smaller in any key"; the socket of a number is that of its
    /// lowest CPU.
    fn threads_by_number(&mut self) {
        if self.needed == 0 {
            return;
        }
        let detail = self.detail;
        let mut cores = Vec::with_capacity(detail.core_numbers().len());
        for core in detail.core_numbers() {
            let threads = core.cpus.common_len(&self.free);
            if threads > 0 {
                let socket = detail
                    .sockets()
                    .binary_search_by_key(&core.socket, |socket| socket.id)
                    .map(|at| &detail.sockets()[at].cpus);
                let (given, left) = socket.map_or((0, 0), |cpus| {
                    (cpus.common_len(&self.taken), cpus.common_len(&self.free))
                });
                cores.push((given, left, threads, core));
            }
        }
        go_sort::sort(&mut cores, |a, b| {
            a.0 > b.0
                || a.1 < b.1
                || a.2 < b.2
                || a.3.socket < b.3.socket
                || a.3.number < b.3.number
        });
        for (.., core) in cores {
            self.claim_threads(&core.cpus);
        }
    }
}

#[cfg(test)]
mod tests;
