//! Start, exec and exit events of processes: the proc connector of the kernel.
//!
//! ```text
//!   netlink datagram = one or more messages:
//!     nlmsghdr 16 bytes │ cn_msg 20 bytes │ what u32, cpu u32, time u64 │ numbers, by event
//! ```
//!
//! A socket of the family `NETLINK_CONNECTOR` that subscribes to the group of process events receives every fork, exec
//! and exit on the machine. The kernel sends the events only to the initial PID and user namespaces, and only with
//! `CAP_NET_ADMIN`. In other namespaces the kernel ignores the subscription without an error, so [`Connector::open`]
//! waits for the acknowledgement.
//!
//! If the receive buffer overflows, the kernel drops events and reports `ENOBUFS` once ([`ProcessEvent::Lost`]). The
//! caller then has to scan all processes again.
//!
//! Layouts: `linux/cn_proc.h` and `linux/connector.h`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::fault;

/// Connector group of process events: index and value.
const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
const LISTEN: u32 = 1;
const NETLINK_HEADER: usize = 16;
const CONNECTOR_HEADER: usize = 20;
const EVENT_HEADER: usize = 16;
/// Event bits (`what`).
const NONE: u32 = 0;
const FORK: u32 = 1;
const EXEC: u32 = 2;
const EXIT: u32 = 0x8000_0000;
/// Size of the receive buffer in bytes: about 20,000 events.
const BUFFER_BYTES: libc::c_int = 2 << 20;

/// An event of a process. Events of threads are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A process was started.
    Forked {
        /// PID of the parent.
        parent: u32,
        /// PID of the new process.
        child: u32,
    },
    /// A process called exec.
    Exec(u32),
    /// A process exited.
    Exited(u32),
    /// Events were dropped.
    Lost,
}

/// A socket subscribed to process events.
#[derive(Debug)]
pub struct Connector {
    socket: OwnedFd,
}

impl Connector {
    /// Subscribes to process events.
    ///
    /// # Errors
    /// The kernel rejects a call. The kind is `Unsupported` if the kernel does not answer, for example in a container.
    pub fn open() -> io::Result<Self> {
        let connector = Connector { socket: socket()? };
        connector.bind()?;
        connector.subscribe()?;
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

    /// Passes every event since the last call to `each`, oldest first.
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
        fault::inject("bind")?;
        // SAFETY: all bytes zero is a valid sockaddr_nl.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = CN_IDX_PROC;
        let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        let address = std::ptr::from_ref(&address).cast();
        // SAFETY: the pointer is to a sockaddr_nl of this length, which outlives the call.
        let done = unsafe { libc::bind(self.socket.as_raw_fd(), address, len) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn subscribe(&self) -> io::Result<()> {
        fault::retry("send", || Ok(rustix::io::write(&self.socket, &subscription())?))?;
        Ok(())
    }

    /// Receives one datagram; `None` if none is pending.
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
    fault::inject("socket")?;
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    let raw = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_CONNECTOR) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let bytes = std::ptr::from_ref(&BUFFER_BYTES).cast();
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SO_RCVBUFFORCE needs CAP_NET_ADMIN. With a smaller buffer events are lost earlier.
    for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
        // SAFETY: the pointer is to an int of this length, which outlives the call.
        let _ = unsafe { libc::setsockopt(raw, libc::SOL_SOCKET, option, bytes, len) };
    }
    Ok(socket)
}

/// Returns the message that subscribes to events (PROC_CN_MCAST_LISTEN).
fn subscription() -> Vec<u8> {
    let len = (NETLINK_HEADER + CONNECTOR_HEADER + 4) as u32;
    let mut bytes = Vec::new();
    bytes.extend(len.to_ne_bytes());
    bytes.extend((libc::NLMSG_DONE as u16).to_ne_bytes());
    bytes.extend([0; 2 + 4 + 4]); // Flags, sequence, and the port id, which the kernel fills in.
    bytes.extend([CN_IDX_PROC, CN_VAL_PROC, 0, 0].iter().flat_map(|n| n.to_ne_bytes()));
    bytes.extend(4u16.to_ne_bytes());
    bytes.extend([0; 2]);
    bytes.extend(LISTEN.to_ne_bytes());
    bytes
}

/// One message of a datagram.
struct Message<'a> {
    what: u32,
    numbers: &'a [u8],
}

/// Parses the events of a datagram.
pub fn parse(bytes: &[u8]) -> impl Iterator<Item = ProcessEvent> + '_ {
    messages(bytes).filter_map(|message| message.event())
}

/// Parses the messages of a datagram, up to the first truncated message.
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
    fn event(&self) -> Option<ProcessEvent> {
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

    /// Returns a message in the layout of the kernel.
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

    fn events(bytes: &[u8]) -> Vec<ProcessEvent> {
        parse(bytes).collect()
    }

    #[test]
    fn events_of_processes_are_parsed_and_events_of_threads_are_skipped() {
        let fork = message(FORK, &[10, 10, 20, 20]);
        let thread = message(FORK, &[10, 10, 21, 10]);
        let exec = message(EXEC, &[20, 20]);
        let (exit, thread_exit) = (message(EXIT, &[20, 20, 0, 17]), message(EXIT, &[21, 10, 0, 0]));
        let all = [fork, thread, exec, thread_exit, message(4, &[1, 1]), exit].concat();
        let expected = [
            ProcessEvent::Forked { parent: 10, child: 20 },
            ProcessEvent::Exec(20),
            ProcessEvent::Exited(20),
        ];
        assert_eq!(events(&all), expected);
    }

    #[test]
    fn truncated_messages_and_other_groups_are_skipped() {
        let fork = message(FORK, &[10, 10, 20, 20]);
        assert_eq!(events(&fork[..fork.len() - 4]), []);
        let mut other = fork.clone();
        other[16] = 9;
        assert_eq!(events(&[other, fork].concat()).len(), 1);
        assert_eq!(events(&message(FORK, &[10])), []);
    }

    #[test]
    fn a_child_of_this_process_is_reported_if_the_connector_works() {
        let connector = match Connector::open() {
            Ok(connector) => connector,
            Err(error) => return println!("not run: no proc connector ({error})"),
        };
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let pid = child.id();
        child.wait().expect("a child of the test");
        let mut all = Vec::new();
        connector.drain(|event| all.push(event)).expect("a socket");
        assert!(
            all.contains(&ProcessEvent::Forked { parent: std::process::id(), child: pid }),
            "{all:?}"
        );
        assert!(all.contains(&ProcessEvent::Exec(pid)) && all.contains(&ProcessEvent::Exited(pid)));
    }

    proptest! {
        #[test]
        fn no_datagram_makes_the_parser_panic_or_loop(bytes: Vec<u8>) {
            prop_assert!(events(&bytes).len() <= bytes.len());
        }

        #[test]
        fn no_message_length_makes_the_parser_panic(len: u32, numbers: Vec<u32>) {
            let mut bytes = message(FORK, &numbers);
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            events(&bytes);
        }
    }
}
