//! The log of a new cluster.

use bytes::Bytes;

use crate::io::Recovered;
use crate::message::{
    ConfChange, ConfChangeKind, Entry, EntryKind, HardState, Index, NOBODY, NodeId, Position,
};
use crate::wire;

/// The first entries of a new cluster, equal on all of its members: at term 1, one committed change
/// per member (`context`: etcd's member JSON), in the given order. The caller makes them durable
/// (`LogWriter::begin_anew`) and starts from them, with all members in `Config::voters`. The first
/// election then begins term 2.
pub fn bootstrap(members: &[(NodeId, Bytes)]) -> Recovered {
    let entry = |((node, context), index): (&(NodeId, Bytes), Index)| Entry {
        term: 1,
        index,
        kind: EntryKind::ConfChange,
        data: wire::encode_conf_change(&ConfChange {
            id: 0,
            kind: ConfChangeKind::AddNode,
            node: *node,
            context: context.clone(),
        }),
    };
    Recovered {
        hard_state: HardState {
            term: 1,
            vote: NOBODY,
            commit: members.len() as Index,
        },
        base: Position::default(),
        entries: members.iter().zip(1..).map(entry).collect(),
        applied: 0,
    }
}
