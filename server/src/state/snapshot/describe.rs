//! Raft's description of a state that is sent to another member.

use raft::{ConfState, Position, Snapshot};
use serde_json::{Map, Value, json};
use storage::mvcc::{Root, View};

use crate::basics::error::Error;
use crate::state::{self, MemberInfo};

/// Go's zero time.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Position, members, and the data that etcd 3.5 and 3.6 require beside the state.
pub fn describe(view: &View) -> Result<Snapshot, Error> {
    let members = state::members(view)?;
    let ids = |learners: bool| {
        let of_kind = members.iter().filter(|m| m.is_learner == learners);
        of_kind.map(|member| member.id).collect()
    };
    let applied = view.applied();
    Ok(Snapshot {
        position: Position {
            term: applied.term,
            index: applied.index,
        },
        conf: ConfState {
            voters: ids(false),
            learners: ids(true),
            ..ConfState::default()
        },
        data: v2_store(view, &members)?.into(),
    })
}

/// etcd's former v2 store, reduced to the membership: 3.5 reads its members from it, 3.6 compares
/// them, 3.7 ignores it.
fn v2_store(root: &Root, members: &[MemberInfo]) -> Result<Vec<u8>, Error> {
    let version = state::cluster_version(root)?.unwrap_or_default();
    let rows = members.iter().map(|member| {
        let path = format!("/0/members/{:x}", member.id);
        (format!("{:x}", member.id), v2_member(&path, member))
    });
    let cluster = [
        ("members".to_owned(), directory("/0/members", rows)),
        ("version".to_owned(), leaf("/0/version", &version)),
    ];
    let root = [
        ("0".to_owned(), directory("/0", cluster)),
        ("1".to_owned(), directory("/1", [])),
    ];
    let store = json!({
        "Root": directory("/", root),
        "CurrentIndex": 1,
        "CurrentVersion": 2,
    });
    Ok(store.to_string().into_bytes())
}

fn v2_member(path: &str, member: &MemberInfo) -> Value {
    let mut raft = json!({"peerURLs": member.peer_urls});
    if member.is_learner {
        raft["isLearner"] = true.into();
    }
    let mut own = Map::new();
    if !member.name.is_empty() {
        own.insert("name".to_owned(), member.name.clone().into());
    }
    if !member.client_urls.is_empty() {
        own.insert("clientURLs".to_owned(), member.client_urls.clone().into());
    }
    let parts = [
        ("raftAttributes", raft.to_string()),
        ("attributes", Value::Object(own).to_string()),
    ];
    let parts = parts.map(|(name, value)| {
        let value = leaf(&format!("{path}/{name}"), &value);
        (name.to_owned(), value)
    });
    directory(path, parts)
}

fn leaf(path: &str, value: &str) -> Value {
    node(path, value, Value::Null)
}

fn directory(path: &str, children: impl IntoIterator<Item = (String, Value)>) -> Value {
    node(path, "", Value::Object(children.into_iter().collect()))
}

fn node(path: &str, value: &str, children: Value) -> Value {
    json!({
        "Path": path,
        "CreatedIndex": 1,
        "ModifiedIndex": 1,
        "ExpireTime": NEVER,
        "Value": value,
        "Children": children,
    })
}
