//! What calls may take: memory for large replies, time for slow clients, and a line in the log about
//! slow calls.

pub(crate) mod budget;
pub(super) mod large;
pub(super) mod patience;
pub(crate) mod slow;
