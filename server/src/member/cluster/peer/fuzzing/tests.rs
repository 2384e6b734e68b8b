use etcd_api::etcdserverpb as pb;
use prost::Message as _;
use storage::mvcc::{Applied, Store};

use super::*;
use crate::state::snapshot::describe;

const POST: u8 = 1;
const ETCD_STATE: u8 = 2;
const STATE: u8 = 3;
const BROKEN_OFF: u8 = 4;
/// Added to what is asked: a sender that no member knows asks it.
const BY_STRANGER: u8 = 31 * 8;
/// Limit for what must not hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// The rest of a state that broke off after [`PART`] bytes.
const REST: u8 = 5 + 8 * 8;
const PART: usize = 64;

fn message(body: Body) -> Vec<u8> {
    let message = Message {
        from: PEER,
        to: ME,
        term: 7,
        body,
    };
    let mut bytes = Vec::new();
    raft::wire::encode_message(&message, &mut bytes);
    bytes
}

fn heartbeat() -> Vec<u8> {
    message(Body::Heartbeat {
        commit: 3,
        context: Bytes::from_static(b"12345678"),
    })
}

/// A state with one key, as a member sends it.
fn state() -> Vec<u8> {
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
    let mut store = Store::open(vfs, Path::new(STORE), Default::default()).unwrap();
    let mut write = store.write(Applied { index: 9, term: 7 });
    write.put(b"key", b"value", 0).unwrap();
    drop(write);
    store.publish();
    let view = store.reader().view();
    let message = message(Body::Snapshot(describe(&view).unwrap()));
    let mut bytes = (message.len() as u64).to_be_bytes().to_vec();
    bytes.extend(message);
    rows::write(&view, &mut bytes).unwrap();
    bytes
}

fn delivered(port: &Port, choice: u8, body: &[u8]) -> Vec<ConsensusEvent> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(port.connection(choice, body));
    let mut events = Vec::new();
    port.delivered.receive(Some(Duration::ZERO), &mut events);
    events
}

#[test]
fn what_a_member_sends_is_delivered() {
    let port = Port::new();
    let events = delivered(&port, POST, &heartbeat());
    assert!(matches!(&events[..], [ConsensusEvent::Receive(_)]));
    let events = delivered(&port, STATE, &state());
    let [ConsensusEvent::SnapshotReceived { received, .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(received.applied().index, 9);
}

#[test]
fn a_state_that_breaks_off_goes_on() {
    let (port, state) = (Port::new(), state());
    assert!(delivered(&port, BROKEN_OFF, &state[..PART]).is_empty());
    // The part that is here does not make way for a stranger's.
    assert!(delivered(&port, STATE + BY_STRANGER, &state).is_empty());
    let events = delivered(&port, REST, &state[PART..]);
    let [ConsensusEvent::SnapshotReceived { received, .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(received.applied().index, 9);
}

#[test]
fn messages_of_strangers_that_never_end_leave_members_their_places() {
    let port = Port::new();
    let places = &port.peers.0.posts;
    let all = u32::try_from(POSTS_OF_STRANGERS_MAX).unwrap();
    let _taken = Arc::clone(places).try_acquire_many_owned(all).unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    for sender in [BY_STRANGER, 0] {
        let sending = async {
            let message = heartbeat();
            let sending = port.connection(POST + sender, &message);
            tokio::time::timeout(PATIENCE, sending).await
        };
        assert!(runtime.block_on(sending).is_ok(), "it waits");
    }
    let mut events = Vec::new();
    port.delivered.receive(Some(Duration::ZERO), &mut events);
    assert!(matches!(&events[..], [ConsensusEvent::Receive(_)]));
}

#[test]
fn a_state_of_a_stranger_that_never_ends_makes_way_for_that_of_a_member() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    // In the form of etcd's members, which has no number, and in ours.
    for form in [ETCD_STATE, BROKEN_OFF] {
        let port = Port::new();
        let state = state();
        // Not even the length of the message, which would be refused.
        let (mut bytes, _) = request(form + BY_STRANGER, &state[..4]);
        bytes.truncate(bytes.len() - 1);
        let both = async {
            let (mut stranger, connection) = tokio::io::duplex(64 << 10);
            stranger.write_all(&bytes).await.unwrap();
            let mut held = std::pin::pin!(port.serve(connection));
            let is_read = async {
                while port.peers.0.receiver.begin().is_some() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                () = &mut held => panic!("the stranger was refused"),
                () = is_read => {}
            }
            tokio::join!(held, port.connection(STATE, &state));
        };
        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, both).await });
        assert!(ended.is_ok(), "it holds the place");
        let mut events = Vec::new();
        port.delivered.receive(Some(Duration::ZERO), &mut events);
        assert!(matches!(
            &events[..],
            [ConsensusEvent::SnapshotReceived { .. }]
        ));
    }
}

#[test]
fn a_refused_state_that_ends_late_does_not_take_the_place_of_the_next() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (port, state) = (Port::new(), state());
    let traffic = port.peers.0.metrics.network.of(STRANGER);
    let arriving = || traffic.snapshots_received.in_flight.get();
    let is_free = || port.peers.0.receiver.begin().is_some();
    // Neither has its last byte.
    let [refused, begun] = [&[0xff; 16][..], &state[..4]].map(|body| {
        let (mut bytes, _) = request(ETCD_STATE + BY_STRANGER, body);
        bytes.truncate(bytes.len() - 1);
        bytes
    });
    let all = async {
        let (mut first, connection) = tokio::io::duplex(64 << 10);
        first.write_all(&refused).await.unwrap();
        let mut serving_first = std::pin::pin!(port.serve(connection));
        let is_refused = async {
            while arriving() < 1 || !is_free() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = &mut serving_first => panic!("it has ended"),
            () = is_refused => {}
        }
        let (mut second, connection) = tokio::io::duplex(64 << 10);
        second.write_all(&begun).await.unwrap();
        let mut serving_second = std::pin::pin!(port.serve(connection));
        let is_read = async {
            while arriving() < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = &mut serving_second => panic!("the second was refused"),
            () = is_read => {}
        }
        first.write_all(b"x").await.unwrap();
        serving_first.await;
        tokio::join!(serving_second, port.connection(STATE, &state));
    };
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, all).await });
    assert!(ended.is_ok(), "the second holds the place");
    let mut events = Vec::new();
    port.delivered.receive(Some(Duration::ZERO), &mut events);
    assert!(matches!(
        &events[..],
        [ConsensusEvent::SnapshotReceived { .. }]
    ));
}

/// Random bytes are rarely an answer, so this changes real ones.
#[test]
fn what_is_almost_an_answer_of_a_member_is_read_or_refused() {
    let members = b"c\0[{\"id\":1,\"peerURLs\":[\"http://a\"],\"isLearner\":true,\"name\":\"m\"}]";
    let versions = br#"{"etcdserver":"3.6.1","etcdcluster":"3.6.0"}"#;
    let hash = br#"{"header":{"revision":9},"hash":7,"compact_revision":-1,"hash_revision":5}"#;
    let lease = pb::LeaseKeepAliveResponse {
        id: 7,
        ttl: 5,
        ..Default::default()
    };
    let (lease, (_, keep_alive)) = (lease.encode_to_vec(), super::lease::keep_alive(7));
    let (_, time_to_live) = super::lease::time_to_live(7, true);
    let answers: [(u8, &[u8]); 8] = [
        (0, members),
        (1, versions),
        (2, &keep_alive),
        (3, &time_to_live),
        (4, &lease),
        (5, &lease),
        (6, hash),
        (7, b"4096\n"),
    ];
    for (kind, body) in answers {
        any_answer(&[&[kind], body].concat());
    }
    arbtest::arbtest(|u| {
        let (kind, body) = *u.choose(&answers)?;
        let mut body = body.to_vec();
        for _ in 0..u.int_in_range(0..=3)? {
            let place = u.choose_index(body.len())?;
            body[place] = u.arbitrary()?;
        }
        any_answer(&[&[kind], &body[..]].concat());
        Ok(())
    });
}

/// Random bytes are rarely a message, so this changes real ones.
#[test]
fn what_is_almost_a_request_of_a_member_is_taken_or_refused() {
    let (message, state) = (heartbeat(), state());
    let requests = [
        (POST, &message[..]),
        (STATE, &state),
        (BROKEN_OFF, &state[..PART]),
        (REST, &state[PART..]),
    ];
    arbtest::arbtest(|u| {
        let mut data = Vec::new();
        for _ in 0..u.int_in_range(1..=3)? {
            let (mut choice, body) = *u.choose(&requests)?;
            let mut body = body.to_vec();
            for _ in 0..u.int_in_range(0..=3)? {
                let place = u.choose_index(body.len())?;
                body[place] = u.arbitrary()?;
            }
            if u.ratio(1, 4)? {
                choice = u.arbitrary()?;
            }
            data.push(choice);
            data.extend(u16::try_from(body.len()).unwrap().to_le_bytes());
            data.extend(body);
        }
        any_requests(&data);
        Ok(())
    });
}
