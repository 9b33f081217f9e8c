//! Holds the children of this crate's tests, as `viv` holds its own. Never shipped.

use std::process::ExitCode;

fn main() -> ExitCode {
    tools::child::hold_if_asked().unwrap_or(ExitCode::FAILURE)
}
