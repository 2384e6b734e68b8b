use std::path::Path;
use std::sync::Arc;

use arbtest::arbitrary::{self, Unstructured};
use bytes::Bytes;
use etcd_api::authpb;
use storage::mvcc::{Applied, LonePut, Store};
use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use super::super::{AnswerFor, Effects, State};
use super::*;
use crate::auth::ROOT;
use crate::state::Outcome;

const DIR: &str = "/store";

fn open(vfs: &Arc<dyn Vfs>) -> State {
    let store = Store::open(Arc::clone(vfs), Path::new(DIR), Default::default());
    State::new(store.unwrap(), 2).unwrap()
}

fn disk() -> Arc<dyn Vfs> {
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    vfs
}

fn next(state: &State) -> Applied {
    let index = state.store.root().applied().index + 1;
    Applied { index, term: 1 }
}

/// Encodes the request as a log entry, decodes it, and applies it.
fn apply(state: &mut State, by: &AuthInfo, request: Request) -> Result<Outcome, Error> {
    let data = request.encode_by(1, by);
    let (request, by) = (
        Request::decode(&data).unwrap(),
        Request::auth_info_of(&data),
    );
    let applied = next(state);
    let mut effects = Effects::default();
    let result = state.apply(applied, &request, &by, AnswerFor::Client, &mut effects);
    assert_eq!(state.store.root().applied(), applied, "its place is taken");
    result
}

fn by(user: &str, state: &State) -> AuthInfo {
    AuthInfo {
        user: user.to_owned(),
        revision: state.auth.image().revision,
    }
}

fn change(state: &mut State, request: AuthRequest) -> Result<(), Error> {
    let root = by(ROOT, state);
    apply(state, &root, Request::Auth(request)).map(drop)
}

fn add_user(state: &mut State, name: &str) -> Result<(), Error> {
    let request = pb::AuthUserAddRequest {
        name: name.to_owned(),
        hashed_password: "aGFzaA==".to_owned(),
        ..Default::default()
    };
    change(state, AuthRequest::UserAdd(request))
}

fn add_role(state: &mut State, name: &str) -> Result<(), Error> {
    let name = name.to_owned();
    change(state, AuthRequest::RoleAdd(pb::AuthRoleAddRequest { name }))
}

fn grant_role(state: &mut State, user: &str, role: &str) -> Result<(), Error> {
    let (user, role) = (user.to_owned(), role.to_owned());
    let request = pb::AuthUserGrantRoleRequest { user, role };
    change(state, AuthRequest::UserGrantRole(request))
}

fn permit(state: &mut State, role: &str, kind: i32, key: &str, end: &str) -> Result<(), Error> {
    let request = pb::AuthRoleGrantPermissionRequest {
        name: role.to_owned(),
        perm: Some(authpb::Permission {
            perm_type: kind,
            key: Bytes::copy_from_slice(key.as_bytes()),
            range_end: Bytes::copy_from_slice(end.as_bytes()),
        }),
    };
    change(state, AuthRequest::RoleGrantPermission(request))
}

fn put(key: &str) -> Request {
    Request::Put(pb::PutRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        ..Default::default()
    })
}

/// Enables auth, with root, and with alice who may write a..c and read b..d.
fn enabled(state: &mut State) {
    add_user(state, ROOT).unwrap();
    add_user(state, "alice").unwrap();
    add_role(state, "r").unwrap();
    permit(state, "r", 1, "a", "c").unwrap();
    permit(state, "r", 0, "b", "d").unwrap();
    grant_role(state, "alice", "r").unwrap();
    assert_eq!(
        change(state, AuthRequest::Enable),
        Err(Error::RootRoleNotGranted)
    );
    grant_role(state, ROOT, ROOT).unwrap();
    let revision = state.auth.image().revision;
    change(state, AuthRequest::Enable).unwrap();
    assert_eq!(
        state.auth.image().revision,
        revision,
        "enabling is no change"
    );
}

#[test]
fn what_is_applied_is_judged_by_what_is_in_force_then() {
    let mut state = open(&disk());
    enabled(&mut state);
    let nobody = AuthInfo::default();
    assert_eq!(
        apply(&mut state, &nobody, put("a")).err(),
        Some(Error::UserEmpty)
    );
    let alice = by("alice", &state);
    apply(&mut state, &alice, put("a")).unwrap();
    let denied = Some(Error::PermissionDenied);
    assert_eq!(apply(&mut state, &alice, put("c")).err(), denied);
    // With a token older than the last auth change, the permissions may have changed.
    add_user(&mut state, "bob").unwrap();
    let old = Some(Error::AuthOldRevision);
    assert_eq!(apply(&mut state, &alice, put("a")).err(), old);
    let alice = by("alice", &state);
    let delete = Request::Auth(AuthRequest::UserDelete(pb::AuthUserDeleteRequest {
        name: "bob".to_owned(),
    }));
    assert_eq!(apply(&mut state, &alice, delete).err(), denied);
    assert_eq!(state.store.root().revision(), 2, "one put was let through");
}

fn attach(key: &str, lease: i64) -> Request {
    Request::Put(pb::PutRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        lease,
        ..Default::default()
    })
}

fn delete(key: &str, end: &str) -> Request {
    Request::DeleteRange(pb::DeleteRangeRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        range_end: Bytes::copy_from_slice(end.as_bytes()),
        ..Default::default()
    })
}

/// Keys that are deleted count no more, though their tombstones are still to be written.
#[test]
fn who_may_not_write_a_key_of_a_lease_may_not_use_the_lease() {
    const LEASE: i64 = 7;
    let mut state = open(&disk());
    enabled(&mut state);
    state.store.set_keys_deleted_at_once(3);
    let (root, alice) = (by(ROOT, &state), by("alice", &state));
    let grant = pb::LeaseGrantRequest { id: LEASE, ttl: 60 };
    apply(&mut state, &root, Request::LeaseGrant(grant)).unwrap();
    let revoke = || Request::LeaseRevoke(pb::LeaseRevokeRequest { id: LEASE });
    let denied = Some(Error::PermissionDenied);

    apply(&mut state, &alice, attach("b", LEASE)).unwrap();
    apply(&mut state, &alice, attach("a", LEASE)).unwrap();
    for i in 0..10 {
        apply(&mut state, &root, attach(&format!("x{i}"), LEASE)).unwrap();
    }
    let is_refused = |state: &mut State| {
        let within = pb::TxnRequest {
            failure: vec![pb::RequestOp {
                request: Some(pb::request_op::Request::RequestPut(pb::PutRequest {
                    key: Bytes::from_static(b"aa"),
                    lease: LEASE,
                    ..Default::default()
                })),
            }],
            ..Default::default()
        };
        for request in [attach("aa", LEASE), Request::Txn(within), revoke()] {
            assert_eq!(apply(state, &alice, request).err(), denied);
        }
    };
    is_refused(&mut state);
    apply(&mut state, &alice, attach("aa", LEASE + 1)).unwrap_err();
    apply(&mut state, &root, delete("x", "y")).unwrap();
    assert!(state.store.root().is_deleting());
    apply(&mut state, &alice, attach("bb", LEASE)).unwrap();
    apply(&mut state, &root, attach("x5", 0)).unwrap();
    apply(&mut state, &alice, attach("bb", LEASE)).unwrap();
    apply(&mut state, &root, attach("x6", LEASE)).unwrap();
    is_refused(&mut state);
    apply(&mut state, &root, delete("x6", "")).unwrap();
    // Above all that alice may write.
    apply(&mut state, &root, attach("c", LEASE)).unwrap();
    is_refused(&mut state);
    apply(&mut state, &root, delete("c", "")).unwrap();
    assert!(state.store.root().is_deleting());
    apply(&mut state, &alice, revoke()).unwrap();
    assert_eq!(state.store.root().live_keys(), 1, "x5");
}

#[test]
fn changes_count_as_etcd_counts_them() {
    let mut state = open(&disk());
    let revision = |state: &State| state.auth.image().revision;
    assert_eq!(revision(&state), 1);
    assert_eq!(
        change(&mut state, AuthRequest::Enable),
        Err(Error::RootUserNotFound)
    );
    add_user(&mut state, ROOT).unwrap();
    assert_eq!(add_user(&mut state, ROOT), Err(Error::UserExists));
    assert_eq!(add_user(&mut state, ""), Err(Error::UserEmpty));
    assert_eq!(revision(&state), 2);
    change(&mut state, AuthRequest::Disable).unwrap();
    assert_eq!(revision(&state), 2, "it was off");
    grant_role(&mut state, ROOT, ROOT).unwrap();
    grant_role(&mut state, ROOT, ROOT).unwrap();
    assert_eq!(revision(&state), 3, "granted again");
    assert_eq!(grant_role(&mut state, ROOT, "no"), Err(Error::RoleNotFound));
    change(&mut state, AuthRequest::Enable).unwrap();
    change(&mut state, AuthRequest::Enable).unwrap();
    assert_eq!(revision(&state), 3);
    let name = ROOT.to_owned();
    let delete = AuthRequest::UserDelete(pb::AuthUserDeleteRequest { name });
    assert_eq!(
        change(&mut state, delete),
        Err(Error::InvalidAuthManagement)
    );
    change(&mut state, AuthRequest::Disable).unwrap();
    assert_eq!(revision(&state), 4);
    assert_eq!(
        permit(&mut state, "r", 0, "", ""),
        Err(Error::InvalidAuthManagement)
    );
    assert_eq!(
        permit(&mut state, "r", 0, "b", "a"),
        Err(Error::InvalidAuthManagement)
    );
    assert_eq!(
        permit(&mut state, "r", 0, "b", "\0"),
        Err(Error::RoleNotFound)
    );
}

/// As in etcd, a grant compares only the first permission of a key.
#[test]
fn a_second_range_of_a_key_granted_again_stands_there_twice() {
    let mut state = open(&disk());
    add_role(&mut state, "r").unwrap();
    for end in ["", "c", "", "c"] {
        permit(&mut state, "r", 0, "a", end).unwrap();
    }
    let held = &state.auth.image().role("r").unwrap().key_permission;
    let ends: Vec<&[u8]> = held.iter().map(|held| &held.range_end[..]).collect();
    assert_eq!(ends, [&b""[..], b"c", b"c"]);
}

#[test]
fn users_are_in_force_from_the_start_of_a_store_that_has_them() {
    let vfs = disk();
    let mut state = open(&vfs);
    enabled(&mut state);
    let expected = format!("{:?}", state.auth.image());
    let job = state.store.begin_checkpoint().unwrap();
    let _ = state.store.finish_checkpoint(job.run().unwrap());
    drop(state);
    let mut state = open(&vfs);
    assert!(state.auth.shared().is_enabled());
    assert_eq!(format!("{:?}", state.auth.image()), expected);
    let nobody = AuthInfo::default();
    assert_eq!(
        apply(&mut state, &nobody, put("a")).err(),
        Some(Error::UserEmpty)
    );
    let alice = by("alice", &state);
    apply(&mut state, &alice, put("a")).unwrap();
}

#[test]
fn the_rows_are_etcds() {
    let mut state = open(&disk());
    enabled(&mut state);
    let root = state.store.root();
    let row = |bucket, key: &[u8]| root.side_get(bucket, key).unwrap().unwrap();
    assert_eq!(row(Bucket::Auth, b"authEnabled"), [1]);
    assert_eq!(row(Bucket::Auth, b"authRevision"), 8u64.to_be_bytes());
    // As Go encodes them: name, password, roles, and options that are present but empty.
    let alice = b"\x0a\x05alice\x12\x04hash\x1a\x01r\x22\x00";
    assert_eq!(row(Bucket::AuthUsers, b"alice"), alice);
    let role = b"\x0a\x01r\x12\x08\x08\x01\x12\x01a\x1a\x01c\x12\x06\x12\x01b\x1a\x01d";
    assert_eq!(row(Bucket::AuthRoles, b"r"), role);
}

#[test]
fn a_token_is_of_its_entry_and_ends_with_its_user() {
    let mut state = open(&disk());
    let login = || {
        Request::Authenticate(pb::InternalAuthenticateRequest {
            name: "alice".to_owned(),
            simple_token: "abc".to_owned(),
            ..Default::default()
        })
    };
    let nobody = AuthInfo::default();
    assert_eq!(
        apply(&mut state, &nobody, login()).err(),
        Some(Error::AuthNotEnabled)
    );
    enabled(&mut state);
    let applied = next(&state);
    let Ok(Outcome::Authenticated(given)) = apply(&mut state, &nobody, login()) else {
        panic!("no token");
    };
    assert_eq!(given.token, format!("abc.{}", applied.index - 1));
    let shared = Arc::clone(state.auth.shared());
    let now = std::time::Duration::ZERO;
    let held = |token: &str| shared.tokens.lock().user(token, now).is_some();
    shared.tokens.lock().assign("a.1", "alice", now);
    shared.tokens.lock().assign("r.2", ROOT, now);
    let change_password = AuthRequest::UserChangePassword(pb::AuthUserChangePasswordRequest {
        name: "alice".to_owned(),
        hashed_password: "aGFzaDI=".to_owned(),
        ..Default::default()
    });
    change(&mut state, change_password).unwrap();
    assert!(!held("a.1") && held("r.2"));
    change(&mut state, AuthRequest::Disable).unwrap();
    assert!(!held("r.2"));
}

/// A password in the log, as before etcd 3.5.
#[test]
fn a_password_of_an_old_log_is_hashed_alike_on_every_replay() {
    let hash = |password: &str| {
        let mut state = open(&disk());
        let request = pb::AuthUserAddRequest {
            name: "alice".to_owned(),
            password: password.to_owned(),
            ..Default::default()
        };
        change(&mut state, AuthRequest::UserAdd(request)).unwrap();
        let user = state.auth.image().user("alice").unwrap();
        String::from_utf8(user.row.password.to_vec()).unwrap()
    };
    assert_eq!(hash("secret"), hash("secret"));
    assert!(bcrypt::verify("secret", &hash("secret")).unwrap());
}

/// A random entry, encoded as in the log.
fn any_entry(u: &mut Unstructured<'_>, revision: u64) -> arbitrary::Result<Bytes> {
    let user = ["", ROOT, "alice", "eve"][u.int_in_range(0..=3)?];
    let by = AuthInfo {
        user: user.to_owned(),
        revision: revision.saturating_sub(u.int_in_range(0..=1)?),
    };
    let request = match u.int_in_range(0..=9)? {
        0 => Request::Auth(AuthRequest::Disable),
        1 => Request::Auth(AuthRequest::Enable),
        _ => Request::Put(pb::PutRequest {
            key: Bytes::from(vec![b'a' + u.int_in_range(0..=4)?]),
            value: Bytes::from_static(b"v"),
            prev_kv: u.arbitrary()?,
            ..Default::default()
        }),
    };
    Ok(request.encode_by(1, &by))
}

fn content(state: &State) -> Vec<String> {
    let mut rows = Vec::new();
    let root = state.store.root();
    root.changes(0, i64::MAX, &mut |change| {
        rows.push(format!("{change:?}"));
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    rows.push(format!("{:?} {:?}", root.applied(), state.auth.image()));
    rows
}

/// A replay batches puts; each one must still be authorized.
#[test]
fn gathered_puts_are_judged_like_single_ones() {
    arbtest::arbtest(|u| {
        let (mut one, mut gathered) = (open(&disk()), open(&disk()));
        enabled(&mut one);
        enabled(&mut gathered);
        let mut waiting: Vec<(Applied, Bytes)> = Vec::new();
        let flush = |state: &mut State, waiting: &mut Vec<(Applied, Bytes)>| {
            let waiting = std::mem::take(waiting);
            let read = waiting.iter().map(|(applied, data)| {
                let put = Request::lone_put(data).unwrap();
                (*applied, put)
            });
            let (puts, by): (Vec<_>, Vec<_>) = read
                .map(|(applied, put)| {
                    let lone = LonePut {
                        applied,
                        key: put.key,
                        value: put.value,
                        lease: 0,
                    };
                    (lone, put.by)
                })
                .unzip();
            state.put_all(puts, by.into_iter(), None).unwrap();
        };
        for _ in 0..u.int_in_range(0..=30)? {
            let data = any_entry(u, one.auth.image().revision)?;
            let request = Request::decode(&data).unwrap();
            let by = Request::auth_info_of(&data);
            let (applied, mut effects) = (next(&one), Effects::default());
            let _ = one.apply(applied, &request, &by, AnswerFor::Client, &mut effects);
            if Request::lone_put(&data).is_some() {
                waiting.push((applied, data));
                continue;
            }
            flush(&mut gathered, &mut waiting);
            let _ = gathered.apply(applied, &request, &by, AnswerFor::Nobody, &mut effects);
        }
        flush(&mut gathered, &mut waiting);
        one.store.publish();
        gathered.store.publish();
        assert_eq!(content(&one), content(&gathered));
        Ok(())
    })
    .budget_ms(2_000);
}
