//! Where work leaves its value. What runs work is compiled once, and only the work itself once for each kind of value.

use std::sync::{Arc, Mutex};

use agent::port::{BoxFuture, StoreError};

use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::engine::mutex::lock;

/// The place of one value, shared by the work and by who waits for it.
pub(crate) struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T> Slot<T> {
    /// Both handles of a new slot: for the work, and for who waits.
    pub(crate) fn pair() -> (Self, Self) {
        let value = Arc::default();
        (Self(Arc::clone(&value)), Self(value))
    }

    /// Keeps the value of work that has run, in place of one from an earlier run.
    pub(crate) fn keep(&self, outcome: Outcome<T>) -> Outcome<()> {
        *lock(&self.0) = Some(outcome?);
        Ok(())
    }

    /// The value, after the work has succeeded.
    pub(crate) fn take(&self) -> Outcome<T> {
        lock(&self.0).take().ok_or(Fault::Store(StoreError::Closed))
    }
}

impl<T: Send + 'static> Slot<T> {
    /// The value, once the work `ran`.
    pub(crate) fn when(self, ran: BoxFuture<'static, Outcome<()>>) -> BoxFuture<'static, Outcome<T>> {
        Box::pin(async move {
            ran.await?;
            self.take()
        })
    }
}
