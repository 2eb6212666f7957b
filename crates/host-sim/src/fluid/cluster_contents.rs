//! Caches of clusters: the share of each task in a cache between the cores of a cluster and their last-level cache.
//!
//! ```text
//!   core 0   core 1        the misses of the cores fill the cache of the cluster;
//!      ╲      ╱            the misses of that cache are the accesses to the last-level cache
//!     cluster cache ──► last-level cache ──► memory
//! ```
//!
//! The equilibrium is that of a last-level cache ([`crate::physics::occupancies`]). It has no dynamics: such a cache has
//! a few MiB and is refilled in less than a millisecond.

use topology::Replacement;

use super::Fluid;
use super::cache_solution::CacheMember;
use super::tasks::CacheContents;
use crate::hardware::Hardware;
use crate::physics::{CoreSpeed, StepLine, occupancies_with};

impl Fluid {
    /// Returns the core of a task. The private cache is its occupancy in the cache of its cluster, if it is in one.
    pub(super) fn core_of(&self, idx: usize, cpu: usize) -> CoreSpeed {
        let speed = self.hardware.cpus[cpu].speed;
        let private_bytes = self.tasks[idx].cached.cluster_bytes.or(speed.private_bytes);
        CoreSpeed { private_bytes, ..speed }
    }

    /// Changes the occupancies in the caches of the clusters below a last-level cache towards their equilibrium at the
    /// current speeds.
    pub(super) fn share_clusters(
        &self,
        hardware: &Hardware,
        cache: usize,
        members: &mut [CacheMember],
        relaxation: f64,
    ) {
        for &cluster_idx in &hardware.caches[cache].clusters {
            let cluster = &hardware.clusters[cluster_idx];
            let is_in =
                |member: &CacheMember| hardware.cpus[member.cpu].cluster == Some(cluster_idx);
            let here = || members.iter().filter(|member| is_in(member));
            let mut entries = self.entries_of(cluster.fill_index, here());
            entries.set_times(here().map(|member| member.ns / member.duty));
            let mut fits = vec![0.0; entries.entries().len()];
            occupancies_with(Replacement::Lru, entries.entries(), cluster.bytes, 0.0, &mut fits);
            let here = members.iter_mut().filter(|member| is_in(member));
            for (nth, member) in here.enumerate() {
                let (fit, elsewhere) = entries.bytes_of(nth, &fits);
                let bytes = member.core.private_bytes.unwrap_or(fit);
                let next = bytes + relaxation * (fit - bytes);
                // Both parts change by the same share, so that the sum never exceeds the cache.
                let of_others = (1.0 - relaxation) * bytes * member.cluster_elsewhere;
                let of_others = of_others + relaxation * fit * elsewhere;
                member.cluster_elsewhere = if 0.0 < next { of_others / next } else { 0.0 };
                member.core.private_bytes = Some(next);
                member.terms = self.phase_of(member.task).behaviour.terms_on(&member.core);
                member.takes = StepLine::default();
            }
        }
    }

    /// Checks that the tasks in the cache of each cluster occupy at most its size.
    pub(super) fn check_clusters(&self) -> Result<(), String> {
        for cluster in &self.hardware.clusters {
            let tasks = cluster.cpus.iter().flat_map(|&cpu| &self.cpus[cpu].tasks);
            let own = |&idx: &usize| {
                let CacheContents { cluster_bytes, cluster_elsewhere, .. } = self.tasks[idx].cached;
                cluster_bytes.unwrap_or_default() * (1.0 - cluster_elsewhere)
            };
            let occupied: f64 = tasks.map(own).sum();
            if self.settings.contention && cluster.bytes * (1.0 + 1e-6) < occupied {
                let bytes = cluster.bytes;
                return Err(format!(
                    "tasks occupy {occupied} bytes of a cluster's cache of {bytes}"
                ));
            }
        }
        Ok(())
    }
}
