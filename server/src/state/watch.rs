//! Watch: every change of a key to everyone who asked for it, once, in order, however slow they are.
//!
//! There is one source of events, history and live alike: [`storage::mvcc::Root::changes`]. The
//! [`Hub`] reads each new revision once after it was published, finds the watchers it concerns and
//! puts shared, encoded events into the mailboxes of their streams. A [`Stream`] is one client's
//! call: it reads history on its own for watchers that are behind, and follows its mailbox for
//! those that are not. When the mailbox is full the hub lets go of the whole stream; the stream
//! then finds its own way through history and joins again. So nothing is dropped, nothing is sent
//! twice, and a client that stops reading costs its mailbox and nobody anything.
//!
//! ```text
//!  apply thread ── Advanced{R} ──► Hub ── events ──► Mailbox ──► Stream ──► responses
//!                                   ▲                              │ ▲
//!                                   └──── join, leave, progress ───┘ └── HistoryRead (a View)
//! ```
//!
//! Everything here is plain: no tokio, no clock. `grpc/watch.rs` polls a `Stream`, the runtime
//! gives the hub its thread. It does not know authorization, leases or the log.

mod event;
mod history;
mod hub;
mod inbox;
mod index;
mod mailbox;
mod response;
mod stream;

#[cfg(test)]
mod tests;

pub use history::{HistoryDone, HistoryRead};
pub use hub::Hub;
pub use inbox::HubHandle;
pub use mailbox::Mailbox;
pub use response::{Head, Out};
pub use stream::{Ended, Stream, StreamOptions};

/// How many bytes of events wait in one stream's mailbox before the hub lets go of it. Most of
/// them are shared with other mailboxes.
pub const MAILBOX_BYTES: usize = 1 << 20;

/// How many (watcher, event) pairs wait in one stream's mailbox; 8 bytes each.
pub const MAILBOX_HITS: usize = 64 * 1024;

/// The hub hands over what it has read at the end of the revision that brings it here, so that a
/// long stretch of history does not lie in memory as a whole.
pub const HUB_FLUSH_BYTES: usize = 256 * 1024;
pub const HUB_FLUSH_HITS: usize = 16 * 1024;

/// Revisions one read of history scans at most, and so those in one response of it.
pub const HISTORY_REVISIONS: i64 = 1_000;

/// A read of history ends at the revision that brings it here.
pub const HISTORY_BYTES: usize = 1 << 20;

/// A read at most this long, of the newest revisions, is done where it is asked for: they are in
/// memory. Longer ones may touch cold pages and run off the runtime's threads.
pub const HISTORY_INLINE_REVISIONS: i64 = 64;

/// The hub takes a watcher in only if it is not further behind: the stream reads the rest while
/// its mailbox waits.
pub const JOIN_GAP_REVISIONS: i64 = 1_000;

/// Events of several revisions that wait for one watcher leave in one response of about this size,
/// below the 4 MiB that some clients accept at most.
pub const RESPONSE_BYTES: usize = 1 << 20;

/// How much is encoded ahead of the connection.
pub const OUT_BYTES: usize = 64 * 1024;

/// An event this large is handed to the connection as it is, not copied for each watcher.
pub const SHARE_BYTES: usize = 16 * 1024;
