//! The harness must be able to fail: a good story passes, each doctored one is seen.

use super::*;
