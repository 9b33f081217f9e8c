//! Models that are listened to: what went wrong with them last, so that a story which waits for a
//! model can say so. This module must not know what the model is asked for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::port::{BoxStream, Clock, Model, ModelError, ModelInfo, ModelRequest, Models, Piece};
use futures_util::StreamExt as _;

use crate::bounds;

/// What was seen of all models.
#[derive(Debug, Default)]
struct SeenPrompts {
    /// Connections that failed, since anything answered.
    unreachable: u32,
    /// What went wrong last, unless somebody has answered since.
    last: Option<ModelError>,
    /// When a question that is still open had its last sign of life (monotonic).
    open: Option<u64>,
}

/// The models of a world in real time, and a witness of what they do.
#[derive(Clone)]
pub(crate) struct Witness {
    models: Arc<dyn Models>,
    seen: Arc<Mutex<SeenPrompts>>,
    clock: Arc<dyn Clock>,
}

impl Witness {
    pub(crate) fn of(models: Arc<dyn Models>, clock: Arc<dyn Clock>) -> Self {
        Self { models, seen: Arc::default(), clock }
    }

    /// Why nothing more is to be hoped for. Once a connection may fail; the second time nobody is there.
    pub(crate) fn gone(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let last = seen.last.as_ref().filter(|_| seen.unreachable >= bounds::UNREACHABLE_MAX)?;
        Some(format!("the model does not answer: {last}"))
    }

    /// What is wrong with the models, as far as it is known.
    pub(crate) fn trouble(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &seen.last {
            return Some(format!("the model failed: {last}"));
        }
        let silent = Duration::from_millis(self.clock.monotonic_ms().saturating_sub(seen.open?));
        (silent >= bounds::SILENCE).then(|| format!("the model says nothing for {} s", silent.as_secs()))
    }

    fn note(&self, piece: &Result<Piece, ModelError>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match piece {
            Ok(Piece::Done(_)) => *seen = SeenPrompts::default(),
            Ok(_) => {
                *seen = SeenPrompts { open: Some(self.clock.monotonic_ms()), ..SeenPrompts::default() };
            }
            Err(error) => {
                let unreachable = matches!(error, ModelError::Network(_));
                seen.unreachable = if unreachable { seen.unreachable + 1 } else { 0 };
                seen.last = Some(error.clone());
                seen.open = None;
            }
        }
    }
}

impl Models for Witness {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let model = self.models.model(name)?;
        Ok(Arc::new(Watched { model, witness: self.clone() }))
    }
}

/// One model.
struct Watched {
    model: Arc<dyn Model>,
    witness: Witness,
}

impl Model for Watched {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let witness = self.witness.clone();
        witness.seen.lock().unwrap_or_else(PoisonError::into_inner).open = Some(witness.clock.monotonic_ms());
        Box::pin(self.model.stream(request).inspect(move |piece| witness.note(piece)))
    }
}
