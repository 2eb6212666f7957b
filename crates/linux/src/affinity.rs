//! On which CPUs a thread may run: `sched_setaffinity` and its opposite.
//!
//! The kernel shows a mask without the CPUs that are offline, and cuts what is set down to the
//! cpuset of the thread. So a mask that we read need not be the mask that somebody set; compare both
//! among the CPUs that can be used.

use std::io;

use base::CpuSet;

use crate::fault;

/// Room for 8192 CPUs, the most that Linux can be built for, in 64-bit words.
const WORDS: usize = 128;

/// The mask of a thread; 0 stands for the calling one.
pub fn get(tid: u32) -> io::Result<CpuSet> {
    fault::refuse("sched_getaffinity")?;
    let mut words = [0u64; WORDS];
    // SAFETY: the kernel writes at most the length given, into memory that is ours and that long.
    let n_bytes = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, tid, size_of_val(&words), words.as_mut_ptr())
    };
    if n_bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    let n_words = (n_bytes as usize).div_ceil(size_of::<u64>());
    Ok(CpuSet::from_words(&words[..n_words.min(WORDS)]))
}

/// Sets the mask of a thread; 0 stands for the calling one.
///
/// Allocates nothing, so that a child may call it between fork and exec.
pub fn set(tid: u32, cpus: &CpuSet) -> io::Result<()> {
    fault::refuse("sched_setaffinity")?;
    let mut words = [0u64; WORDS];
    words.iter_mut().zip(cpus.words()).for_each(|(word, its)| *word = its);
    // SAFETY: the kernel reads exactly the words of the set, which outlives the call.
    let done = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, tid, size_of_val(&words), words.as_ptr())
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether two affinity masks are equal among the usable CPUs. A mask without a usable CPU equals any
/// other: the kernel has replaced it.
pub fn is_same(ours: &CpuSet, mask: &CpuSet, usable: &CpuSet) -> bool {
    let among_usable = ours.and(usable);
    ours == mask || among_usable == mask.and(usable) || among_usable.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read_again() {
        std::thread::spawn(|| {
            let before = get(0).expect("own mask");
            let one: CpuSet = before.first().into_iter().collect();
            set(0, &one).expect("a CPU of one's own mask");
            assert_eq!(get(0).expect("own mask"), one);
        })
        .join()
        .expect("the thread");
    }

    #[test]
    fn an_empty_mask_is_refused_by_the_kernel() {
        let error = set(0, &CpuSet::new()).expect_err("nothing to run on");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
