//! What members ask each other about the hash of their history: etcd's check for corruption.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::hashes::KvHash;

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    revision: i64,
}

#[derive(Serialize)]
struct Response {
    header: Header,
    #[serde(skip_serializing_if = "is_zero")]
    hash: i64,
    #[serde(skip_serializing_if = "is_zero")]
    compact_revision: i64,
    #[serde(skip_serializing_if = "is_zero")]
    hash_revision: i64,
}

#[derive(Serialize)]
struct Header {
    #[serde(skip_serializing_if = "is_zero")]
    revision: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The revision asked for.
pub(super) fn revision_of(body: &Bytes) -> Option<i64> {
    let request: Request = serde_json::from_slice(body).ok()?;
    Some(request.revision)
}

pub(super) fn answer(hash: &KvHash) -> String {
    let response = Response {
        header: Header {
            revision: hash.current_revision,
        },
        hash: i64::from(hash.hash),
        compact_revision: hash.compact_revision,
        hash_revision: hash.hash_revision,
    };
    serde_json::to_string(&response).expect("plain data")
}

/// In the words that askers look for.
pub(super) fn refusal(error: &Error) -> String {
    match error {
        Error::Compacted => "mvcc: required revision has been compacted".to_owned(),
        Error::FutureRevision => "mvcc: required revision is a future revision".to_owned(),
        error => error.to_string(),
    }
}
