//! What tests share: contract suites that every backend runs, vendor wire stubs, in-process tools of
//! each effect with counters. A dev-dependency of `tests/` folders only.

pub mod contract;
pub mod long_life;
mod protocol;
#[cfg(feature = "stubs")]
pub mod stubs;
pub mod test_tools;
