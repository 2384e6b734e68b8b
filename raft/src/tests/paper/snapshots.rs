//! Section 7 of the paper: the effect of a snapshot on the log that receives it.

use super::{at, message, sent, with_log};
use crate::Input;
use crate::message::{Body, ConfState, Position, Snapshot};

fn snapshot(position: Position) -> Body {
    Body::Snapshot(Snapshot {
        position,
        conf: ConfState {
            voters: vec![1, 2, 3],
            ..ConfState::default()
        },
        ..Snapshot::default()
    })
}

#[test]
fn sec_7_a_snapshot_of_what_the_log_holds_commits_it_and_keeps_what_follows() {
    let mut cluster = with_log(&[1, 1, 2], 2);
    cluster.step(1, message(2, 1, 2, snapshot(at(1, 2))));
    assert_eq!(cluster.node(1).install, None);
    let taken = Body::AppendReply {
        index: 2,
        rejected: None,
    };
    assert_eq!(sent(&mut cluster)[0].body, taken);
    let status = cluster.raft(1).status();
    assert_eq!((status.commit, status.last), (2, 3));
}

#[test]
fn sec_7_a_snapshot_takes_the_place_of_a_log_that_contradicts_it() {
    // Entries 2 and 3 come from an old leader.
    let mut cluster = with_log(&[1, 1, 1], 2);
    cluster.step(1, message(2, 1, 2, snapshot(at(2, 2))));
    assert!(cluster.node(1).install.take().is_some());
    assert_eq!(sent(&mut cluster), [], "not before it is in its place");
    cluster.step(1, Input::SnapshotInstalled { ok: true });
    assert_eq!(cluster.raft(1).status().last, 2);
    assert_eq!(cluster.raft(1).term_at(2), Some(2));
}
