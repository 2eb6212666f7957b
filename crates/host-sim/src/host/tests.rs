//! The simulated machine as a host.
