//! The services in which clients contend for a name: locks and elections. Both are built from calls
//! of the other services.

pub(crate) mod election;
pub(crate) mod lock;
pub(crate) mod on_behalf;
pub(super) mod recipe;
