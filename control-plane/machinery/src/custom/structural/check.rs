//! What is wrong with a value: violations of its schema, and of what the schema says about lists
//! and about objects within objects.

pub(super) mod embedded;
pub(super) mod errors;
mod limits;
pub(super) mod lists;
mod number;
pub(super) mod old;
pub(super) mod validate;
