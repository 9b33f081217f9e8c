//! What comes from outside and what agents do by themselves. One module per group.

pub(crate) mod hook;
