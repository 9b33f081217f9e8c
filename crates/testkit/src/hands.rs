//! In-process tools of each effect, with counters.
