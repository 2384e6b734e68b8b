//! Work that the store does for itself, in steps between the entries of clients: what no state needs
//! is removed, what must not stay as it is is written again, the end of the file is given back.

pub(super) mod compact;
pub(super) mod reencrypt;
pub(super) mod relocate;
pub(super) mod rewrite;
pub(super) mod sizes;
