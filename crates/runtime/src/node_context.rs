//! What all activations of a node share. Must not know what an activation does with it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::Ports;
use crate::answered::Answered;
use crate::breaker::Breakers;
use crate::calibration::Calibration;
use crate::detached_calls::DetachedCalls;
use crate::health::Health;
use crate::left_out::LeftOut;
use crate::node::Node;
use crate::permits::Permits;
use crate::unstored::Unstored;
use crate::warm::Warm;

/// What all activations of a node share.
pub(crate) struct NodeContext {
    pub(crate) ports: Ports,
    pub(crate) node: Node,
    pub(crate) warm: Warm,
    pub(crate) health: Arc<Health>,
    pub(crate) permits: Arc<Permits>,
    pub(crate) breakers: Breakers,
    pub(crate) calibration: Calibration,
    pub(crate) answered: Answered,
    pub(crate) left_out: LeftOut,
    /// Calls that outlive their cycle.
    pub(crate) detached: Arc<DetachedCalls>,
    /// Outcomes that the store has not taken yet.
    pub(crate) unstored: Arc<Unstored>,
    pub(crate) stopping: CancellationToken,
}
