//! What is about no object: a bound for what is read, and the queue of a control loop.

pub(crate) mod budget;
pub mod queue;
