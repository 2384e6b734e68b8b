//! The services, one file each: check the request, hand it on, give the answer its header.

pub mod check;
pub mod kv;
