//! Invariants of DFS. Its decisions are in `cases/dfs_*.txt`.

mod always;
