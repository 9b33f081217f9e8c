//! How many living agents fit on one small machine: what those who sleep weigh, what a start and a
//! activation cost among very many, and what a long life and a busy neighbour add. One module per group.

pub(crate) mod accepts;
pub(crate) mod hibernated;
pub(crate) mod neighbour;
pub(crate) mod sleepers;
mod town;
pub(crate) mod years;
