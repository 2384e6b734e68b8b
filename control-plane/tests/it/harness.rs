//! What the stories need: a store and an apiserver, and more parts of the control plane beside it.

pub(crate) mod cluster;
pub(crate) mod parts;
