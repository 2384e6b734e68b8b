//! Which kinds are served, under which names and versions, and where each is stored.

pub(crate) mod catalogue;
pub(crate) mod convert;
