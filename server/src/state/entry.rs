//! Decoding of log entries when they are applied, and checks before they enter the log.
//!
//! All members have the same log, and none may skip an entry. An entry that one member cannot
//! decode therefore stops all members, at every start again. So no entry may enter the log, from
//! any source, that cannot be applied.

use raft::{Entry, EntryKind};

use crate::basics::error::Error;
use crate::request::Request;
use crate::request::check;
use crate::state::ChangeContext;

/// Advice for operators when an entry cannot be applied.
const WAY_OUT: &str = "if a newer version wrote it, run that version; if the other members have \
    applied it, remove this member from the cluster and add it anew with an empty data directory; \
    if none has, restore the cluster from a snapshot";

/// The request in a normal entry.
pub(crate) fn request(entry: &Entry) -> Result<Request, Error> {
    Request::decode(&entry.data).map_err(|why| inapplicable(entry, &why))
}

/// The membership change in an entry.
pub(crate) fn conf_change(entry: &Entry) -> Result<raft::ConfChange, Error> {
    read_conf_change(entry).map_err(|why| inapplicable(entry, &why))
}

/// Checks that a proposal forwarded by another member can be applied at any position in the log.
/// The other member has made the same checks, so a failure here does not come from a client.
pub(crate) fn check_proposal(entry: &Entry) -> Result<(), String> {
    match entry.kind {
        EntryKind::Normal if entry.data.is_empty() => Ok(()),
        EntryKind::Normal => {
            let request = Request::decode(&entry.data)?;
            check_request(&request).map_err(|error| error.to_string())
        }
        EntryKind::ConfChange => {
            let change = read_conf_change(entry)?;
            match change.node {
                raft::NOBODY => Err("a change of no member".to_owned()),
                _ if lacks_urls(&change) => Err("a member without URLs".to_owned()),
                _ => Ok(()),
            }
        }
        EntryKind::ConfChangeV2 => Err("a joint change of the members".to_owned()),
    }
}

fn check_request(request: &Request) -> Result<(), Error> {
    match request {
        Request::Put(put) => check::put(put),
        Request::DeleteRange(delete) => check::delete_range(delete),
        // The limit on operations is a flag of each member, so it is not checked here.
        Request::Txn(txn) => check::txn(txn, usize::MAX),
        _ => Ok(()),
    }
}

/// True for a change that leaves the member without peer URLs.
fn lacks_urls(change: &raft::ConfChange) -> bool {
    let names_urls = change.kind != raft::ConfChangeKind::RemoveNode;
    let context = ChangeContext::of(change).unwrap_or_default();
    names_urls && !context.is_promote && context.member.peer_urls.is_empty()
}

fn read_conf_change(entry: &Entry) -> Result<raft::ConfChange, String> {
    if entry.kind == EntryKind::ConfChangeV2 {
        return Err("joint changes of the members are not known here".to_owned());
    }
    let change = raft::wire::decode_conf_change(&entry.data).map_err(|e| e.to_string())?;
    ChangeContext::of(&change).map_err(|error| error.to_string())?;
    Ok(change)
}

fn inapplicable(entry: &Entry, why: &str) -> Error {
    let kind = match entry.kind {
        EntryKind::Normal => "a request",
        EntryKind::ConfChange => "a change of the members",
        EntryKind::ConfChangeV2 => "a joint change of the members",
    };
    let Entry {
        index, term, data, ..
    } = entry;
    Error::Damaged(format!(
        "entry {index} of term {term}, {kind} of {} bytes, cannot be applied: {why}; {WAY_OUT}",
        data.len()
    ))
}
