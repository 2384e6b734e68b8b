//! What any layer may use: the clocks, and the errors that clients get. Nothing here knows what a
//! member is.

pub(crate) mod clock;
pub mod error;
