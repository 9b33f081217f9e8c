//! The promises of the ports as named tests, run unchanged on every backend.
