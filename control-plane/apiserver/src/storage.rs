//! Objects as the store holds them: the calls to it, the watch over all of it, and the caches that
//! lists and watches are answered from. It knows no requests and no rules of objects.

pub(crate) mod cache;
pub(crate) mod cells;
pub(crate) mod entry;
pub(crate) mod interest;
pub(crate) mod reader;
pub(crate) mod reflector;
pub(crate) mod store;
pub(crate) mod stored;
