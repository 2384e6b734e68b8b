//! Requests for certificates (PKCS #10), and the authority that issues what they ask for.
//!
//! Subject and key of a certificate are copied from its request byte by byte: what was checked is
//! what is signed.
#![forbid(unsafe_code)]

mod authority;
mod request;
mod usage;

pub use authority::{Authority, not_after};
pub use request::Request;
