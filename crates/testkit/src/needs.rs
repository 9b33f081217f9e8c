//! Programs that some tests need and that are not on every machine. Must not know what they are needed for.

/// The variable that `.ci/run` sets: every test runs, and none passes without having looked at anything.
const ALL_TESTS: &str = "VIV_ALL_TESTS";

/// Whether what a test needs is there. If it is not, the test says that it is skipped.
///
/// # Panics
/// If it is not there and the environment says that all tests run.
#[allow(clippy::print_stdout, reason = "a test that skips something says so")]
pub fn is_here(what: &str, found: bool) -> bool {
    if !found {
        assert!(
            std::env::var_os(ALL_TESTS).is_none(),
            "{what} is not installed, and `{ALL_TESTS}` is set: install it"
        );
        println!("skipped: {what} is not installed");
    }
    found
}
