//! What comes from outside, what agents do by themselves, and what waits for people. One module per group.

pub(crate) mod answer;
pub(crate) mod hook;
pub(crate) mod late;
pub(crate) mod paused;
pub(crate) mod plans;
