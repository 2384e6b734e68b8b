//! Watch: delivers every change of a key to every watcher of it, exactly once and in order, however
//! slow the watcher is.
//!
//! All events, past and live, come from one source: [`storage::mvcc::Root::changes`]. The [`Hub`]
//! reads each new revision once after it was published, finds its watchers, and puts shared,
//! encoded events into the mailboxes of their streams. A [`WatchStream`] is one client's call. It reads
//! history itself for watchers that are behind, and takes events from its mailbox for those that
//! are not. When the mailbox is full, the hub detaches the whole stream; the stream then catches up
//! through history and joins again. So no event is dropped or sent twice, and a client that stops
//! reading costs one mailbox and does not slow down others.
//!
//! ```text
//!  apply thread ── Advanced{R} ──► Hub ── events ──► Mailbox ──► WatchStream ──► responses
//!                                   ▲                              │ ▲
//!                                   └──── join, leave, progress ───┘ └── HistoryRead (a View)
//! ```
//!
//! One revision may hold millions of events: a request can delete all keys. When a stream's part of a
//! revision passes a limit, the hub detaches the stream before that revision, and the stream reads it
//! from history in pieces ([`history`]), each when the connection has taken the one before.
//!
//! Everything here is plain: no tokio, no clock. `grpc/watch.rs` polls a `WatchStream`; the runtime runs
//! the hub's thread. This module does not know authorization, leases or the log.

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

pub use history::{HeldView, HistoryDone, HistoryRead};
pub use hub::Hub;
pub use inbox::HubHandle;
pub use mailbox::Mailbox;
pub use response::{Head, Out};
pub use stream::{Ended, StreamOptions, WatchStream};

use super::MESSAGE_BYTES_MAX;

/// Limit for the bytes of events in one stream's mailbox, beyond which the hub detaches the stream.
/// Most of these bytes are shared with other mailboxes.
pub const MAILBOX_BYTES: usize = 1 << 20;

/// Limit for the (watcher, event) pairs in one stream's mailbox; 8 bytes each.
pub const MAILBOX_HITS: usize = 64 * 1024;

/// The hub flushes what it has read at the end of the revision that reaches this, so that a long
/// stretch of history is never in memory as a whole.
pub const HUB_FLUSH_BYTES: usize = 256 * 1024;
pub const HUB_FLUSH_HITS: usize = 16 * 1024;

/// Limit for the revisions scanned by one read of history, and so for those in one response.
pub const HISTORY_REVISIONS: i64 = 1_000;

/// A read of history ends with the revision that reaches this.
pub const HISTORY_BYTES: usize = 1 << 20;

/// A read of up to this many of the newest revisions runs in place: they are in memory. Longer
/// reads may touch cold pages and run off the runtime's threads.
pub const HISTORY_INLINE_REVISIONS: i64 = 64;

/// The hub accepts a watcher only if it is at most this far behind: the stream reads the rest while
/// its mailbox waits.
pub const JOIN_GAP_REVISIONS: i64 = 1_000;

/// Events of several revisions waiting for one watcher leave in one response of about this size,
/// below the 4 MiB limit of some clients.
pub const RESPONSE_BYTES: usize = 1 << 20;

/// Bytes encoded ahead of the connection.
pub const OUT_BYTES: usize = 64 * 1024;

/// Events of at least this size are passed to the connection, not copied for each watcher.
pub const SHARE_BYTES: usize = 16 * 1024;

/// Changes that a read of history in place looks at before it is left to another thread.
pub const HISTORY_INLINE_CHANGES: usize = 4 * 1024;

/// Limits for the events of a single revision. They are values because tests make them small.
#[derive(Clone, Copy, Debug)]
struct RevisionLimits {
    /// What the hub, or a read of history, holds of one revision for one stream, as memory. What the
    /// applier deletes at once, 16,384 keys of usual length, is below it.
    held_bytes: usize,
    /// A larger revision is read and sent in pieces of about so many bytes; an event may be larger.
    piece_bytes: usize,
    /// Changes looked at for one such piece, so that a stream that ends is noticed soon.
    piece_changes: usize,
    /// Limit for a message.
    message_bytes: usize,
}

impl Default for RevisionLimits {
    fn default() -> Self {
        RevisionLimits {
            held_bytes: 4 << 20,
            piece_bytes: 1 << 20,
            piece_changes: 64 * 1024,
            message_bytes: MESSAGE_BYTES_MAX,
        }
    }
}

/// Memory of one (watcher, event) pair, on its way from the hub or history to the response.
const HIT_BYTES: usize = 16;
