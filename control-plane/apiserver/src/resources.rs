//! The resources that are served: their names, versions, and where each is stored.

pub(crate) mod catalogue;
pub(crate) mod convert;
pub mod custom;
pub(crate) mod defaults;
pub(crate) mod fields;
pub(crate) mod flow_control;
pub(crate) mod hidden;
pub(crate) mod json_path;
