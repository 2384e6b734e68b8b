//! What a request asks for: its path and parameters, its body, its options.

pub(crate) mod body;
pub(crate) mod delete_options;
pub(crate) mod patch;
pub(crate) mod request;
