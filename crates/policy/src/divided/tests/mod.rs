//! Decisions of divided scheduling.

mod groups;
mod sockets;

/// Two jobs that cause contention, two that it slows down, and two others.
const SIX: &str = "
    job lbm queue-full=900/s llc-references=800/s
    job sphinx queue-full=10/s llc-references=500/s
    job gromacs queue-full=5/s llc-references=20/s
    job libquantum queue-full=700/s llc-references=900/s
    job omnetpp queue-full=8/s llc-references=600/s
    job canneal queue-full=6/s llc-references=100/s
    0ms due lbm sphinx gromacs libquantum omnetpp canneal
";
