//! Flag that stops a long computation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flag that requests a stop. Computations poll the flag. Every clone can raise it, and no clone can lower it.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Raises the flag of all clones.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the flag was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
