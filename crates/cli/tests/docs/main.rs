//! The pages for people: every command that they show is run as a reader would run it, what they
//! say of its output is compared, and pages that are generated equal what the code says now.

#![allow(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

mod errors;
mod named;
mod page;
mod play;
mod shown;
mod tables;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// One test for each page, by its name in `docs/`.
macro_rules! pages {
    ($($test:ident = $file:literal;)+) => {
        $(#[test]
        fn $test() {
            play::play($file);
        })+

        #[test]
        fn every_page_is_played() {
            let listed: BTreeSet<&str> = [$($file),+].into();
            for entry in std::fs::read_dir(root().join("docs")).unwrap() {
                let name = format!("docs/{}", entry.unwrap().file_name().to_string_lossy());
                assert!(
                    !name.ends_with(".md") || listed.contains(name.as_str()),
                    "`{name}` is not in the list of this test: its commands would be run by nobody"
                );
            }
        }
    };
}

pages! {
    readme = "README.md";
    first_ten_minutes = "docs/first-ten-minutes.md";
    agents = "docs/agents.md";
    scenarios = "docs/scenarios.md";
    models = "docs/models.md";
    operating = "docs/operating.md";
    reliability = "docs/reliability.md";
    density = "docs/density.md";
    performance = "docs/performance.md";
    concepts = "docs/concepts.md";
    spaces = "docs/spaces.md";
    api_page = "docs/api.md";
    errors_page = "docs/errors.md";
}
