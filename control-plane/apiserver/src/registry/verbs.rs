//! What requests do to objects: a verb or a subresource each.

pub(crate) mod bind;
pub(crate) mod certificate_request;
pub(crate) mod delete;
pub(crate) mod edit;
pub(crate) mod evict;
pub(crate) mod patch;
pub(crate) mod scale;
pub(crate) mod write;
