//! A flag that work looks at now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says that work is no longer wanted. Whoever has a clone can raise it; nobody lowers it.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Whoever looks from now on leaves off.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether to leave off.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
