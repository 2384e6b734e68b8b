//! What happens to an object when it is created, changed or deleted, for every kind and every
//! subresource. It knows neither how a request is written nor how an answer is.

pub(crate) mod allocate;
pub(crate) mod builtin;
pub(crate) mod certificate_request;
pub(crate) mod delete;
pub(crate) mod edit;
pub(crate) mod evict;
pub(crate) mod lifecycle;
pub(crate) mod patch;
pub(crate) mod sub;
pub(crate) mod ttl;
pub(crate) mod write;
