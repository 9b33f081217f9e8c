//! Monitors the models of a world and remembers their last failure, so that a story that waits for a model can
//! report why. This module must not know what the model is asked for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::port::{BoxStream, Clock, Model, ModelError, ModelInfo, ModelRequest, Models, Piece};
use futures_util::StreamExt as _;

use crate::bounds;

/// The state of all models, as observed.
#[derive(Debug, Default)]
struct ModelActivity {
    /// Failed connections since the last successful one.
    unreachable: u32,
    /// The last error, unless a model has answered since.
    last: Option<ModelError>,
    /// When the open request last received something (monotonic milliseconds).
    open: Option<u64>,
}

/// The models of a world in real time, monitored.
#[derive(Clone)]
pub(crate) struct ModelMonitor {
    models: Arc<dyn Models>,
    seen: Arc<Mutex<ModelActivity>>,
    clock: Arc<dyn Clock>,
}

impl ModelMonitor {
    pub(crate) fn of(models: Arc<dyn Models>, clock: Arc<dyn Clock>) -> Self {
        Self { models, seen: Arc::default(), clock }
    }

    /// The reason to give up: several connections in a row have failed. A single failed connection is tolerated.
    pub(crate) fn give_up_reason(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let last = seen.last.as_ref().filter(|_| seen.unreachable >= bounds::UNREACHABLE_MAX)?;
        Some(format!("the model does not answer: {last}"))
    }

    /// What is wrong with the models, if anything is known.
    pub(crate) fn trouble(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &seen.last {
            return Some(format!("the model failed: {last}"));
        }
        let silent = Duration::from_millis(self.clock.monotonic_ms().saturating_sub(seen.open?));
        (silent >= bounds::SILENCE).then(|| format!("the model has not answered for {} s", silent.as_secs()))
    }

    fn note(&self, piece: &Result<Piece, ModelError>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match piece {
            Ok(Piece::Done(_)) => *seen = ModelActivity::default(),
            Ok(_) => {
                *seen = ModelActivity { open: Some(self.clock.monotonic_ms()), ..ModelActivity::default() };
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

impl Models for ModelMonitor {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let model = self.models.model(name)?;
        Ok(Arc::new(MonitoredModel { model, monitor: self.clone() }))
    }
}

/// One model.
struct MonitoredModel {
    model: Arc<dyn Model>,
    monitor: ModelMonitor,
}

impl Model for MonitoredModel {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let monitor = self.monitor.clone();
        monitor.seen.lock().unwrap_or_else(PoisonError::into_inner).open = Some(monitor.clock.monotonic_ms());
        Box::pin(self.model.stream(request).inspect(move |piece| monitor.note(piece)))
    }
}
