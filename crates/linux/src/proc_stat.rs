//! `/proc/PID/stat` and `/proc/PID/task/TID/stat`: one line of fields, see proc(5).
//!
//! This is the only parser of that line. The parser does not allocate, because live runs read the line of every task
//! that has run since the last sample.
//!
//! ```text
//!   5779 (a) b (x) S 5778 5770 5771 0 -1 …      field 1 the number, 2 the name, 3 the state, …
//! ```
//!
//! The name may contain spaces and parentheses, so fields are counted from the last parenthesis. CPU times are in clock
//! ticks (usually 10 ms).

/// Name of a program as stored by the kernel: at most 15 bytes, then zeros.
pub type Comm = [u8; 16];

/// The flag `PF_KTHREAD` of kernel threads, in field 9.
pub(crate) const PF_KTHREAD: u64 = 0x0020_0000;

/// Bytes of the longest variable (`MAX_ARG_STRLEN`).
const LARGE_ENVIRON_BYTES: u64 = 128 << 10;

/// Fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcStat {
    /// Name of the program.
    pub comm: Comm,
    /// `R` running, `S` sleeping, `D` in uninterruptible sleep, `Z` zombie, `X` dead, …
    pub state: char,
    /// The parent process, or the subreaper that adopted the process.
    pub parent: u32,
    /// Process group; 0 for a task that is being reaped.
    pub group: u32,
    /// Session; 0 for a task that is being reaped.
    pub session: u32,
    /// Whether the task is a kernel thread (`PF_KTHREAD`).
    pub is_kernel_thread: bool,
    /// CPU time in user and kernel mode, in clock ticks. The value of a process includes all threads, even exited
    /// threads.
    pub cpu_ticks: u64,
    /// CPU time in clock ticks of children that have exited and were reaped, and of their reaped children.
    pub reaped_children_ticks: u64,
    /// Number of threads of the process.
    pub n_threads: u32,
    /// Start time, in clock ticks since boot.
    pub start_time_ticks: u64,
    /// The CPU on which the task ran last.
    pub last_cpu: u32,
    /// Number of the scheduling policy of the task, as in `sched.h`.
    pub class: u32,
    /// Start address of the environment. `None` before Linux 3.5.
    pub env_start: Option<u64>,
    /// End address of the environment; 0 during execve(2). `None` before Linux 3.5.
    pub env_end: Option<u64>,
}

impl ProcStat {
    /// Returns whether the process has exited: a zombie or dead, without other threads. A main thread that has exited
    /// stays a zombie until all threads have exited.
    pub fn has_exited(&self) -> bool {
        self.is_zombie() && self.n_threads < 2
    }

    /// Returns whether the task itself is a zombie or dead. It has no memory.
    pub(crate) fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Returns whether a scheduling policy is real-time: FIFO, RR or DEADLINE.
    pub fn is_real_time(class: u32) -> bool {
        matches!(class, 1 | 2 | 6)
    }

    /// Returns the name of the program as text.
    pub fn comm_text(&self) -> String {
        comm_text(&self.comm)
    }

    /// Returns the size of the environment. A process can set the addresses to any value.
    pub(crate) fn environ_bytes(&self) -> u64 {
        self.env_end.unwrap_or(0).saturating_sub(self.env_start.unwrap_or(0))
    }

    /// Returns whether reading the environment may take long: it is longer than the longest variable. Reading one of the
    /// largest environments that execve(2) accepts takes up to some tens of milliseconds.
    pub fn has_large_environ(&self) -> bool {
        LARGE_ENVIRON_BYTES < self.environ_bytes()
    }

    /// Returns whether the process is executing execve(2): the old environment is freed, and the new one cannot be read
    /// yet.
    pub(crate) fn is_in_exec(&self) -> bool {
        !self.is_zombie() && !self.is_kernel_thread && self.env_end == Some(0)
    }
}

/// Converts the name to text. Bytes that are not UTF-8 are replaced.
pub fn comm_text(comm: &Comm) -> String {
    let len = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..len]).into_owned()
}

/// Parses the line. Returns `None` if it is truncated or malformed.
pub fn parse_stat(line: &[u8]) -> Option<ProcStat> {
    const FIRST: usize = 3; // Number of the first field after the name.
    let open = line.iter().position(|&byte| byte == b'(')?;
    let close = line.iter().rposition(|&byte| byte == b')')?;
    let name = line.get(open + 1..close)?;
    let mut comm = Comm::default();
    let len = name.len().min(15);
    comm[..len].copy_from_slice(&name[..len]);
    let tail = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let mut fields = [""; 49];
    fields.iter_mut().zip(tail.split_ascii_whitespace()).for_each(|(field, word)| *field = word);
    let number = |nr: usize| fields[nr - FIRST].parse::<u64>().ok();
    let small = |nr: usize| fields[nr - FIRST].parse::<u32>().ok();
    // A task that is being reaped has no process group and no session: the kernel prints -1.
    let group = |nr: usize| if fields[nr - FIRST] == "-1" { Some(0) } else { small(nr) };
    Some(ProcStat {
        comm,
        state: fields[0].chars().next()?,
        parent: small(4)?,
        group: group(5)?,
        session: group(6)?,
        is_kernel_thread: number(9)? & PF_KTHREAD != 0,
        cpu_ticks: number(14)?.saturating_add(number(15)?),
        reaped_children_ticks: number(16)?.saturating_add(number(17)?),
        n_threads: small(20)?,
        start_time_ticks: number(22)?,
        last_cpu: small(39)?,
        class: small(41)?,
        env_start: number(50),
        env_end: number(51),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_counted_from_the_last_parenthesis_of_the_name() {
        let line = b"5779 (a) b (x) S 5778 5770 5771 0 -1 2097152 4042 49802 0 1 7 4 43 16 20 0 3 0 \
            124425 5124096 970 18446744073709551615 1 2 3 0 0 0 65536 4 1132560123 1 0 0 17 1 50 2 0 0 0";
        let stat = parse_stat(line).expect("a line of the kernel");
        assert_eq!(stat.comm_text(), "a) b (x");
        assert_eq!((stat.state, stat.parent, stat.group, stat.session), ('S', 5778, 5770, 5771));
        assert_eq!((stat.cpu_ticks, stat.reaped_children_ticks), (11, 59));
        assert_eq!((stat.n_threads, stat.start_time_ticks, stat.last_cpu), (3, 124_425, 1));
        assert_eq!((stat.class, stat.is_kernel_thread, stat.env_end), (2, true, None));
        assert!(ProcStat::is_real_time(stat.class) && !stat.has_exited());
        assert_eq!(parse_stat(&line[..line.len() / 2]), None);
    }

    #[test]
    fn a_task_that_is_being_reaped_has_exited() {
        let line = b"1369 (true) X 0 -1 -1 0 -1 4228108 0 0 0 0 0 0 0 0 20 0 0 0 \
            124425 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";
        let stat = parse_stat(line).expect("a line of the kernel");
        assert!(stat.has_exited());
        assert_eq!((stat.group, stat.session, stat.start_time_ticks), (0, 0, 124_425));
    }

    #[test]
    fn a_running_program_without_an_environment_address_is_in_an_exec() {
        let check = |state: &str, flags: u64, env_end: u64, expected: bool| {
            let zeros = |n: usize| "0 ".repeat(n);
            let line = format!("7 (a) b) {state} {}{flags} {}{env_end} 0\n", zeros(5), zeros(41));
            let stat = parse_stat(line.as_bytes()).expect("a whole line");
            assert_eq!(stat.is_in_exec(), expected, "{line}");
        };
        check("R", 0, 0, true);
        check("R", 0, 4096, false);
        check("Z", 0, 0, false);
        check("S", PF_KTHREAD, 0, false);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_stat(&text);
        }
    }
}
