use std::path::Path;
use std::sync::Arc;

use raft::{ConfChange, ConfChangeKind};
use storage::mvcc::{Applied, Store};
use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use super::{ChangeContext, MemberInfo, members, removed};
use crate::basics::error::Error;
use crate::state::State;

fn state() -> State {
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
    let dir = Path::new("/store");
    vfs.create_dir_all(dir).unwrap();
    State::new(Store::open(vfs, dir, Default::default()).unwrap(), 2).unwrap()
}

fn apply(state: &mut State, kind: ConfChangeKind, node: u64, context: &str) -> Result<(), Error> {
    let applied = Applied {
        index: state.store.root().applied().index + 1,
        term: 1,
    };
    let change = ConfChange {
        kind,
        node,
        context: context.to_owned().into(),
        ..ConfChange::default()
    };
    let result = state.apply_conf_change(applied, &change);
    assert_eq!(state.store.root().applied(), applied, "its place is taken");
    result
}

fn add(state: &mut State, id: u64, url: &str) -> Result<(), Error> {
    let context = format!("{{\"id\":{id},\"peerURLs\":[\"{url}\"]}}");
    apply(state, ConfChangeKind::AddNode, id, &context)
}

fn learn(state: &mut State, id: u64, url: &str) -> Result<(), Error> {
    let context = format!("{{\"id\":{id},\"peerURLs\":[\"{url}\"],\"isLearner\":true}}");
    apply(state, ConfChangeKind::AddLearnerNode, id, &context)
}

/// The context of a promotion, as Go encodes it.
fn promote(state: &mut State, id: u64) -> Result<(), Error> {
    let context = format!("{{\"id\":{id},\"peerURLs\":null,\"isPromote\":true}}");
    apply(state, ConfChangeKind::AddNode, id, &context)
}

fn remove(state: &mut State, id: u64) -> Result<(), Error> {
    apply(state, ConfChangeKind::RemoveNode, id, "")
}

fn update(state: &mut State, id: u64, url: &str) -> Result<(), Error> {
    let context = format!("{{\"id\":{id},\"peerURLs\":[\"{url}\"]}}");
    apply(state, ConfChangeKind::UpdateNode, id, &context)
}

#[test]
fn a_change_is_refused_for_the_first_reason_that_etcd_has() {
    let mut state = state();
    add(&mut state, 1, "http://a:1").unwrap();
    assert_eq!(
        add(&mut state, 1, "http://b:1"),
        Err(Error::MemberExists),
        "the id comes before the URLs"
    );
    assert_eq!(add(&mut state, 2, "http://a:1"), Err(Error::PeerUrlExists));
    assert_eq!(
        learn(&mut state, 2, "http://a:1"),
        Err(Error::PeerUrlExists)
    );
    learn(&mut state, 2, "http://b:1").unwrap();
    assert_eq!(
        learn(&mut state, 3, "http://c:1"),
        Err(Error::TooManyLearners)
    );
    assert_eq!(promote(&mut state, 1), Err(Error::NotLearner));
    assert_eq!(promote(&mut state, 9), Err(Error::MemberNotFound));
    assert_eq!(
        update(&mut state, 9, "http://a:1"),
        Err(Error::MemberNotFound)
    );
    assert_eq!(
        update(&mut state, 2, "http://a:1"),
        Err(Error::PeerUrlExists)
    );
    assert_eq!(remove(&mut state, 9), Err(Error::MemberNotFound));
    assert_eq!(
        remove(&mut state, 1),
        Err(Error::NotEnoughStarted),
        "a learner alone could never vote"
    );
}

#[test]
fn a_member_is_what_the_changes_made_of_it() {
    let mut state = state();
    add(&mut state, 1, "http://a:1").unwrap();
    learn(&mut state, 2, "http://b:1").unwrap();
    update(&mut state, 2, "http://b:2").unwrap();
    update(&mut state, 2, "http://b:2").unwrap();
    promote(&mut state, 2).unwrap();
    let expected = MemberInfo {
        id: 2,
        peer_urls: vec!["http://b:2".to_owned()],
        ..Default::default()
    };
    assert_eq!(members(state.store.root()).unwrap()[1], expected);
    remove(&mut state, 1).unwrap();
    assert_eq!(members(state.store.root()).unwrap(), [expected]);
    assert_eq!(removed(state.store.root()).unwrap(), [1]);
    assert_eq!(
        add(&mut state, 1, "http://a:1"),
        Err(Error::MemberNotFound),
        "who was removed never comes back"
    );
}

#[test]
fn contexts_are_written_as_etcd_reads_them() {
    let context = ChangeContext {
        member: MemberInfo {
            id: u64::MAX,
            ..Default::default()
        },
        is_promote: true,
    };
    let text = String::from_utf8(context.encode()).unwrap();
    assert_eq!(
        text,
        "{\"id\":18446744073709551615,\"peerURLs\":[],\"isPromote\":true}"
    );
    let mut change = ConfChange {
        node: u64::MAX,
        context: text.into(),
        ..ConfChange::default()
    };
    assert_eq!(ChangeContext::of(&change), Ok(context));
    change.node = 7;
    assert!(ChangeContext::of(&change).is_err(), "another member's");
    change.context = "{".into();
    assert!(ChangeContext::of(&change).is_err(), "nobody's");
}
