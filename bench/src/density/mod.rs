//! How many agents fit on one small machine: the memory of sleeping agents, the cost of a start and of an
//! activation among very many agents, and the cost of a long history and a busy neighbor. One module per group.

pub(crate) mod accepts;
pub(crate) mod hibernated;
pub(crate) mod neighbour;
pub(crate) mod population;
pub(crate) mod sleepers;
pub(crate) mod years;
