//! Parsers of `/proc/PID/numa_maps` and `/proc/PID/smaps`: memory of a process by node and kind.
//!
//! Each file describes each mapping in a line or a block, identified by the first address of the mapping:
//!
//! ```text
//!   numa_maps   7f3c0000 default anon=512 mapmax=2 N0=256 N2=256 kernelpagesize_kB=4     nodes
//!   smaps       7f3c0000-7f3e0000 rw-p 00000000 00:00 0                                  kinds
//!               Private_Dirty: 1024 kB … AnonHugePages: 2048 kB …
//! ```
//!
//! The kernel counts nodes and kinds separately, so the kinds of a mapping are distributed over its nodes in
//! proportion. Without `smaps`, transparent huge pages are unknown, and all pages of a mapping have one kind: shared if
//! several processes map one of the pages (`mapmax`), otherwise private.
//!
//! Amounts are bytes. Swapped pages are on no node and are not counted.

use std::collections::BTreeMap;

use base::NodeId;

/// Memory of a process on one node in bytes. The four kinds do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodePages {
    /// Private memory in base pages.
    pub small: u64,
    /// Private memory in huge pages, transparent or reserved.
    pub huge: u64,
    /// Pages in mappings of files, including private copies.
    pub file: u64,
    /// Memory shared with other processes.
    pub shared: u64,
}

/// Memory of a process by node.
pub type PagesByNode = BTreeMap<NodeId, NodePages>;

/// A line of `numa_maps`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Pages by node, in the order of the kernel.
    pub nodes: Vec<(NodeId, u64)>,
    /// Number of processes that map the page with the most mappings.
    pub mapmax: u64,
    /// Page size in bytes.
    pub page_size: u64,
    /// Backing of the mapping.
    pub kind: MappingKind,
    /// Whether the mapping has a memory policy ([`has_policy`]).
    pub has_policy: bool,
}

/// Backing of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MappingKind {
    /// Anonymous memory.
    #[default]
    Anonymous,
    /// A file, except [`MappingKind::SharedMemory`].
    File,
    /// A file in shared memory (`/dev/shm`, `memfd`, System V).
    SharedMemory,
}

/// A block of `smaps`: bytes of each kind in one mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmapsBlock {
    /// First address, and first address after the mapping.
    pub range: (u64, u64),
    /// Whether writes are private (copy on write).
    pub is_private: bool,
    /// Bytes mapped by this process only.
    pub private: u64,
    /// Bytes mapped by other processes too.
    pub shared: u64,
    /// Bytes in transparent huge pages.
    pub huge: u64,
}

/// Parses a line of `numa_maps`; `None` if it is malformed. Unknown words are skipped.
pub fn parse_line(line: &[u8]) -> Option<Mapping> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let has_policy = is_policy(words.next()?);
    let mut mapping =
        Mapping { start, page_size: 4096, mapmax: 1, has_policy, ..Mapping::default() };
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        match key {
            "mapmax" => mapping.mapmax = value.parse().ok()?,
            "kernelpagesize_kB" => {
                mapping.page_size = value.parse::<u64>().ok()?.checked_mul(1024)?
            }
            "file" => mapping.kind = of_path(value),
            _ => {
                let node = key.strip_prefix('N').and_then(|node| node.parse().ok());
                if let Some(node) = node {
                    mapping.nodes.push((NodeId(node), value.parse().ok()?));
                }
            }
        }
    }
    Some(mapping)
}

/// Returns whether any line shows a memory policy that binds, prefers or interleaves. A mapping without a policy shows
/// the policy of the thread to which the file belongs.
pub fn has_policy(text: &[u8]) -> bool {
    let policy = |line: &[u8]| {
        let word = line.split(|&byte| byte == b' ').nth(1)?;
        std::str::from_utf8(word).ok().map(is_policy)
    };
    text.split(|&byte| byte == b'\n').any(|line| policy(line) == Some(true))
}

/// Returns whether a word is a memory policy other than the default: `bind:0-1`, `prefer=static:2`, `interleave:0,2`,
/// `prefer (many):1-2`, `weighted interleave:0-3`. `default` and `local` allocate on the node of the CPU.
fn is_policy(word: &str) -> bool {
    !matches!(word, "" | "default" | "local")
}

fn of_path(path: &str) -> MappingKind {
    const IN_MEMORY: [&str; 5] = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "/anon_hugepage"];
    match IN_MEMORY.iter().any(|prefix| path.starts_with(prefix)) {
        true => MappingKind::SharedMemory,
        false => MappingKind::File,
    }
}

/// Parses the blocks of `smaps`, by first address. Unknown lines are skipped.
pub fn parse_smaps(text: &[u8]) -> BTreeMap<u64, SmapsBlock> {
    let mut all = BTreeMap::new();
    let mut now: Option<SmapsBlock> = None;
    for line in text.split(|&byte| byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        if let Some(next) = parse_head(line) {
            all.extend(now.replace(next).map(|block| (block.range.0, block)));
        } else if let Some(block) = &mut now {
            add_line(block, line);
        }
    }
    all.extend(now.map(|block| (block.range.0, block)));
    all
}

/// Parses the first line of a block, which is also a line of `maps`: range and permissions.
pub fn parse_head(line: &str) -> Option<SmapsBlock> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = (address(start)?, address(end)?);
    let is_private = words.next()?.as_bytes().get(3) == Some(&b'p');
    (range.0 < range.1).then(|| SmapsBlock { range, is_private, ..SmapsBlock::default() })
}

fn add_line(block: &mut SmapsBlock, line: &str) {
    let Some((key, value)) = line.split_once(':') else { return };
    let kib = value.split_ascii_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    let Some(bytes) = kib.and_then(|kib| kib.checked_mul(1024)) else { return };
    let sum = match key {
        "Private_Clean" | "Private_Dirty" | "Private_Hugetlb" => &mut block.private,
        "Shared_Clean" | "Shared_Dirty" | "Shared_Hugetlb" => &mut block.shared,
        "AnonHugePages" => &mut block.huge,
        _ => return,
    };
    *sum = sum.saturating_add(bytes);
}

/// Adds the pages of a mapping to the memory by node.
pub fn add(by_node: &mut PagesByNode, mapping: &Mapping, block: Option<&SmapsBlock>) {
    let all = mapping.nodes.iter().fold(0u64, |sum, (_, pages)| sum.saturating_add(*pages));
    if all == 0 {
        return;
    }
    let parts = parts(mapping, block, all.saturating_mul(mapping.page_size));
    for &(node, pages) in &mapping.nodes {
        let sums = by_node.entry(node).or_default();
        // The part of `whole` bytes of the mapping that is attributed to this node.
        let share = |whole: u64| {
            u64::try_from(u128::from(whole) * u128::from(pages) / u128::from(all)).unwrap_or(whole)
        };
        let (huge, file, shared) = (share(parts.huge), share(parts.file), share(parts.shared));
        let total = pages.saturating_mul(mapping.page_size);
        let small = total.saturating_sub(huge.saturating_add(file).saturating_add(shared));
        for (sum, more) in [
            (&mut sums.small, small),
            (&mut sums.huge, huge),
            (&mut sums.file, file),
            (&mut sums.shared, shared),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Computes the bytes of a mapping by kind. The sum of the kinds is `total`.
fn parts(mapping: &Mapping, block: Option<&SmapsBlock>, total: u64) -> NodePages {
    match (mapping.kind, block) {
        (MappingKind::SharedMemory, _) => NodePages { shared: total, ..NodePages::default() },
        (MappingKind::File, _) => NodePages { file: total, ..NodePages::default() },
        (MappingKind::Anonymous, None) if 1 < mapping.mapmax => {
            NodePages { shared: total, ..NodePages::default() }
        }
        (MappingKind::Anonymous, None) => {
            private_pages(total, if is_huge(mapping) { total } else { 0 })
        }
        (MappingKind::Anonymous, Some(block)) => {
            let shared = if block.is_private { block.shared.min(total) } else { total };
            let huge = if is_huge(mapping) { total } else { block.huge };
            NodePages { shared, ..private_pages(total - shared, huge) }
        }
    }
}

fn private_pages(total: u64, huge: u64) -> NodePages {
    let huge = huge.min(total);
    NodePages { small: total - huge, huge, ..NodePages::default() }
}

fn is_huge(mapping: &Mapping) -> bool {
    (64 << 10) < mapping.page_size // Base pages have at most 64 KiB, on some Arm and Power kernels.
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(numa_maps: &str, smaps: Option<&str>, expected: Expect) {
        let blocks = smaps.map(|text| parse_smaps(text.as_bytes()));
        let mut by_node = PagesByNode::new();
        for mapping in numa_maps.lines().filter_map(|line| parse_line(line.trim().as_bytes())) {
            add(&mut by_node, &mapping, blocks.as_ref().and_then(|all| all.get(&mapping.start)));
        }
        let mut lines = String::new();
        for (node, pages) in by_node {
            let [small, huge, file, shared] =
                [pages.small, pages.huge, pages.file, pages.shared].map(|bytes| bytes / 1024);
            lines += &format!("{node}: small {small} huge {huge} file {file} shared {shared}\n");
        }
        expected.assert_eq(&lines);
    }

    const OWN: &str = "
        55d8c000 default file=/usr/bin/cat mapped=9 mapmax=2 N0=9 kernelpagesize_kB=4
        55d90000 default file=/usr/bin/cat anon=2 dirty=2 N1=2 kernelpagesize_kB=4
        7f000000 bind:0-1 anon=1024 dirty=1024 active=0 N0=256 N1=768 kernelpagesize_kB=4
        7f800000 default file=/dev/shm/a\\040b mapped=16 mapmax=7 N3=16 kernelpagesize_kB=4
        7fa00000 default file=/anon_hugepage\\040(deleted) huge anon=1 dirty=1 N2=1 kernelpagesize_kB=2048
        7fc00000 default huge anon=2 dirty=2 N2=2 kernelpagesize_kB=2048
        7fd00000 default stack anon=4 mapmax=3 N0=4 kernelpagesize_kB=4
        7ffd0000 default";

    #[test]
    fn without_smaps_all_pages_have_the_kind_of_their_mapping() {
        check(
            OWN,
            None,
            expect![[r#"
                node0: small 1024 huge 0 file 36 shared 16
                node1: small 3072 huge 0 file 8 shared 0
                node2: small 0 huge 4096 file 0 shared 2048
                node3: small 0 huge 0 file 0 shared 64
            "#]],
        );
    }

    #[test]
    fn with_smaps_huge_and_shared_pages_are_distributed_over_the_nodes_of_their_mapping() {
        let smaps = "\
7f000000-7f400000 rw-p 00000000 00:00 0
Rss:                4096 kB
Shared_Dirty:       1024 kB
Private_Dirty:      3072 kB
Anonymous:          4096 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr
7fd00000-7fd21000 rw-p 00000000 00:00 0        [stack]
Private_Dirty:        16 kB
Anonymous:            16 kB
";
        check(
            OWN,
            Some(smaps),
            expect![[r#"
                node0: small 272 huge 512 file 36 shared 256
                node1: small 768 huge 1536 file 8 shared 768
                node2: small 0 huge 4096 file 0 shared 2048
                node3: small 0 huge 0 file 0 shared 64
            "#]],
        );
    }

    #[test]
    fn malformed_lines_are_rejected() {
        for line in
            ["", "zebra default N0=1", "7f00", "7f00 default mapmax=x", "7f00 default N0=-1"]
        {
            assert_eq!(parse_line(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_memory_policy_is_distinguished_from_the_default() {
        let check = |policy: &str, expected: bool| {
            let line = format!("7f00 {policy} anon=1 N0=1 kernelpagesize_kB=4");
            let found = parse_line(line.as_bytes()).expect("a line").has_policy;
            assert_eq!(found, expected, "{policy}");
            assert_eq!(has_policy(format!("1 default\n{line}\n").as_bytes()), expected, "{policy}");
        };
        for policy in ["default", "local"] {
            check(policy, false);
        }
        for policy in [
            "bind:0-1",
            "bind=static:1",
            "prefer:1",
            "prefer (many):0,2",
            "interleave:0-3",
            "weighted interleave:1-2",
        ] {
            check(policy, true);
        }
        assert!(!has_policy(b"") && !has_policy(b"7f00") && !has_policy(b"7f00 "));
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (parse_line(&text), parse_smaps(&text), has_policy(&text));
        }

        /// Tests that for every combination of kinds each byte is counted exactly once.
        #[test]
        fn the_kinds_of_a_mapping_sum_up_to_its_pages(
            pages in proptest::collection::vec((0u32..5, 0u64..100_000), 1..5),
            (mapmax, kind) in (1u64..4, 0usize..3),
            block in proptest::option::of((any::<bool>(), 0u64..1 << 30, 0u64..1 << 30, 0u64..1 << 30)),
        ) {
            let kind = [MappingKind::Anonymous, MappingKind::File, MappingKind::SharedMemory][kind];
            let nodes = pages.iter().map(|&(node, n)| (NodeId(node), n)).collect();
            let mapping =
                Mapping { start: 1, nodes, mapmax, page_size: 4096, kind, has_policy: false };
            let block = block.map(|(is_private, private, shared, huge)| SmapsBlock {
                is_private, private, shared, huge, ..SmapsBlock::default()
            });
            let mut by_node = PagesByNode::new();
            add(&mut by_node, &mapping, block.as_ref());
            let sum: u64 =
                by_node.values().map(|l| l.small + l.huge + l.file + l.shared).sum();
            prop_assert_eq!(sum, pages.iter().map(|(_, n)| n * 4096).sum::<u64>());
        }

        #[test]
        fn a_written_line_is_parsed_back(
            start in 0u64..1 << 47,
            nodes in proptest::collection::vec((0u32..64, 0u64..1 << 40), 0..6),
            (anon, mapmax) in (0u64..1 << 40, 1u64..100),
        ) {
            let mut line = format!("{start:x} default anon={anon} dirty={anon} mapmax={mapmax}");
            nodes.iter().for_each(|(node, pages)| line += &format!(" N{node}={pages}"));
            line += " kernelpagesize_kB=4";
            let nodes = nodes.into_iter().map(|(node, pages)| (NodeId(node), pages)).collect();
            let (kind, has_policy) = (MappingKind::Anonymous, false);
            let mapping = Mapping { start, nodes, mapmax, page_size: 4096, kind, has_policy };
            prop_assert_eq!(parse_line(line.as_bytes()), Some(mapping));
        }
    }
}
