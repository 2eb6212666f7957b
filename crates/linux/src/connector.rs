//! Births and ends of processes as the kernel tells them: the proc connector.
//!
//! ```text
//!   netlink datagram = one or more messages:
//!     nlmsghdr 16 bytes │ cn_msg 20 bytes │ what u32, cpu u32, time u64 │ numbers by kind
//! ```
//!
//! A netlink socket of the family `NETLINK_CONNECTOR` that joined the group of processes hears of every
//! fork, exec and end on the machine, as they happen. The kernel tells it only in the first namespaces
//! of processes and users, and only to who has `CAP_NET_ADMIN` there; elsewhere it stays silent, and
//! so the answer to our greeting decides whether it can be used.
//!
//! When more happens than the buffer holds, the kernel drops the rest and says so once (`ENOBUFS`):
//! [`Heard::Lost`], after which everything has to be looked through again.
//!
//! Layouts: `linux/cn_proc.h` and `linux/connector.h`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::fault;

/// The group of process events, as index and as value.
const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
const LISTEN: u32 = 1;
const NETLINK_HEADER: usize = 16;
const CONNECTOR_HEADER: usize = 20;
const EVENT_HEADER: usize = 16;
/// What happened, as bits.
const NONE: u32 = 0;
const FORK: u32 = 1;
const EXEC: u32 = 2;
const EXIT: u32 = 0x8000_0000;
/// Room for some twenty thousand events between two turns.
const BUFFER_BYTES: libc::c_int = 2 << 20;

/// Something that happened to a process. Threads that come and go are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A process was born.
    Forked {
        /// Who started it.
        parent: u32,
        /// Its number.
        child: u32,
    },
    /// A process became another program.
    Exec(u32),
    /// A process ended.
    Exited(u32),
    /// Some of what happened was lost.
    Lost,
}

/// A socket that hears of processes.
#[derive(Debug)]
pub struct Connector {
    socket: OwnedFd,
}

impl Connector {
    /// Begins to listen.
    ///
    /// # Errors
    /// What the kernel says; `Unsupported` where it says nothing, as in a container.
    pub fn open() -> io::Result<Self> {
        let connector = Connector { socket: socket()? };
        connector.bind()?;
        connector.greet()?;
        let mut is_answered = false;
        let mut buffer = [0; 4096];
        while let Some(bytes) = connector.receive(&mut buffer)? {
            is_answered |= messages(bytes).any(|message| message.what == NONE);
        }
        match is_answered {
            true => Ok(connector),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Tells everything that happened since the last call, oldest first.
    pub fn drain(&self, mut each: impl FnMut(ProcessEvent)) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.receive(&mut buffer) {
                Ok(Some(bytes)) => parse(bytes).for_each(&mut each),
                Ok(None) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    each(ProcessEvent::Lost)
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn bind(&self) -> io::Result<()> {
        fault::refuse("bind")?;
        // SAFETY: all bytes zero is a valid sockaddr_nl; the family and the groups follow.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = CN_IDX_PROC;
        let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        let address = std::ptr::from_ref(&address).cast();
        // SAFETY: the address is a sockaddr_nl of that length and outlives the call.
        let done = unsafe { libc::bind(self.socket.as_raw_fd(), address, len) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn greet(&self) -> io::Result<()> {
        fault::retry("send", || Ok(rustix::io::write(&self.socket, &greeting())?))?;
        Ok(())
    }

    /// One datagram; `None` when there is none now.
    fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        let receive = || match rustix::io::read(&self.socket, &mut *buffer) {
            Ok(n_bytes) => Ok(Some(n_bytes)),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        };
        let n_bytes = fault::retry("recv", receive)?;
        Ok(n_bytes.map(|n_bytes| &buffer[..n_bytes]))
    }
}

fn socket() -> io::Result<OwnedFd> {
    fault::refuse("socket")?;
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes numbers only.
    let raw = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_CONNECTOR) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let bytes = std::ptr::from_ref(&BUFFER_BYTES).cast();
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // The larger one needs a right that we may lack; without either we only lose events sooner.
    for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
        // SAFETY: the option is an int of that length, which outlives the call.
        let _ = unsafe { libc::setsockopt(raw, libc::SOL_SOCKET, option, bytes, len) };
    }
    Ok(socket)
}

/// The message that asks for events.
fn greeting() -> Vec<u8> {
    let len = (NETLINK_HEADER + CONNECTOR_HEADER + 4) as u32;
    let mut bytes = Vec::new();
    bytes.extend(len.to_ne_bytes());
    bytes.extend((libc::NLMSG_DONE as u16).to_ne_bytes());
    bytes.extend([0; 2 + 4 + 4]); // Flags, sequence, and our address, which the kernel fills in.
    bytes.extend([CN_IDX_PROC, CN_VAL_PROC, 0, 0].iter().flat_map(|n| n.to_ne_bytes()));
    bytes.extend(4u16.to_ne_bytes());
    bytes.extend([0; 2]);
    bytes.extend(LISTEN.to_ne_bytes());
    bytes
}

/// One event of a datagram.
struct Message<'a> {
    what: u32,
    numbers: &'a [u8],
}

/// What a datagram tells of processes.
pub fn parse(bytes: &[u8]) -> impl Iterator<Item = ProcessEvent> + '_ {
    messages(bytes).filter_map(|message| message.heard())
}

/// The events of a datagram. A message that is cut off ends it.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        loop {
            let len = number(bytes, 0)? as usize;
            let message = bytes.get(..len).filter(|_| NETLINK_HEADER <= len)?;
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
            let of_processes = number(message, NETLINK_HEADER) == Some(CN_IDX_PROC)
                && number(message, NETLINK_HEADER + 4) == Some(CN_VAL_PROC);
            let event = message.get(NETLINK_HEADER + CONNECTOR_HEADER..).unwrap_or_default();
            if let (true, Some(what)) = (of_processes, number(event, 0)) {
                return Some(Message { what, numbers: event.get(EVENT_HEADER..).unwrap_or(&[]) });
            }
        }
    })
}

impl Message<'_> {
    fn heard(&self) -> Option<ProcessEvent> {
        let number = |idx: usize| number(self.numbers, 4 * idx);
        match self.what {
            FORK => {
                let (parent, child, process) = (number(1)?, number(2)?, number(3)?);
                (child == process).then_some(ProcessEvent::Forked { parent, child })
            }
            EXEC => Some(ProcessEvent::Exec(number(1)?)),
            EXIT => (number(0)? == number(1)?).then_some(ProcessEvent::Exited(number(0)?)),
            _ => None,
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message as the kernel writes it, by the layout of its headers.
    fn message(what: u32, numbers: &[u32]) -> Vec<u8> {
        let len = NETLINK_HEADER + CONNECTOR_HEADER + EVENT_HEADER + 4 * numbers.len();
        let mut bytes = vec![0; len];
        bytes[..4].copy_from_slice(&(len as u32).to_ne_bytes());
        bytes[16..20].copy_from_slice(&1u32.to_ne_bytes());
        bytes[20..24].copy_from_slice(&1u32.to_ne_bytes());
        bytes[36..40].copy_from_slice(&what.to_ne_bytes());
        for (idx, number) in numbers.iter().enumerate() {
            bytes[52 + 4 * idx..56 + 4 * idx].copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    fn heard(bytes: &[u8]) -> Vec<ProcessEvent> {
        parse(bytes).collect()
    }

    #[test]
    fn births_execs_and_ends_of_processes_are_told_and_those_of_threads_are_not() {
        let born = message(FORK, &[10, 10, 20, 20]);
        let thread = message(FORK, &[10, 10, 21, 10]);
        let became = message(EXEC, &[20, 20]);
        let (ended, thread_ended) =
            (message(EXIT, &[20, 20, 0, 17]), message(EXIT, &[21, 10, 0, 0]));
        let all = [born, thread, became, thread_ended, message(4, &[1, 1]), ended].concat();
        let expected = [
            ProcessEvent::Forked { parent: 10, child: 20 },
            ProcessEvent::Exec(20),
            ProcessEvent::Exited(20),
        ];
        assert_eq!(heard(&all), expected);
    }

    #[test]
    fn what_is_cut_off_or_of_another_group_is_left_out() {
        let born = message(FORK, &[10, 10, 20, 20]);
        assert_eq!(heard(&born[..born.len() - 4]), []);
        let mut other = born.clone();
        other[16] = 9;
        assert_eq!(heard(&[other, born].concat()).len(), 1);
        assert_eq!(heard(&message(FORK, &[10])), []);
    }

    #[test]
    fn a_child_of_ours_is_heard_of_where_the_kernel_tells() {
        let connector = match Connector::open() {
            Ok(connector) => connector,
            Err(error) => return println!("not run: no proc connector here ({error})"),
        };
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let pid = child.id();
        child.wait().expect("our child");
        let mut all = Vec::new();
        connector.drain(|heard| all.push(heard)).expect("a socket");
        assert!(
            all.contains(&ProcessEvent::Forked { parent: std::process::id(), child: pid }),
            "{all:?}"
        );
        assert!(all.contains(&ProcessEvent::Exec(pid)) && all.contains(&ProcessEvent::Exited(pid)));
    }

    proptest! {
        #[test]
        fn no_datagram_makes_the_parser_fail_or_go_on_for_ever(bytes: Vec<u8>) {
            prop_assert!(heard(&bytes).len() <= bytes.len());
        }

        #[test]
        fn a_message_of_any_length_is_survived(len: u32, numbers: Vec<u32>) {
            let mut bytes = message(FORK, &numbers);
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            heard(&bytes);
        }
    }
}
