//! The kinds that are served: their names, versions, and where each is stored.

pub(crate) mod catalogue;
pub(crate) mod convert;
