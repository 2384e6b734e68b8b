//! Installs another member's snapshot in place of log and store, with a power cut at every single
//! call. The remaining files must open, with the state from before or the snapshot's state, and the
//! next snapshot must install.

use std::path::Path;
use std::sync::Arc;

use raft::{Body, HardState, Message, Position, Write};
use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use super::power::{ENTRIES, STORE, SURVIVALS, TERM, entry, open, seen, work};
use crate::state::snapshot::{Form, ReceiveError, Receiver, Snapshot, describe, rows};

/// Entries of the receiving member before the snapshot.
const BEFORE: u64 = 50;
/// Entries that it receives after the snapshot.
const AFTER: u64 = 3;

/// The body of the request: message and state.
fn body(form: Form) -> Vec<u8> {
    let vfs = SimVfs::new(7);
    work(&vfs, ENTRIES, &mut 0).unwrap();
    let mut machine = open(&vfs).unwrap();
    machine.state.store.publish();
    let view = machine.state.store.reader().view();
    let message = Message {
        from: 1,
        to: 2,
        term: TERM,
        body: Body::Snapshot(describe(&view).unwrap()),
    };
    let mut bytes = Vec::new();
    raft::wire::encode_message(&message, &mut bytes);
    let mut body = (bytes.len() as u64).to_be_bytes().to_vec();
    body.append(&mut bytes);
    match form {
        Form::Rows => rows::write(&view, &mut body).unwrap(),
        Form::Database => Snapshot::of(view).unwrap().write(&mut body).unwrap(),
    }
    body
}

fn failed(error: ReceiveError) -> storage::Error {
    match error {
        ReceiveError::Storage(error)
        | ReceiveError::Rows(rows::LoadError::Storage(error))
        | ReceiveError::Database(crate::state::snapshot::load::LoadError::Storage(error)) => error,
        other => panic!("{other}"),
    }
}

/// Like the server: loads the state beside the store, replaces the store, then installs the
/// snapshot in the log and continues. `synced` is what was acknowledged to the leader.
fn install(vfs: &SimVfs, form: Form, body: &[u8], synced: &mut u64) -> storage::Result<bool> {
    let mut machine = open(vfs)?;
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let receiver = Receiver::new(shared, Path::new(STORE).to_owned(), Default::default())?;
    let receiving = receiver.begin().expect("nothing else is received");
    assert!(receiver.begin().is_none(), "one at a time");
    let (message, received) = receiving.read(form, &mut &body[..]).map_err(failed)?;
    let Body::Snapshot(snapshot) = message.body else {
        panic!("another message: {message:?}");
    };
    if machine.state.replace(received).is_err() {
        return Ok(false); // The process would end here.
    }
    assert!(receiver.begin().is_some(), "and then the next");
    let Position { index, .. } = snapshot.position;
    *synced = index;
    let entries = (index + 1..=index + AFTER).map(entry).collect();
    machine.log.append(&Write {
        reset: Some(snapshot.position),
        entries,
        hard_state: Some(HardState {
            term: TERM,
            vote: 1,
            commit: index,
        }),
        ..Write::default()
    })?;
    machine.log.sync()?;
    *synced = index + AFTER;
    Ok(true)
}

fn cut_at_every_call(form: Form) {
    let body = body(form);
    let mut states = Vec::new();
    let mut reference = open(&SimVfs::new(1)).unwrap();
    for index in 1..=ENTRIES + AFTER {
        super::power::apply(&mut reference.state, &entry(index));
        states.push(seen(&reference.state));
    }
    let before = SimVfs::new(3);
    work(&before, BEFORE, &mut 0).unwrap();
    let (mut old, mut new) = (0, 0);
    for call in 0.. {
        let vfs = before.power_cut(call);
        vfs.fail_after(call);
        let mut synced = 0;
        let finished = matches!(install(&vfs, form, &body, &mut synced), Ok(true));
        for survival in 0..SURVIVALS {
            let what = format!("call {call}, survival {survival}");
            let image = vfs.power_cut(survival);
            let machine = open(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
            let last = machine.last;
            assert!(last >= synced, "{what}: {last} < {synced}");
            assert!(last == BEFORE || last >= ENTRIES, "{what}: {last}");
            assert!(
                seen(&machine.state) == states[last as usize - 1],
                "{what}: another state"
            );
            machine.state.store.check().unwrap();
            *(if last == BEFORE { &mut old } else { &mut new }) += 1;
            drop(machine);
            if last == BEFORE && survival == 0 {
                let again = install(&image, form, &body, &mut 0);
                assert!(matches!(again, Ok(true)), "{what}: {again:?}");
                assert_eq!(open(&image).unwrap().last, ENTRIES + AFTER, "{what}");
            }
        }
        if finished {
            println!("{call} calls, {old} as before, {new} as the snapshot");
            assert!(old > 0 && new > 0);
            return;
        }
    }
}

#[test]
fn power_cut_at_any_call_of_an_install_leaves_the_old_or_the_new_state() {
    cut_at_every_call(Form::Rows);
}

#[test]
fn power_cut_at_any_call_of_an_install_from_etcd_leaves_the_old_or_the_new_state() {
    cut_at_every_call(Form::Database);
}
