//! What a client gets: objects, lists, tables and watches, in the media type that it asked for.

pub(crate) mod list;
pub(crate) mod pieces;
pub(crate) mod reply;
pub(crate) mod shown;
pub(crate) mod spliced;
pub(crate) mod table;
pub(crate) mod watch;
