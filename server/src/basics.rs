//! What any layer may use: the clocks, the memory that there is, and the errors that clients get. Nothing here knows what a
//! member is.

pub(crate) mod clock;
pub mod error;
pub(crate) mod memory;
