//! Stories about what is on disk, and what becomes of it.

pub(crate) mod bad_disk;
pub(crate) mod corruption;
pub(crate) mod crash;
pub(crate) mod full_disk;
pub(crate) mod inspect;
pub(crate) mod sealed;
