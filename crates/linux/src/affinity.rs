//! Affinity masks of threads: sched_getaffinity(2) and sched_setaffinity(2).
//!
//! The kernel returns a mask without offline CPUs, and restricts a new mask to the cpuset of the thread. The mask that
//! is read may therefore differ from the mask that was set. [`is_same`] compares only the usable CPUs.

use std::io;

use base::CpuSet;

use crate::fault;

/// 8192 CPUs, the largest NR_CPUS, in 64-bit words.
const WORDS: usize = 128;

/// Returns the affinity mask of a thread; 0 is the calling thread.
pub fn get(tid: u32) -> io::Result<CpuSet> {
    fault::inject("sched_getaffinity")?;
    let mut words = [0u64; WORDS];
    // SAFETY: the kernel writes at most the given number of bytes, the size of `words`.
    let n_bytes = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, tid, size_of_val(&words), words.as_mut_ptr())
    };
    if n_bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    let n_words = (n_bytes as usize).div_ceil(size_of::<u64>());
    Ok(CpuSet::from_words(&words[..n_words.min(WORDS)]))
}

/// Sets the affinity mask of a thread; 0 is the calling thread. Does not allocate, so that a child process may call
/// this function between fork and exec.
pub fn set(tid: u32, cpus: &CpuSet) -> io::Result<()> {
    fault::inject("sched_setaffinity")?;
    let mut words = [0u64; WORDS];
    words.iter_mut().zip(cpus.words()).for_each(|(word, bits)| *word = bits);
    // SAFETY: the kernel reads the given number of bytes, the size of `words`, which outlives the call.
    let done = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, tid, size_of_val(&words), words.as_ptr())
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns whether two affinity masks contain the same usable CPUs. An `expected` mask without a usable CPU equals
/// every mask, because the kernel has replaced the mask of the thread.
pub fn is_same(expected: &CpuSet, mask: &CpuSet, usable: &CpuSet) -> bool {
    let among_usable = expected.and(usable);
    expected == mask || among_usable == mask.and(usable) || among_usable.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_that_was_set_is_read_back() {
        std::thread::spawn(|| {
            let before = get(0).expect("own mask");
            let one: CpuSet = before.first().into_iter().collect();
            set(0, &one).expect("a CPU of the own mask");
            assert_eq!(get(0).expect("own mask"), one);
        })
        .join()
        .expect("the thread");
    }

    #[test]
    fn the_kernel_rejects_an_empty_mask() {
        let error = set(0, &CpuSet::new()).expect_err("no CPU");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
