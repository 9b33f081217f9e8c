//! Models whose provider can be made to fail, as if the connection to it were cut. This module must not know
//! the requests, nor whether a script or a vendor answers them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::port::{BoxStream, Model, ModelError, ModelInfo, ModelRequest, Models, Piece};

/// The models of a world, and whether they can be reached.
#[derive(Clone)]
pub(crate) struct Outage {
    models: Arc<dyn Models>,
    cut: Arc<AtomicBool>,
}

impl Outage {
    pub(crate) fn of(models: Arc<dyn Models>) -> Self {
        Self { models, cut: Arc::default() }
    }

    /// Cuts the connection, or restores it.
    pub(crate) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    /// Whether the connection is cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }
}

impl Models for Outage {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let model = self.models.model(name)?;
        Ok(Arc::new(ModelOutage { model, outage: self.clone() }))
    }
}

/// One model.
struct ModelOutage {
    model: Arc<dyn Model>,
    outage: Outage,
}

impl Model for ModelOutage {
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
