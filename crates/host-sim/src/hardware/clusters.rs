//! Clusters of cores with a shared cache, and the fill tables of all caches.

use topology::Machine;

use super::Hardware;
use crate::physics::{CpiModel, FillTable};

/// A cache that the cores of a cluster share, between their own caches and their last-level cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Size in bytes.
    pub bytes: f64,
    /// CPUs of the cluster.
    pub cpus: Vec<usize>,
    /// Index of the size in [`Hardware::fill_tables`].
    pub fill_index: usize,
}

impl Hardware {
    /// Returns the tables of how a program fills each cache: a table for each size of a last-level cache, then for each
    /// size of a cluster's cache.
    pub fn fill_tables(&self, model: &CpiModel) -> Vec<FillTable> {
        let last = distinct(self.caches.iter().map(|cache| cache.bytes));
        let of_clusters = distinct(self.clusters.iter().map(|cluster| cluster.bytes));
        let last = last.into_iter().map(|bytes| FillTable::new(model.miss_curve(), bytes));
        let of_clusters =
            of_clusters.into_iter().map(|bytes| FillTable::new(model.private_curve(), bytes));
        last.chain(of_clusters).collect()
    }

    /// Adds the clusters. Their fill tables follow those of `n_cache_sizes` last-level caches.
    pub(super) fn add_clusters(&mut self, machine: &Machine, n_cache_sizes: usize) {
        let listed = &machine.perf_attributes().clusters;
        let sizes = distinct(listed.iter().map(|cluster| cluster.cache_bytes.value as f64));
        for cluster in listed {
            let (cpus, bytes) = (self.cpu_indices(&cluster.cpus), cluster.cache_bytes.value as f64);
            let Some(&first) = cpus.first() else { continue };
            for &cpu in &cpus {
                self.cpus[cpu].cluster = Some(self.clusters.len());
                self.cpus[cpu].speed.private_bytes = Some(bytes);
            }
            self.caches[self.cpus[first].cache].clusters.push(self.clusters.len());
            let fill_index = n_cache_sizes + sizes.partition_point(|&size| size < bytes);
            self.clusters.push(Cluster { bytes, cpus, fill_index });
        }
    }
}

/// Returns the distinct values in ascending order.
pub(super) fn distinct(sizes: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sizes: Vec<f64> = sizes.collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}
