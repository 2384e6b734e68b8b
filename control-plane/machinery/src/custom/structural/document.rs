//! The document of a schema: what makes it valid and structural, and how OpenAPI shows it.

pub(super) mod keywords;
pub(super) mod openapi;
pub(super) mod shape;
pub(super) mod structure;
