//! The promises of the whole, tried on the built program: see `promises/`.
