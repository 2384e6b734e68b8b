use bytes::Bytes;
use raft::{Entry, EntryKind};
use server::request::{AuthInfo, Request};

use super::*;

fn put(key: &str, value: &str) -> pb::PutRequest {
    pb::PutRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        ..Default::default()
    }
}

struct Log {
    model: Model,
    last_id: u64,
}

impl Log {
    fn new() -> Log {
        let model = Model::new(2);
        Log { model, last_id: 0 }
    }

    fn add(&mut self, request: Request) -> Result<Response, Refusal> {
        self.last_id += 1;
        let entry = Entry {
            term: 1,
            index: self.model.applied() + 1,
            kind: EntryKind::Normal,
            data: request.encode(self.last_id),
        };
        self.model.apply(&entry).unwrap();
        self.model.answer_to(self.last_id).unwrap().response.clone()
    }
}

#[test]
fn an_older_index_shows_what_was_there_then() {
    let mut log = Log::new();
    log.add(Request::Put(put("a", "1"))).unwrap();
    log.add(Request::Put(put("a", ""))).unwrap();
    log.add(Request::DeleteRange(pb::DeleteRangeRequest {
        key: "a".into(),
        ..Default::default()
    }))
    .unwrap();
    let all = pb::RangeRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        ..Default::default()
    };
    let versions = |index| -> Vec<(i64, Bytes)> {
        let found = log.model.range(index, &all).unwrap().kvs.into_iter();
        found.map(|kv| (kv.version, kv.value)).collect()
    };
    assert_eq!(versions(1), [(1, "1".into())]);
    assert_eq!(versions(2), [(2, "".into())]);
    assert_eq!(versions(3), []);
    assert_eq!(log.model.newest().current, 4);
}

#[test]
fn compacted_and_future_revisions_are_refused() {
    let mut log = Log::new();
    log.add(Request::Put(put("a", "1"))).unwrap();
    log.add(Request::Put(put("a", "2"))).unwrap();
    let compaction = Request::Compaction(pb::CompactionRequest {
        revision: 3,
        physical: false,
    });
    assert_eq!(log.add(compaction.clone()), Ok(Response::Done));
    assert_eq!(log.add(compaction), Err(Refusal::Compacted));
    let at = |revision| pb::RangeRequest {
        key: "a".into(),
        revision,
        ..Default::default()
    };
    assert_eq!(log.model.range(4, &at(2)), Err(Refusal::Compacted));
    assert_eq!(log.model.range(4, &at(4)), Err(Refusal::FutureRevision));
    assert_eq!(log.model.range(4, &at(3)).unwrap().count, 1);
    // A member that has not applied the compaction yet still answers.
    assert_eq!(log.model.range(2, &at(2)).unwrap().count, 1);
}

#[test]
fn a_lease_takes_its_keys_with_it() {
    let mut log = Log::new();
    let grant = pb::LeaseGrantRequest { id: 7, ttl: 1 };
    let granted = log.add(Request::LeaseGrant(grant));
    assert_eq!(granted, Ok(Response::LeaseGrant(2)));
    for key in ["b", "a"] {
        let put = pb::PutRequest {
            lease: 7,
            ..put(key, "x")
        };
        log.add(Request::Put(put)).unwrap();
    }
    let revoke = Request::LeaseRevoke(pb::LeaseRevokeRequest { id: 7 });
    log.add(revoke.clone()).unwrap();
    let gone: Vec<&[u8]> = log.model.changes_at(4).iter().map(|e| &e.key[..]).collect();
    assert_eq!(gone, [b"a", b"b"]);
    assert_eq!(log.add(revoke), Err(Refusal::LeaseNotFound));
}

#[test]
fn a_request_that_comes_twice_is_noticed() {
    let mut log = Log::new();
    log.add(Request::Put(put("a", "1"))).unwrap();
    let copy = Entry {
        term: 1,
        index: 2,
        kind: EntryKind::Normal,
        data: Request::Put(put("a", "1")).encode(1),
    };
    assert!(log.model.apply(&copy).is_err());
}

#[test]
fn permissions_of_several_roles_cover_a_range_together_and_a_gap_is_noticed() {
    use users::{Access, User};
    let range = |from: &str, to: &str, kind| (from.as_bytes().to_vec(), (to.into(), kind));
    let (write, both) = (1, 2);
    let mut users = Users {
        enabled: true,
        ..Users::default()
    };
    let roles = BTreeMap::from([
        ("a".to_owned(), [range("a", "c", both)].into()),
        (
            "b".to_owned(),
            [range("c", "", both), range("d", "\0", write)].into(),
        ),
    ]);
    users.roles = roles;
    let user = User {
        roles: ["a".to_owned(), "b".to_owned()].into(),
        ..User::default()
    };
    users.users.insert("u".to_owned(), user);
    let by = AuthInfo {
        user: "u".to_owned(),
        revision: 1,
    };
    let may = |access, key: &str, end: &str| users.may(&by, access, key.as_bytes(), end.as_bytes());
    let denied = Err(Refusal::PermissionDenied);
    assert_eq!(may(Access::Read, "a", "c"), Ok(()));
    assert_eq!(may(Access::Read, "b", "c\0"), Ok(()), "two roles");
    assert_eq!(may(Access::Read, "b", "d"), denied, "nothing behind c");
    assert_eq!(may(Access::Read, "c", ""), Ok(()));
    assert_eq!(may(Access::Read, "ca", ""), denied);
    assert_eq!(may(Access::Read, "d", ""), denied, "it may only be written");
    assert_eq!(may(Access::Write, "e", "\0"), Ok(()));
    assert_eq!(may(Access::Write, "c", "\0"), denied);
    let old = AuthInfo {
        revision: 0,
        ..by.clone()
    };
    assert_eq!(
        users.may(&old, Access::Read, b"a", b""),
        Err(Refusal::UserEmpty)
    );
    users.revision = 2;
    let refused = users.may(&by, Access::Read, b"z", b"");
    assert_eq!(refused, Err(Refusal::AuthOldRevision));
}

#[test]
fn an_entry_of_somebody_who_may_not_has_no_effect() {
    use server::request::AuthRequest;
    let mut log = Log::new();
    let root = users::ROOT.to_owned();
    let add = pb::AuthUserAddRequest {
        name: root.clone(),
        hashed_password: "aGFzaA==".to_owned(),
        ..Default::default()
    };
    log.add(Request::Auth(AuthRequest::UserAdd(add))).unwrap();
    let enable = Request::Auth(AuthRequest::Enable);
    assert_eq!(log.add(enable.clone()), Err(Refusal::RootRoleNotGranted));
    let grant = pb::AuthUserGrantRoleRequest {
        user: root.clone(),
        role: root.clone(),
    };
    log.add(Request::Auth(AuthRequest::UserGrantRole(grant)))
        .unwrap();
    log.add(enable).unwrap();
    assert_eq!(
        log.add(Request::Put(put("a", "1"))),
        Err(Refusal::UserEmpty)
    );
    assert_eq!(log.model.newest().current, 1);
    let login = Request::Authenticate(pb::InternalAuthenticateRequest {
        name: root.clone(),
        simple_token: "t".to_owned(),
        ..Default::default()
    });
    let given = Response::Authenticated {
        user: root.clone(),
        token: "t.5".to_owned(),
        auth_revision: 3,
    };
    assert_eq!(log.add(login), Ok(given));
    assert_eq!(log.model.token("t.5"), Some((6, root.as_str())));
    // What was so before is still known.
    assert!(!log.model.users_at(3).enabled && log.model.users_at(4).enabled);
}
