//! Rules of who may do what: roles, bindings, certificates.

pub(crate) mod certificate;
pub(crate) mod rbac;
