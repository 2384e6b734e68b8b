//! Requests between members for the hash of their history, as in etcd's corruption checks.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{Dialer, Introduction};
use crate::basics::error::Error;
use crate::member::cluster::corruption::{PeerHash, Refusal};
use crate::state::MemberInfo;
use crate::state::hashes::KvHash;

const PATH: &str = "/members/hashkv";
const COMPACTED: &str = "mvcc: required revision has been compacted";
const FUTURE: &str = "mvcc: required revision is a future revision";

#[derive(Deserialize, Serialize)]
struct Request {
    #[serde(default)]
    revision: i64,
}

#[derive(Deserialize, Serialize)]
struct Response {
    #[serde(default)]
    header: Header,
    #[serde(default, skip_serializing_if = "is_zero")]
    hash: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    compact_revision: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    hash_revision: i64,
}

#[derive(Default, Deserialize, Serialize)]
struct Header {
    #[serde(default, skip_serializing_if = "is_zero")]
    revision: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The requested revision.
pub(crate) fn revision_of(body: &Bytes) -> Option<i64> {
    let request: Request = serde_json::from_slice(body).ok()?;
    Some(request.revision)
}

pub(crate) fn answer(hash: &KvHash) -> String {
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

/// The texts that the requesting member compares with.
pub(crate) fn refusal(error: &Error) -> String {
    match error {
        Error::Compacted => COMPACTED.to_owned(),
        Error::FutureRevision => FUTURE.to_owned(),
        error => error.to_string(),
    }
}

/// Asks all `members` except this one, one after the other, because each reads its whole store.
pub(crate) async fn hashes(
    dialer: &Dialer,
    me: &Introduction,
    members: &[MemberInfo],
    revision: i64,
    patience: Duration,
) -> Vec<PeerHash> {
    let mut hashes = Vec::new();
    for member in members {
        if member.id == me.member_id || member.peer_urls.is_empty() {
            continue;
        }
        hashes.push(PeerHash {
            member_id: member.id,
            urls: member.peer_urls.clone(),
            answer: ask(dialer, me, &member.peer_urls, revision, patience).await,
        });
    }
    hashes
}

/// The answer of the first URL that returns a hash; otherwise the refusal of the last one.
async fn ask(
    dialer: &Dialer,
    me: &Introduction,
    urls: &[String],
    revision: i64,
    patience: Duration,
) -> Result<KvHash, Refusal> {
    let mut last = Refusal::Failed("no peer URLs".to_owned());
    for url in urls {
        match ask_at(dialer, me, url, revision, patience).await {
            Ok(hash) => return Ok(hash),
            Err(refusal) => {
                tracing::warn!(
                    "local-member-id" = format!("{:x}", me.member_id),
                    "requested-revision" = revision,
                    "remote-peer-endpoint" = url,
                    error = %refusal,
                    "failed hash kv request"
                );
                last = refusal;
            }
        }
    }
    Err(last)
}

async fn ask_at(
    dialer: &Dialer,
    me: &Introduction,
    url: &str,
    revision: i64,
    patience: Duration,
) -> Result<KvHash, Refusal> {
    let failed = |error: io::Error| Refusal::Failed(error.to_string());
    let body = serde_json::to_vec(&Request { revision }).expect("plain data");
    let request = me
        .request("GET", PATH)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| failed(io::Error::other(error)))?;
    let answer = match timeout(patience, dialer.exchange(url, request)).await {
        Ok(answer) => answer.map_err(failed)?,
        Err(elapsed) => return Err(failed(elapsed.into())),
    };
    if answer.status == 200 {
        return read(&answer.body);
    }
    let text = String::from_utf8_lossy(&answer.body);
    Err(match answer.status {
        400 if text.contains(COMPACTED) => Refusal::Compacted,
        400 if text.contains(FUTURE) => Refusal::Future,
        412 if text.contains("cluster ID mismatch") => Refusal::OtherCluster,
        _ => Refusal::Failed(format!("unknown error: {text}")),
    })
}

/// A hash is a 32-bit number; Go writes it as an ordinary number.
pub(super) fn read(body: &Bytes) -> Result<KvHash, Refusal> {
    let failed = |error: &dyn std::fmt::Display| Refusal::Failed(error.to_string());
    let logged: Response = serde_json::from_slice(body).map_err(|error| failed(&error))?;
    Ok(KvHash {
        hash: u32::try_from(logged.hash).map_err(|error| failed(&error))?,
        compact_revision: logged.compact_revision,
        hash_revision: logged.hash_revision,
        current_revision: logged.header.revision,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_answers_another_reads() {
        let hash = KvHash {
            hash: u32::MAX,
            compact_revision: -1,
            hash_revision: 7,
            current_revision: 9,
        };
        assert_eq!(read(&answer(&hash).into()), Ok(hash));
        // etcd omits zero values.
        let sparse = read(&Bytes::from_static(b"{\"header\":{}}")).unwrap();
        assert_eq!((sparse.hash, sparse.current_revision), (0, 0));
        for wrong in ["", "1", "{\"hash\":-1}", "{\"hash\":4294967296}"] {
            assert!(read(&wrong.into()).is_err(), "{wrong}");
        }
    }
}
