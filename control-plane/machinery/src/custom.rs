//! Custom resources: expressions in CEL, and schemas that definitions bring along.

pub mod cel;
pub mod structural;
