//! The built-in plugins of the chain, in files named after what they rule.

pub(crate) mod certificates;
pub(crate) mod classes;
pub(crate) mod limits;
pub(crate) mod namespaces;
pub mod node_restriction;
pub(crate) mod nodes;
pub mod owner_references;
pub(crate) mod pod_security;
pub(crate) mod pods;
pub(crate) mod protection;
pub(crate) mod quota;
pub(crate) mod resize;
pub(crate) mod runtime_class;
pub mod service_account;
pub(crate) mod topology;
