//! Readers beside the installation of another member's state.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use etcd_api::authpb;
use prost::Message as _;
use raft::{Body, Message};
use storage::mvcc::{Applied, Bucket, Store};
use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use super::power::STORE;
use crate::state::State;
use crate::state::snapshot::{Form, Received, Receiver, describe, rows};

/// Enough that they cannot be read in a moment.
const USERS: u32 = 20_000;
const AUTH_REVISION: u64 = 9;
const APPLIED: Applied = Applied { index: 5, term: 1 };

fn state(vfs: &SimVfs) -> State {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let store = Store::open(vfs, Path::new(STORE), Default::default()).unwrap();
    State::new(store, 2).unwrap()
}

/// A state with users, as another member sends it.
fn received(vfs: &SimVfs) -> Received {
    let mut other = state(&SimVfs::new(7));
    let mut write = other.store.write(APPLIED);
    let revision = AUTH_REVISION.to_be_bytes();
    write.set(Bucket::Auth, b"authRevision", &revision).unwrap();
    for number in 0..USERS {
        let user = authpb::User {
            name: format!("user{number:05}").into(),
            ..Default::default()
        };
        let row = user.encode_to_vec();
        write.set(Bucket::AuthUsers, &user.name, &row).unwrap();
    }
    drop(write);
    other.store.publish();
    let view = other.store.reader().view();
    let message = Message {
        from: 1,
        to: 2,
        term: 1,
        body: Body::Snapshot(describe(&view).unwrap()),
    };
    let mut bytes = Vec::new();
    raft::wire::encode_message(&message, &mut bytes);
    let mut body = (bytes.len() as u64).to_be_bytes().to_vec();
    body.append(&mut bytes);
    rows::write(&view, &mut body).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let receiver = Receiver::new(vfs, STORE.into(), Default::default()).unwrap();
    let read = receiver.begin().unwrap().read(Form::Rows, &mut &body[..]);
    read.unwrap().1
}

/// A read takes its view first, and is then judged by the users and roles in force.
#[test]
fn no_reader_of_an_installed_state_is_judged_by_the_users_before_it() {
    let vfs = SimVfs::new(3);
    let mut state = state(&vfs);
    let received = received(&vfs);
    let (reader, auth) = (state.store.reader(), Arc::clone(state.auth.shared()));
    thread::scope(|scope| {
        let judging = scope.spawn(|| {
            loop {
                if reader.view().applied() == APPLIED {
                    return auth.image().revision;
                }
            }
        });
        state.replace(received).unwrap();
        assert_eq!(judging.join().unwrap(), AUTH_REVISION);
    });
}
