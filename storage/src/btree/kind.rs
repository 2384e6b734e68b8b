//! In what the trees of a page file differ.

use super::weight::Weight;

/// How the keys of a tree compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOrder {
    /// As bytes.
    Bytes,
    /// The last [`super::SUFFIX_BYTES`] bytes are a revision suffix: keys compare by the part
    /// before it, then by the suffix. Every key of such a tree must be at least that long.
    KeyThenRevision,
}

/// The properties in which one tree of a page file differs from the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeKind {
    /// Stored in every page of the tree; unique in the file.
    pub id: u8,
    pub order: KeyOrder,
    /// The weight of an entry, by the length of its key and by its value; branches keep the sums.
    pub weigh: fn(key_len: usize, value: &[u8]) -> Weight,
    /// A leaf splits if it would exceed this; a multiple of 4096.
    pub leaf_bytes: usize,
    /// Whether pages hold once what all of their keys begin with. Worth it unless keys are short
    /// beside their values.
    pub has_prefixes: bool,
}
