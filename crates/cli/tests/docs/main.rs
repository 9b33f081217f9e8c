//! Tests of the documentation: every command on a page is run as a reader would run it, its output is
//! compared with the page, and generated pages must be up to date.

#![allow(clippy::disallowed_methods, reason = "tests start programs as they need")]
#![allow(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

mod errors;
mod named;
mod page;
mod play;
mod shown;
mod tables;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages below `docs/`, as paths from the top of the repository.
pub(crate) fn docs() -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["docs", "docs/internals"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy());
            if name.ends_with(".md") {
                found.push(name);
            }
        }
    }
    found
}

/// One test for each page.
macro_rules! pages {
    ($($test:ident = $file:literal;)+) => {
        $(#[test]
        fn $test() {
            play::play($file);
        })+

        #[test]
        fn every_page_is_listed() {
            let listed: BTreeSet<&str> = [$($file),+].into();
            for name in docs() {
                assert!(
                    listed.contains(name.as_str()),
                    "`{name}` is not in the list of this test, so its commands would not be run"
                );
            }
        }
    };
}

pages! {
    readme = "README.md";
    first_ten_minutes = "docs/first-ten-minutes.md";
    on_call = "docs/on-call.md";
    agents = "docs/agents.md";
    memory = "docs/memory.md";
    approvals = "docs/approvals.md";
    plans = "docs/plans.md";
    webhooks = "docs/webhooks.md";
    scenarios = "docs/scenarios.md";
    models = "docs/models.md";
    install = "docs/install.md";
    upgrade = "docs/upgrade.md";
    operating = "docs/operating.md";
    reliability = "docs/reliability.md";
    tools = "docs/tools.md";
    protocol = "docs/internals/protocol.md";
    storage = "docs/internals/storage.md";
    prompt = "docs/internals/prompt.md";
    decisions = "docs/internals/decisions.md";
    internals = "docs/internals/README.md";
    performance = "docs/performance.md";
    concepts = "docs/concepts.md";
    spaces = "docs/spaces.md";
    api_page = "docs/api.md";
    errors_page = "docs/errors.md";
}
