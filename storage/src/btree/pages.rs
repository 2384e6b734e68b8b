//! The read side of a page file. Knows nothing of what is being written.

/// Reads pages of one page file. One value per checkpoint generation: who holds an `Arc` of it
/// keeps every page from being reused that a tree cloned in that generation may reach.
#[derive(Debug)]
pub(crate) struct Pages {}
