//! Search for the signatures of programs, in a helper thread.
//!
//! The search opens files of other users and reads whole programs. This can take longer than a turn, and a network file
//! system can block it. The event loop therefore waits [`WAIT`] for an answer. A process without an answer becomes a job
//! later, or without a signature if the search is blocked.
//!
//! ```text
//!   event loop ── process ──► helper thread: search
//!              ◄── signature ──
//! ```

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use base::{Nanos, TaskId};
use linux::fault;
use program::profile::ProfileFile;

/// Time for which the event loop waits. A search takes less than a millisecond, except for a large program with a
/// signature. Guessed.
const WAIT: Duration = Duration::from_millis(100);
/// Time after which a search counts as blocked. Guessed: the digest of the largest program takes some seconds.
const BLOCKED_AFTER: Nanos = Nanos::from_secs(10);

/// The profile in the signature of a program, and a note about a signature that is or is not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramSignature {
    /// The profile, with the program or the side file that contains it.
    pub profile: Option<ProfileFile>,
    /// Text for the user.
    pub note: Option<String>,
}

/// Finds the signature of the program that a process executes.
pub type SearchFn = Box<dyn FnMut(TaskId) -> ProgramSignature + Send>;

/// The helper thread, if signatures are searched.
#[derive(Default)]
pub(super) struct SignatureSearch(Option<Helper>);

struct Helper {
    requests: Sender<TaskId>,
    answers: Receiver<ProgramSignature>,
    /// The process whose signature is searched, and the time of the request.
    pending: Option<(TaskId, Nanos)>,
    /// The last answer that was not used.
    answered: Option<(TaskId, ProgramSignature)>,
}

impl SignatureSearch {
    /// Starts the helper thread. It ends with its current search after the event loop has ended.
    pub(super) fn start(mut search: SearchFn) -> std::io::Result<Self> {
        let (requests, to_helper) = channel::<TaskId>();
        let (from_helper, answers) = channel();
        let faults = fault::plan();
        fault::inject("clone3")?;
        std::thread::Builder::new().name("signatures".to_owned()).spawn(move || {
            fault::set_plan(faults);
            for process in to_helper {
                if from_helper.send(search(process)).is_err() {
                    return;
                }
            }
        })?;
        Ok(SignatureSearch(Some(Helper { requests, answers, pending: None, answered: None })))
    }

    /// Returns the signature of the program that a process executes, or `None` if the answer is not there yet.
    pub(super) fn find(&mut self, process: TaskId, now: Nanos) -> Option<ProgramSignature> {
        let Some(helper) = &mut self.0 else { return Some(ProgramSignature::default()) };
        match helper.find(process, now) {
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout) => Some(ProgramSignature {
                note: Some(
                    "signatures are not used while the file of a program cannot be read".to_owned(),
                ),
                profile: None,
            }),
            Err(RecvTimeoutError::Disconnected) => {
                self.0 = None;
                let note = "signatures are no longer used: their helper thread has exited";
                Some(ProgramSignature { note: Some(note.to_owned()), profile: None })
            }
        }
    }
}

impl Helper {
    /// # Errors
    /// `Timeout`: the search is blocked. `Disconnected`: the thread has exited.
    fn find(
        &mut self,
        process: TaskId,
        now: Nanos,
    ) -> Result<Option<ProgramSignature>, RecvTimeoutError> {
        self.receive(Duration::ZERO)?;
        let is_answered = |answered: &mut (TaskId, _)| answered.0 == process;
        if self.answered.as_mut().is_none_or(|answered| !is_answered(answered)) {
            if let Some((_, since)) = self.pending {
                let is_blocked = since.saturating_add(BLOCKED_AFTER) <= now;
                return if is_blocked { Err(RecvTimeoutError::Timeout) } else { Ok(None) };
            }
            self.requests.send(process).map_err(|_| RecvTimeoutError::Disconnected)?;
            self.pending = Some((process, now));
            self.receive(WAIT)?;
        }
        Ok(self.answered.take_if(is_answered).map(|(_, signature)| signature))
    }

    /// Receives the answer to the pending request, if it arrives in this time.
    fn receive(&mut self, wait: Duration) -> Result<(), RecvTimeoutError> {
        let Some((process, _)) = self.pending else { return Ok(()) };
        match self.answers.recv_timeout(wait) {
            Ok(signature) => {
                (self.pending, self.answered) = (None, Some((process, signature)));
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(RecvTimeoutError::Disconnected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(tid: u32) -> TaskId {
        TaskId { tid, start_time_ticks: 1 }
    }

    fn signature(process: TaskId) -> ProgramSignature {
        ProgramSignature { profile: None, note: Some(process.tid.to_string()) }
    }

    /// Repeats the search until there is an answer.
    fn wait_for(search: &mut SignatureSearch, tid: u32) -> ProgramSignature {
        std::iter::repeat_with(|| search.find(process(tid), Nanos::ZERO))
            .flatten()
            .next()
            .expect("an answer")
    }

    /// Returns a search that is blocked until the sender sends or is dropped.
    fn blocked() -> (SignatureSearch, Sender<()>) {
        let (release, released) = channel();
        let search = move |process| {
            let _ = released.recv();
            signature(process)
        };
        (SignatureSearch::start(Box::new(search)).expect("a thread"), release)
    }

    #[test]
    fn without_a_search_no_program_has_a_signature() {
        let found = SignatureSearch::default().find(process(1), Nanos::ZERO);
        assert_eq!(found, Some(ProgramSignature::default()));
    }

    #[test]
    fn each_process_gets_its_own_answer_also_after_the_answer_of_another_process() {
        let (mut search, release) = blocked();
        assert_eq!(search.find(process(1), Nanos::ZERO), None);
        assert_eq!(search.find(process(2), Nanos::ZERO), None, "the first search is not over");
        drop(release);
        assert_eq!(wait_for(&mut search, 2), signature(process(2)));
        assert_eq!(wait_for(&mut search, 1), signature(process(1)));
    }

    #[test]
    fn a_blocked_search_gives_processes_no_signature_and_ends_when_it_is_released() {
        let (mut search, release) = blocked();
        assert_eq!(search.find(process(1), Nanos::ZERO), None);
        let found = search.find(process(2), BLOCKED_AFTER).expect("no further wait");
        assert!(found.profile.is_none() && found.note.expect("a note").contains("cannot be read"));
        drop(release);
        assert_eq!(wait_for(&mut search, 3), signature(process(3)));
    }

    #[test]
    fn after_the_end_of_the_thread_no_program_has_a_signature() {
        let mut search =
            SignatureSearch::start(Box::new(|_| panic!("injected"))).expect("a thread");
        let found = wait_for(&mut search, 1);
        assert!(found.note.expect("a note").contains("helper thread has exited"));
        assert_eq!(search.find(process(2), Nanos::ZERO), Some(ProgramSignature::default()));
    }
}
