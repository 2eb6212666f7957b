//! Whole drawings, as people see them.

use super::*;
use crate::{Machine, MachineParts};

fn check(machine: &Machine, expected: expect_test::Expect) {
    let drawn = draw(machine);
    for line in drawn.lines() {
        assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
    }
    expected.assert_eq(&drawn);
}

fn synthetic(text: &str) -> Machine {
    Machine::synthetic(text).expect("a machine")
}

/// A synthetic machine of which something is then otherwise.
fn changed(text: &str, change: impl FnOnce(&mut MachineParts)) -> Machine {
    let mut parts = synthetic(text).parts().clone();
    change(&mut parts);
    Machine::new(parts).expect("still a machine")
}

#[test]
fn nodes_are_boxes_with_a_line_for_each_cache() {
    check(
        &synthetic("nodes=2 llcs=2 cores=4 smt=2"),
        expect_test::expect![[r#"
        synthetic nodes=2 llcs=2 cores=4 smt=2
        32 CPUs, 16 cores, 4 last-level caches, 2 nodes, 32.0 GiB
        ┌─ node 0 ──────────────────────────────────────────── 16.0 GiB, 8.0 GiB free ─┐
        │ llc 0  L3 32.0 MiB  [0-1] [2-3] [4-5] [6-7]                                  │
        │ llc 1  L3 32.0 MiB  [8-9] [10-11] [12-13] [14-15]                            │
        └──────────────────────────────────────────────────────────────────────────────┘
        ┌─ node 1 ──────────────────────────────────────────── 16.0 GiB, 8.0 GiB free ─┐
        │ llc 2  L3 32.0 MiB  [16-17] [18-19] [20-21] [22-23]                          │
        │ llc 3  L3 32.0 MiB  [24-25] [26-27] [28-29] [30-31]                          │
        └──────────────────────────────────────────────────────────────────────────────┘
        distance from any node to any other: 21 (10 is local)
        this process may use all of it
        programs are placed on 2 nodes: 0-1
    "#]],
    );
}

#[test]
fn a_machine_with_one_cpu_reports_that_no_program_can_be_placed() {
    check(
        &synthetic(""),
        expect_test::expect![[r#"
        synthetic
        1 CPU, 1 core, 1 last-level cache, 1 node, 16.0 GiB
        ┌─ node 0 ──────────────────────────────────────────── 16.0 GiB, 8.0 GiB free ─┐
        │ llc 0  L3 32.0 MiB  0                                                        │
        └──────────────────────────────────────────────────────────────────────────────┘
        this process may use all of it
        nothing can be placed: there is one core to run on
    "#]],
    );
}

#[test]
fn many_nodes_are_a_table_and_many_distances_a_range() {
    let machine = changed("nodes=18 cores=16 smt=4", |parts| {
        parts.nodes[0].distances.insert(base::NodeId(1), 12);
    });
    check(
        &machine,
        expect_test::expect![[r#"
        synthetic nodes=18 cores=16 smt=4
        1152 CPUs, 288 cores, 18 last-level caches, 18 nodes, 288.0 GiB
         node  CPUs                           cores  llcs      memory        free
            0  0-63                              16     1    16.0 GiB     8.0 GiB
            1  64-127                            16     1    16.0 GiB     8.0 GiB
            2  128-191                           16     1    16.0 GiB     8.0 GiB
            3  192-255                           16     1    16.0 GiB     8.0 GiB
            4  256-319                           16     1    16.0 GiB     8.0 GiB
            5  320-383                           16     1    16.0 GiB     8.0 GiB
            6  384-447                           16     1    16.0 GiB     8.0 GiB
            7  448-511                           16     1    16.0 GiB     8.0 GiB
            8  512-575                           16     1    16.0 GiB     8.0 GiB
            9  576-639                           16     1    16.0 GiB     8.0 GiB
           10  640-703                           16     1    16.0 GiB     8.0 GiB
           11  704-767                           16     1    16.0 GiB     8.0 GiB
           12  768-831                           16     1    16.0 GiB     8.0 GiB
           13  832-895                           16     1    16.0 GiB     8.0 GiB
           14  896-959                           16     1    16.0 GiB     8.0 GiB
           15  960-1023                          16     1    16.0 GiB     8.0 GiB
           16  1024-1087                         16     1    16.0 GiB     8.0 GiB
           17  1088-1151                         16     1    16.0 GiB     8.0 GiB
        distances between nodes: 12 to 21 (10 is local; --json has them)
        this process may use all of it
        programs are placed on 18 nodes: 0-17
    "#]],
    );
}

#[test]
fn many_caches_and_many_cores_are_abbreviated() {
    check(
        &synthetic("llcs=16 cores=8 smt=2"),
        expect_test::expect![[r#"
        synthetic llcs=16 cores=8 smt=2
        256 CPUs, 128 cores, 16 last-level caches, 1 node, 16.0 GiB
        ┌─ node 0 ──────────────────────────────────────────── 16.0 GiB, 8.0 GiB free ─┐
        │ 16 llcs (0-15)  L3 32.0 MiB  128 cores: 0-255                                │
        └──────────────────────────────────────────────────────────────────────────────┘
        this process may use all of it
        programs are placed on 16 llcs: 0-15
    "#]],
    );
    check(
        &synthetic("cores=128"),
        expect_test::expect![[r#"
        synthetic cores=128
        128 CPUs, 128 cores, 1 last-level cache, 1 node, 16.0 GiB
        ┌─ node 0 ──────────────────────────────────────────── 16.0 GiB, 8.0 GiB free ─┐
        │ llc 0  L3 32.0 MiB  128 cores: 0-127                                         │
        └──────────────────────────────────────────────────────────────────────────────┘
        this process may use all of it
        programs are placed on 128 cores: 0-127
    "#]],
    );
}

#[test]
fn offline_cpus_forbidden_cpus_and_warnings_are_printed() {
    let machine = changed("nodes=2 cores=4", |parts| {
        for cpu in &mut parts.cpus {
            cpu.allowed = cpu.id.0 < 3;
        }
        parts.cpus[7].online = false;
        (parts.cpus[7].core, parts.cpus[7].llc, parts.cpus[7].node) = (None, None, None);
        for cpus in [&mut parts.nodes[1].cpus, &mut parts.llcs[1].cpus] {
            cpus.remove(base::CpuId(7));
        }
        parts.cores.pop();
        parts.nodes_allowed.remove(base::NodeId(1));
        parts.cores[0].kind = "performance".to_owned();
        parts.cores[1].capacity = 512;
        parts.nodes[1].memory = Some(base::Bytes::ZERO);
        parts.nodes[1].memory_free = None;
        parts.warnings.push(
            "node7 claims CPUs 4-7 of another node; node7 is ignored, and so is all of its memory"
                .to_owned(),
        );
    });
    check(
        &machine,
        expect_test::expect![[r#"
            synthetic nodes=2 cores=4
            7 CPUs, 7 cores, 2 last-level caches, 2 nodes, 16.0 GiB
            ┌─ node 0 ──────────────────────────────────────────── 16.0 GiB, 8.0 GiB free ─┐
            │ llc 0  L3 32.0 MiB  performance: 0                                           │
            │                     uniform: 1 2 3                                           │
            └──────────────────────────────────────────────────────────────────────────────┘
            ┌─ node 1 ───────────────────────────────────────────────────────── no memory ─┐
            │ llc 1  L3 32.0 MiB  4 5 6                                                    │
            └──────────────────────────────────────────────────────────────────────────────┘
            distance from any node to any other: 21 (10 is local)
            core kinds, with capacity (1024 is the fastest): 1 performance (1024), 6
              uniform (512)
            offline: CPUs 7
            this process may use CPUs 0-2 and memory of nodes 0
            programs are placed on 3 cores: 0-2
            warning: node7 claims CPUs 4-7 of another node; node7 is ignored, and so is
              all of its memory
        "#]],
    );
}

#[test]
fn memory_without_cpus_and_cpus_without_node_or_cache_are_drawn() {
    let machine = changed("nodes=3 cores=2 llc=0", |parts| {
        parts.nodes[2].cpus = CpuSet::new();
        parts.nodes[1].distances.insert(base::NodeId(2), 40);
        for cpu in &mut parts.cpus {
            cpu.node = None;
        }
    });
    check(
        &machine,
        expect_test::expect![[r#"
            synthetic nodes=3 cores=2 llc=0
            6 CPUs, 6 cores, no known last-level cache, 3 nodes, 48.0 GiB
            ┌─ node 0 ──────────────────────────────────────────── 16.0 GiB, 8.0 GiB free ─┐
            │ no known cache  0 1                                                          │
            └──────────────────────────────────────────────────────────────────────────────┘
            ┌─ node 1 ──────────────────────────────────────────── 16.0 GiB, 8.0 GiB free ─┐
            │ no known cache  2 3                                                          │
            └──────────────────────────────────────────────────────────────────────────────┘
            ── node 2: no CPU, 16.0 GiB, 8.0 GiB free
            ┌─ no node ────────────────────────────────────────────────────────────────────┐
            │ no known cache  4 5                                                          │
            └──────────────────────────────────────────────────────────────────────────────┘
            distance to   0   1   2
              from    0  10  21  21
              from    1  21  10  40
              from    2  21  21  10
            this process may use all of it
            programs are placed on 2 nodes: 0-1
        "#]],
    );
}
