//! Gathers what is wrong, so that one run tells all of it.

/// What one rule found.
#[derive(Default)]
pub(crate) struct Report(Vec<String>);

impl Report {
    /// Something is wrong at a place; says what to do there.
    pub(crate) fn add(&mut self, place: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.0.push(format!("{place}: {what}"));
    }

    /// Ends the rule's test.
    #[track_caller]
    pub(crate) fn finish(self) {
        assert!(self.0.is_empty(), "\n{}\n({} to mend)", self.0.join("\n"), self.0.len());
    }
}
