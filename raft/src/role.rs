//! What a member is: candidate, follower or leader, and what a leader knows of the others.

pub(crate) mod candidate;
pub(crate) mod follower;
pub(crate) mod leader;
pub(crate) mod next;
pub(crate) mod progress;
pub(crate) mod read;
