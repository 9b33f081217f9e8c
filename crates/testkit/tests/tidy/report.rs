//! Collects all violations, so that one run reports all of them.

/// The violations of one rule.
#[derive(Default)]
pub(crate) struct Report(Vec<String>);

impl Report {
    /// Adds a violation: the place, and what to do there.
    pub(crate) fn add(&mut self, place: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.0.push(format!("{place}: {what}"));
    }

    /// Ends the test; fails if there are violations.
    #[track_caller]
    pub(crate) fn finish(self) {
        assert!(self.0.is_empty(), "\n{}\n({} to fix)", self.0.join("\n"), self.0.len());
    }
}
