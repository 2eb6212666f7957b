//! The clock of a simulated machine: the loop over the events of a grain.

/// A machine that advances from event to event.
pub(crate) trait Grain {
    /// An event of this grain.
    type Event;

    /// Returns the current time.
    fn now(&self) -> u64;

    /// Sets the current time to a later time.
    fn set_now(&mut self, now: u64);

    /// Applies all pending changes, and returns the time of the next event.
    fn next_event(&mut self) -> Option<u64>;

    /// Removes and returns the next event if its time is not after `at`. Events at one instant are ordered by the grain.
    fn take_event(&mut self, at: u64) -> Option<Self::Event>;

    /// Handles an event at the current time.
    fn handle(&mut self, event: Self::Event);

    /// Returns whether a notice for the host is pending.
    fn has_notices(&self) -> bool;
}

/// Advances a machine as [`super::SimMachine::advance`] describes.
pub(crate) fn advance<G: Grain>(grain: &mut G, until: u64, mut n_instants: u64) {
    while let Some(at) = grain.next_event().filter(|&at| at <= until) {
        if grain.has_notices() || n_instants == 0 {
            return;
        }
        n_instants -= 1;
        grain.set_now(grain.now().max(at));
        while let Some(event) = grain.take_event(at) {
            grain.handle(event);
        }
        if grain.has_notices() {
            return;
        }
    }
    grain.set_now(grain.now().max(until));
}
