//! Voices whose provider can be made to fail, as if the line to it were cut. Must not know what they
//! are asked, nor whether a script or a vendor stands behind them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::port::{BoxStream, Model, ModelError, ModelInfo, ModelRequest, Piece, Voices};

/// The voices of a world, and the line to them.
#[derive(Clone)]
pub(crate) struct Outage {
    voices: Arc<dyn Voices>,
    cut: Arc<AtomicBool>,
}

impl Outage {
    pub(crate) fn of(voices: Arc<dyn Voices>) -> Self {
        Self { voices, cut: Arc::default() }
    }

    /// Cuts the line, or mends it.
    pub(crate) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    /// Whether the line is cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }
}

impl Voices for Outage {
    fn voice(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let model = self.voices.voice(name)?;
        Ok(Arc::new(Line { model, outage: self.clone() }))
    }
}

/// One voice.
struct Line {
    model: Arc<dyn Model>,
    outage: Outage,
}

impl Model for Line {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        if !self.outage.is_cut() {
            return self.model.stream(request);
        }
        let error = ModelError::Network("the story says that the provider fails".to_owned());
        Box::pin(futures_util::stream::once(async move { Err(error) }))
    }
}
