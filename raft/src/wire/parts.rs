//! Nested messages, and what is stored beside or inside entries.
//!
//! | message | fields |
//! |---|---|
//! | Entry | 1 type, 2 term, 3 index, 4 data |
//! | HardState | 1 term, 2 vote, 3 commit |
//! | ConfState | 1 voters\*, 2 learners\*, 3 voters outgoing\*, 4 learners next\*, 5 auto leave |
//! | Snapshot | 1 data, 2 {1 ConfState, 2 index, 3 term} |
//! | ConfChange | 1 id, 2 type, 3 node, 4 context |
//! | ConfChangeV2 | 1 transition, 2 {1 type, 2 node}\*, 3 context |

use bytes::Bytes;

use super::field::{
    Fields, Malformed, Value, put_bytes, put_message, put_number, put_repeated_number, varint_len,
};
use crate::message::{
    ConfChange, ConfChangeKind, ConfChangeV2, ConfState, Entry, EntryKind, HardState, NodeId,
    Snapshot, Transition,
};

/// More members than any cluster has; bounds what a damaged length makes us allocate.
const MEMBERS_MAX: usize = 4096;

pub fn encode_entry(entry: &Entry, out: &mut Vec<u8>) {
    let kind = match entry.kind {
        EntryKind::Normal => 0,
        EntryKind::ConfChange => 1,
        EntryKind::ConfChangeV2 => 2,
    };
    put_number(out, 1, kind);
    put_number(out, 2, entry.term);
    put_number(out, 3, entry.index);
    put_bytes(out, 4, &entry.data);
}

pub(super) fn entry_len(entry: &Entry) -> usize {
    let number = |value: u64| if value == 0 { 0 } else { 1 + varint_len(value) };
    let kind = if entry.kind == EntryKind::Normal {
        0
    } else {
        2
    };
    let data = match entry.data.len() {
        0 => 0,
        len => 1 + varint_len(len as u64) + len,
    };
    kind + number(entry.term) + number(entry.index) + data
}

pub fn decode_entry(bytes: &Bytes) -> Result<Entry, Malformed> {
    let mut entry = Entry::default();
    let mut fields = Fields::of(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => {
                entry.kind = match value.number()? {
                    0 => EntryKind::Normal,
                    1 => EntryKind::ConfChange,
                    2 => EntryKind::ConfChangeV2,
                    _ => return Err(Malformed("unknown type of entry")),
                };
            }
            2 => entry.term = value.number()?,
            3 => entry.index = value.number()?,
            4 => entry.data = value.bytes()?,
            _ => {}
        }
    }
    Ok(entry)
}

pub fn encode_hard_state(state: &HardState) -> Bytes {
    let mut out = Vec::new();
    put_number(&mut out, 1, state.term);
    put_number(&mut out, 2, state.vote);
    put_number(&mut out, 3, state.commit);
    out.into()
}

pub fn decode_hard_state(bytes: &Bytes) -> Result<HardState, Malformed> {
    let mut state = HardState::default();
    let mut fields = Fields::of(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => state.term = value.number()?,
            2 => state.vote = value.number()?,
            3 => state.commit = value.number()?,
            _ => {}
        }
    }
    Ok(state)
}

pub fn encode_conf_state(conf: &ConfState) -> Bytes {
    let mut out = Vec::new();
    let lists = [
        &conf.voters,
        &conf.learners,
        &conf.voters_outgoing,
        &conf.learners_next,
    ];
    for (field, list) in (1..).zip(lists) {
        for id in list {
            put_repeated_number(&mut out, field, *id);
        }
    }
    put_number(&mut out, 5, u64::from(conf.auto_leave));
    out.into()
}

pub fn decode_conf_state(bytes: &Bytes) -> Result<ConfState, Malformed> {
    let mut conf = ConfState::default();
    let mut fields = Fields::of(bytes);
    while let Some((number, value)) = fields.next()? {
        let list = match number {
            1 => &mut conf.voters,
            2 => &mut conf.learners,
            3 => &mut conf.voters_outgoing,
            4 => &mut conf.learners_next,
            5 => {
                conf.auto_leave = value.number()? != 0;
                continue;
            }
            _ => continue,
        };
        push_ids(list, value)?;
    }
    Ok(conf)
}

/// One id, or several packed ones: a reader must take both forms.
fn push_ids(list: &mut Vec<NodeId>, value: Value) -> Result<(), Malformed> {
    let mut push = |id| {
        if list.len() >= MEMBERS_MAX {
            return Err(Malformed("too many members"));
        }
        list.push(id);
        Ok(())
    };
    match value {
        Value::Number(id) => push(id),
        value => {
            let mut packed = Fields::of(&value.bytes()?);
            while let Some(id) = packed.next_varint()? {
                push(id)?;
            }
            Ok(())
        }
    }
}

pub fn encode_snapshot(snapshot: &Snapshot) -> Bytes {
    let mut metadata = Vec::new();
    put_message(&mut metadata, 1, &encode_conf_state(&snapshot.conf));
    put_number(&mut metadata, 2, snapshot.position.index);
    put_number(&mut metadata, 3, snapshot.position.term);
    let mut out = Vec::with_capacity(snapshot.data.len() + metadata.len() + 16);
    put_bytes(&mut out, 1, &snapshot.data);
    put_message(&mut out, 2, &metadata);
    out.into()
}

pub fn decode_snapshot(bytes: &Bytes) -> Result<Snapshot, Malformed> {
    let mut snapshot = Snapshot::default();
    let mut fields = Fields::of(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => snapshot.data = value.bytes()?,
            2 => {
                let mut metadata = Fields::of(&value.bytes()?);
                while let Some((number, value)) = metadata.next()? {
                    match number {
                        1 => snapshot.conf = decode_conf_state(&value.bytes()?)?,
                        2 => snapshot.position.index = value.number()?,
                        3 => snapshot.position.term = value.number()?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(snapshot)
}

pub fn encode_conf_change(change: &ConfChange) -> Bytes {
    let mut out = Vec::new();
    put_number(&mut out, 1, change.id);
    put_number(&mut out, 2, number_of(change.kind));
    put_number(&mut out, 3, change.node);
    put_bytes(&mut out, 4, &change.context);
    out.into()
}

pub fn decode_conf_change(bytes: &Bytes) -> Result<ConfChange, Malformed> {
    let mut change = ConfChange::default();
    let mut fields = Fields::of(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => change.id = value.number()?,
            2 => change.kind = kind_of(value.number()?)?,
            3 => change.node = value.number()?,
            4 => change.context = value.bytes()?,
            _ => {}
        }
    }
    Ok(change)
}

pub fn encode_conf_change_v2(change: &ConfChangeV2) -> Bytes {
    let mut out = Vec::new();
    let transition = match change.transition {
        Transition::Auto => 0,
        Transition::JointImplicit => 1,
        Transition::JointExplicit => 2,
    };
    put_number(&mut out, 1, transition);
    for (kind, node) in &change.changes {
        let mut single = Vec::new();
        put_number(&mut single, 1, number_of(*kind));
        put_number(&mut single, 2, *node);
        put_message(&mut out, 2, &single);
    }
    put_bytes(&mut out, 3, &change.context);
    out.into()
}

pub fn decode_conf_change_v2(bytes: &Bytes) -> Result<ConfChangeV2, Malformed> {
    let mut change = ConfChangeV2::default();
    let mut fields = Fields::of(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => {
                change.transition = match value.number()? {
                    0 => Transition::Auto,
                    1 => Transition::JointImplicit,
                    2 => Transition::JointExplicit,
                    _ => return Err(Malformed("unknown transition")),
                };
            }
            2 if change.changes.len() >= MEMBERS_MAX => {
                return Err(Malformed("too many changes"));
            }
            2 => {
                let single = decode_conf_change_single(&value.bytes()?)?;
                change.changes.push(single);
            }
            3 => change.context = value.bytes()?,
            _ => {}
        }
    }
    Ok(change)
}

fn decode_conf_change_single(bytes: &Bytes) -> Result<(ConfChangeKind, NodeId), Malformed> {
    let mut single = (ConfChangeKind::AddNode, 0);
    let mut fields = Fields::of(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => single.0 = kind_of(value.number()?)?,
            2 => single.1 = value.number()?,
            _ => {}
        }
    }
    Ok(single)
}

fn number_of(kind: ConfChangeKind) -> u64 {
    match kind {
        ConfChangeKind::AddNode => 0,
        ConfChangeKind::RemoveNode => 1,
        ConfChangeKind::UpdateNode => 2,
        ConfChangeKind::AddLearnerNode => 3,
    }
}

fn kind_of(number: u64) -> Result<ConfChangeKind, Malformed> {
    Ok(match number {
        0 => ConfChangeKind::AddNode,
        1 => ConfChangeKind::RemoveNode,
        2 => ConfChangeKind::UpdateNode,
        3 => ConfChangeKind::AddLearnerNode,
        _ => return Err(Malformed("unknown type of conf change")),
    })
}
