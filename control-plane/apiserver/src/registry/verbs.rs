//! What requests do to objects: a verb or a subresource each, and `managed`, which writes down who
//! owns which fields.

pub(crate) mod bind;
pub(crate) mod delete;
pub(crate) mod edit;
pub(crate) mod evict;
pub(crate) mod managed;
pub(crate) mod parents;
pub(crate) mod patch;
pub(crate) mod scale;
pub(crate) mod write;
pub(crate) mod writer;
