//! Bodies of the fuzz targets. Each takes any bytes and must never panic.

use std::path::Path;
use std::sync::Arc;

use etcd_api::descriptor::METHODS;
use etcd_api::etcdserverpb as pb;
use prost::Message;
use storage::mvcc::{Applied, Store};
use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use crate::api::gateway::{Escape, Scanner, decode, encode};
use crate::basics::error::Error;
use crate::config::{self, Exit};
use crate::request::check;
use crate::request::{AuthInfo, Request};
use crate::state::entry;
use crate::state::snapshot::{Form, Receiver, rows};
use crate::state::{AnswerFor, Effects, State};

/// A log entry, and client requests. What decodes must survive the checks, and must encode to
/// something that decodes to the same.
pub fn request_decode(data: &[u8]) {
    if let Ok(request) = Request::decode(data)
        && request != Request::Read
    {
        assert_eq!(Request::decode(&request.encode(1)).as_ref(), Ok(&request));
    }
    if let Ok(txn) = pb::TxnRequest::decode(data) {
        // Only termination without a panic is tested.
        let _ = check::txn(&txn, 128);
    }
    if let Ok(range) = pb::RangeRequest::decode(data) {
        let _ = (check::range(&range), check::range_stream(&range));
    }
    if let Ok(put) = pb::PutRequest::decode(data) {
        let _ = check::put(&put);
    }
}

/// The first frame of a snapshot's rows. Invalid rows are refused before they reach the store, and
/// loaded rows are sound.
pub fn snapshot_rows(data: &[u8]) {
    let sum = crc32c::crc32c(data);
    let head = [(data.len() as u32).to_le_bytes(), sum.to_le_bytes()].concat();
    let stream = [&head[..], data].concat();
    let vfs = Arc::new(SimVfs::new(1));
    if let Ok(incoming) = rows::load(
        vfs,
        Path::new("/store"),
        Default::default(),
        &mut &stream[..],
    ) {
        let store = incoming.install().expect("a disk without faults");
        store.check().expect("what is loaded is sound");
    }
}

/// A configuration file. It is accepted, or refused with a reason.
pub fn config_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let args = ["--config-file=conf".to_owned()];
    match config::parse(&args, &[], &|_| Ok(text.to_string())) {
        Ok(config) => assert!(!config.name.is_empty() || text.contains("name")),
        Err(exit) => assert!(matches!(exit, Exit::Invalid(_)), "{exit:?}"),
    }
}

/// Credentials: certificates, revocation lists, keys, tokens.
pub fn credentials(data: &[u8]) {
    crate::net::tls::any_file(data);
    crate::auth::any_token(data);
}

/// Everything that a client sends on its port. The connection ends, and nothing gets past the body
/// of a call.
pub fn client_port(data: &[u8]) {
    crate::api::serve::fuzzing::connection(data);
}

/// A stream that members read from each other.
pub fn peer_stream(data: &[u8]) {
    crate::member::cluster::peer::fuzzing::any_stream(data);
}

/// Requests of other members, or of others who reach the peer port.
pub fn peer_port(data: &[u8]) {
    crate::member::cluster::peer::fuzzing::any_requests(data);
}

/// Questions between members that are not Raft's, and their answers: members, versions, leases,
/// hashes, parts of states.
pub fn peer_answer(data: &[u8]) {
    crate::member::cluster::peer::fuzzing::any_answer(data);
}

/// The body of `POST /raft/snapshot`, in both forms. It is refused, or it is a state from which a
/// member can continue.
pub fn snapshot_receive(data: &[u8]) {
    for form in [Form::Rows, Form::Database] {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let dir = Path::new("/store");
        vfs.create_dir_all(dir).expect("a disk without faults");
        let mut state = state_on(&vfs, dir);
        let receiver = Receiver::new(vfs, dir.to_owned(), Default::default());
        let receiver = receiver.expect("a disk without faults");
        let receiving = receiver.begin().expect("nothing else is received");
        if let Ok((_, received)) = receiving.read(form, &mut &data[..]) {
            state.replace(received).expect("its rows were looked at");
        }
    }
}

/// Proposals of another member, each after its kind and its length. Every member can apply what may
/// enter the log.
pub fn proposal_apply(mut data: &[u8]) {
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
    let dir = Path::new("/store");
    vfs.create_dir_all(dir).expect("a disk without faults");
    let mut state = state_on(&vfs, dir);
    let mut index = 0;
    while let Some(([kind, length], rest)) = data.split_first_chunk() {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        data = rest;
        index += 1;
        let entry = raft::Entry {
            term: 1,
            index,
            kind: match kind % 2 {
                0 => raft::EntryKind::Normal,
                _ => raft::EntryKind::ConfChange,
            },
            data: bytes::Bytes::copy_from_slice(payload),
        };
        if entry.data.is_empty() || entry::check_proposal(&entry).is_err() {
            continue;
        }
        let applied = Applied { index, term: 1 };
        let result = match entry.kind {
            raft::EntryKind::Normal => {
                let request = entry::request(&entry).expect("it was checked");
                let (by, mut effects) = (AuthInfo::default(), Effects::default());
                let answer_for = match kind / 2 % 2 {
                    0 => AnswerFor::Client,
                    _ => AnswerFor::Nobody,
                };
                let result = state.apply(applied, &request, &by, answer_for, &mut effects);
                result.map(drop)
            }
            _ => {
                let change = entry::conf_change(&entry).expect("it was checked");
                state.apply_conf_change(applied, &change)
            }
        };
        assert!(!matches!(result, Err(Error::Damaged(_))), "{result:?}");
    }
}

fn state_on(vfs: &Arc<dyn Vfs>, dir: &Path) -> State {
    let store = Store::open(Arc::clone(vfs), dir, Default::default());
    State::new(store.expect("a disk without faults"), 2).expect("an empty store")
}

/// A body at the gateway, for the method that its first byte selects. Its values do not depend on
/// how the body is cut, and survive a conversion to a message and back.
pub fn gateway_json(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else {
        return;
    };
    let message = METHODS[usize::from(*choice) % METHODS.len()].input;
    let found = values(body, body.len());
    assert_eq!(values(body, 1), found);
    let (values, _) = found;
    for value in values {
        let Ok(wire) = decode(&value, message) else {
            continue;
        };
        let mut json = Vec::new();
        encode(&wire, message, Escape::Json, &mut json).expect("what is decoded can be told");
        let again = decode(&json, message).expect("what is told can be decoded");
        let mut same = Vec::new();
        encode(&again, message, Escape::Json, &mut same).expect("and told again");
        assert_eq!(same, json);
    }
}

/// The values of a body that arrives in pieces of this size, and whether all of it was JSON.
fn values(body: &[u8], piece: usize) -> (Vec<Vec<u8>>, Result<(), String>) {
    let (mut scanner, mut values, mut value) = (Scanner::new(), Vec::new(), Vec::new());
    for mut piece in body.chunks(piece.max(1)) {
        loop {
            match scanner.feed(piece) {
                Err(error) => return (values, Err(error)),
                Ok(None) => break value.extend_from_slice(piece),
                Ok(Some(end)) => {
                    value.extend_from_slice(&piece[..end]);
                    values.push(std::mem::take(&mut value));
                    piece = &piece[end..];
                }
            }
        }
    }
    let end = scanner.end();
    if end == Ok(true) {
        values.push(value);
    }
    (values, end.map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_decode_or_are_refused() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            request_decode(&bytes);
            snapshot_rows(&bytes);
            config_file(&bytes);
            credentials(&bytes);
            client_port(&bytes);
            let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
            client_port(&[preface, &bytes[..]].concat());
            peer_stream(&bytes);
            peer_port(&bytes);
            peer_answer(&bytes);
            snapshot_receive(&bytes);
            proposal_apply(&bytes);
            gateway_json(&bytes);
            Ok(())
        });
    }

    /// Random bytes are rarely a certificate, so this changes real ones.
    #[test]
    fn what_is_almost_a_certificate_or_a_token_is_read_or_refused() {
        const SEEDS: [&[u8]; 5] = [
            include_bytes!("../../fuzz/seeds/credentials/certificate.der"),
            include_bytes!("../../fuzz/seeds/credentials/certificate.pem"),
            include_bytes!("../../fuzz/seeds/credentials/claims"),
            include_bytes!("../../fuzz/seeds/credentials/list.der"),
            include_bytes!("../../fuzz/seeds/credentials/options"),
        ];
        arbtest::arbtest(|u| {
            let mut bytes = u.choose(&SEEDS)?.to_vec();
            for _ in 0..u.int_in_range(0..=4)? {
                let place = u.choose_index(bytes.len())?;
                bytes[place] = u.arbitrary()?;
            }
            credentials(&bytes);
            Ok(())
        });
    }

    /// Random bytes are rarely JSON, so this combines parts of it.
    #[test]
    fn requests_in_json_are_told_as_they_were() {
        const PARTS: [&str; 32] = [
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            " ",
            "\n",
            "null",
            "true",
            "1",
            "-2e1",
            "\"7\"",
            "\"\\u00e9\"",
            "\"Zm9v\"",
            "\"key\":",
            "\"value\":",
            "\"compare\":[",
            "\"success\":[",
            "{\"request_txn\":{",
            "{\"requestRange\":{",
            "\"create_request\":{",
            "\"target\":",
            "\"VALUE\"",
            "\"filters\":[",
            "\"ID\":",
            "\"peerURLs\":[",
            "\"key\":\"Zm9v\"",
            "\"limit\":\"3\"",
            "\"keys\":true",
            "\"\\ud83d\\ude00\"",
            "\"perm\":{\"permType\":\"WRITE\"}",
        ];
        arbtest::arbtest(|u| {
            let mut body = vec![u.arbitrary()?];
            for _ in 0..u.arbitrary_len::<u8>()?.min(40) {
                body.extend(u.choose(&PARTS)?.bytes());
            }
            gateway_json(&body);
            Ok(())
        });
    }
}
