//! What pods ask for, what ranges limit, what quotas count.

pub mod amounts;
pub mod limits;
pub mod quota;
