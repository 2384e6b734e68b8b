//! Random users, roles and requests. The model does not know permissions: only the servers decide
//! whether a request is denied.

use std::collections::BTreeMap;

use bytes::Bytes;
use etcd_api::authpb;
use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as TxnOp;

use super::ask::{Asked, Request};
use crate::harness::rng::Rng;

const USERS: [&str; 5] = ["root", "alice", "bob", "carol", "dave"];
const ROLES: [&str; 5] = ["root", "r1", "r2", "r3", "r4"];
const LEASES: [i64; 3] = [7, 8, 9];

#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) request: Request,
    pub(super) who: Who,
}

#[derive(Clone, Debug)]
pub(super) enum Who {
    Nobody,
    User(&'static str),
    /// A token that was good once, or never.
    Token(String),
}

impl Op {
    /// What a user who may read all of it sees.
    pub(super) fn everything() -> Op {
        let request = Request::Range(pb::RangeRequest {
            key: Bytes::from_static(b"\0"),
            range_end: Bytes::from_static(b"\0"),
            ..Default::default()
        });
        let who = Who::User("root");
        Op { request, who }
    }
}

pub(super) struct Generator {
    rng: Rng,
    /// Operations that come before all others.
    first: Vec<Op>,
    /// Tokens at both servers.
    tokens: BTreeMap<&'static str, [String; 2]>,
    old_tokens: Vec<[String; 2]>,
    /// The passwords that were set last.
    passwords: BTreeMap<&'static str, String>,
    enabled: bool,
    has_role: bool,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Generator {
        let mut generator = Generator {
            rng: Rng::new(seed),
            first: Vec::new(),
            tokens: BTreeMap::new(),
            old_tokens: Vec::new(),
            passwords: BTreeMap::new(),
            enabled: false,
            has_role: false,
        };
        generator.begin();
        generator
    }

    /// Somebody has to be there before anything can be denied.
    fn begin(&mut self) {
        for user in USERS {
            let request = Request::UserAdd(pb::AuthUserAddRequest {
                name: user.to_owned(),
                password: format!("{user}-0"),
                ..Default::default()
            });
            self.first(request);
        }
        for role in &ROLES[1..] {
            let name = (*role).to_owned();
            self.first(Request::RoleAdd(pb::AuthRoleAddRequest { name }));
        }
        let (user, role) = ("root".to_owned(), "root".to_owned());
        self.first(Request::UserGrantRole(pb::AuthUserGrantRoleRequest {
            user,
            role,
        }));
        self.first(Request::Enable);
        self.first.reverse();
    }

    fn first(&mut self, request: Request) {
        let who = Who::Nobody;
        self.first.push(Op { request, who });
    }

    pub(super) fn next(&mut self) -> Op {
        if let Some(op) = self.first.pop() {
            return op;
        }
        let root = Who::User("root");
        if !self.has_role || !self.enabled && self.rng.percent(20) {
            let (user, role) = ("root".to_owned(), "root".to_owned());
            let grant = Request::UserGrantRole(pb::AuthUserGrantRoleRequest { user, role });
            let request = if self.has_role {
                Request::Enable
            } else {
                grant
            };
            return Op { request, who: root };
        }
        let missing = USERS.iter().find(|user| !self.tokens.contains_key(*user));
        if let Some(user) = missing
            && self.enabled
            && self.rng.percent(40)
        {
            return self.login(user, 95);
        }
        let who = match self.rng.below(100) {
            0..=34 => Who::User("root"),
            35..=89 => Who::User(self.rng.pick(&USERS[1..])),
            90..=94 => Who::Nobody,
            _ => Who::Token(self.odd_token()),
        };
        let request = match self.rng.below(100) {
            0..=24 => self.administration(),
            25..=29 => {
                let user = self.rng.pick(&USERS);
                return self.login(user, 70);
            }
            30..=84 => self.data(),
            _ => self.other(),
        };
        Op { request, who }
    }

    pub(super) fn root_token(&self) -> Option<String> {
        self.tokens.get("root").map(|tokens| tokens[0].clone())
    }

    pub(super) fn root_password(&self) -> String {
        self.passwords.get("root").cloned().unwrap_or_default()
    }

    pub(super) fn tokens_for(&mut self, op: &Op) -> Option<[String; 2]> {
        match &op.who {
            Who::Nobody => None,
            Who::User(user) => self.tokens.get(user).cloned(),
            Who::Token(text) if text == "old" => {
                let both = || [text.clone(), text.clone()];
                Some(self.old_tokens.last().cloned().unwrap_or_else(both))
            }
            Who::Token(text) => Some([text.clone(), text.clone()]),
        }
    }

    pub(super) fn learn(&mut self, op: &Op, a: &Asked, b: &Asked) {
        let ok = a.shown.is_ok();
        let forget = |generator: &mut Generator, name: &str| {
            generator.old_tokens.extend(generator.tokens.remove(name));
        };
        match &op.request {
            Request::Authenticate(request) => {
                let name = USERS.iter().find(|user| **user == request.name);
                if let (Some(name), Some(a), Some(b)) = (name, &a.token, &b.token) {
                    self.tokens.insert(name, [a.clone(), b.clone()]);
                }
            }
            Request::UserAdd(request) if ok => self.set_password(&request.name, &request.password),
            Request::UserChangePassword(request) if ok => {
                self.set_password(&request.name, &request.password);
                forget(self, &request.name);
            }
            Request::UserDelete(request) if ok => forget(self, &request.name),
            Request::UserGrantRole(request) if ok => {
                self.has_role |= request.user == "root" && request.role == "root";
            }
            Request::UserRevokeRole(request) if ok => {
                self.has_role &= request.name != "root" || request.role != "root";
            }
            Request::RoleDelete(request) if ok => self.has_role &= request.role != "root",
            Request::Enable if ok => self.enabled = true,
            Request::Disable if ok => {
                self.enabled = false;
                let gone = std::mem::take(&mut self.tokens);
                self.old_tokens.extend(gone.into_values());
            }
            _ => {}
        }
        // Gone while auth was off, it has to come back before anything is denied again.
        if let Request::UserDelete(request) = &op.request
            && ok
            && request.name == "root"
        {
            self.has_role = false;
            let request = Request::UserAdd(pb::AuthUserAddRequest {
                name: "root".to_owned(),
                password: "root-0".to_owned(),
                ..Default::default()
            });
            self.first(request);
        }
    }

    fn set_password(&mut self, name: &str, password: &str) {
        if let Some(name) = USERS.iter().find(|user| **user == name) {
            self.passwords.insert(name, password.to_owned());
        }
    }

    fn odd_token(&mut self) -> String {
        let all = [
            "",
            "old",
            "x",
            "abcdefghijklmnop.3",
            "a.b.c",
            "a.-1",
            "Bearer x.2",
            "a.1x",
        ];
        self.rng.pick(&all).to_owned()
    }

    fn login(&mut self, user: &str, right: usize) -> Op {
        let password = if self.rng.percent(right) {
            self.passwords.get(user).cloned().unwrap_or_default()
        } else {
            "wrong".to_owned()
        };
        let name = if self.rng.percent(3) {
            "nobody".to_owned()
        } else {
            user.to_owned()
        };
        let request = Request::Authenticate(pb::AuthenticateRequest { name, password });
        let who = Who::Nobody;
        Op { request, who }
    }

    fn user(&mut self) -> String {
        if self.rng.percent(4) {
            self.rng.pick(&["", "nobody"]).to_owned()
        } else {
            self.rng.pick(&USERS).to_owned()
        }
    }

    fn role(&mut self) -> String {
        if self.rng.percent(4) {
            self.rng.pick(&["", "none"]).to_owned()
        } else {
            self.rng.pick(&ROLES).to_owned()
        }
    }

    fn key(&mut self) -> Bytes {
        let letters = self.rng.between(1, 2);
        (0..letters)
            .map(|_| b'a' + self.rng.below(6) as u8)
            .collect()
    }

    /// Single keys, open ranges, and ranges that may end before they begin.
    fn range(&mut self) -> (Bytes, Bytes) {
        let key = if self.rng.percent(4) {
            Bytes::from_static(b"\0")
        } else {
            self.key()
        };
        let end = match self.rng.below(10) {
            0..=3 => Bytes::new(),
            4 => Bytes::from_static(b"\0"),
            _ => self.key(),
        };
        (key, end)
    }

    fn administration(&mut self) -> Request {
        match self.rng.below(40) {
            0..=1 => {
                let options = self.rng.percent(30).then(|| authpb::UserAddOptions {
                    no_password: self.rng.percent(50),
                });
                let long = self.rng.percent(5);
                let name = self.user();
                Request::UserAdd(pb::AuthUserAddRequest {
                    password: if long {
                        "p".repeat(73)
                    } else {
                        format!("{name}-{}", self.rng.below(3))
                    },
                    name,
                    options,
                    ..Default::default()
                })
            }
            2 => Request::UserDelete(pb::AuthUserDeleteRequest { name: self.user() }),
            3 => {
                let name = self.user();
                Request::UserChangePassword(pb::AuthUserChangePasswordRequest {
                    // Root must not lock itself out.
                    password: if name != "root" && self.rng.percent(10) {
                        String::new()
                    } else {
                        format!("{name}-{}", self.rng.below(3))
                    },
                    name,
                    hashed_password: if self.rng.percent(50) {
                        String::new()
                    } else {
                        "not base64!".to_owned()
                    },
                })
            }
            4..=8 => {
                let (user, role) = (self.user(), self.role());
                Request::UserGrantRole(pb::AuthUserGrantRoleRequest { user, role })
            }
            9..=10 => {
                let (name, role) = (self.user(), self.role());
                Request::UserRevokeRole(pb::AuthUserRevokeRoleRequest { name, role })
            }
            11 => Request::RoleAdd(pb::AuthRoleAddRequest { name: self.role() }),
            12 if self.rng.percent(60) => {
                Request::RoleDelete(pb::AuthRoleDeleteRequest { role: self.role() })
            }
            12..=20 => {
                let (key, range_end) = self.range();
                let perm = authpb::Permission {
                    perm_type: self.rng.below(3) as i32,
                    key: if self.rng.percent(3) {
                        Bytes::new()
                    } else {
                        key
                    },
                    range_end,
                };
                Request::RoleGrantPermission(pb::AuthRoleGrantPermissionRequest {
                    name: self.role(),
                    perm: (!self.rng.percent(2)).then_some(perm),
                })
            }
            21..=24 => {
                let (key, range_end) = self.range();
                let role = self.role();
                Request::RoleRevokePermission(pb::AuthRoleRevokePermissionRequest {
                    role,
                    key,
                    range_end,
                })
            }
            25..=28 => Request::UserGet(pb::AuthUserGetRequest { name: self.user() }),
            29..=31 => Request::UserList,
            32..=35 => Request::RoleGet(pb::AuthRoleGetRequest { role: self.role() }),
            36..=37 => Request::RoleList,
            38 => Request::AuthStatus,
            _ => {
                if self.rng.percent(25) {
                    Request::Disable
                } else {
                    Request::Enable
                }
            }
        }
    }

    fn put(&mut self) -> pb::PutRequest {
        pb::PutRequest {
            key: self.key(),
            value: Bytes::from_static(b"v"),
            lease: if self.rng.percent(25) {
                self.rng.pick(&LEASES)
            } else {
                0
            },
            prev_kv: self.rng.percent(30),
            ..Default::default()
        }
    }

    fn range_request(&mut self) -> pb::RangeRequest {
        let (key, range_end) = self.range();
        pb::RangeRequest {
            key,
            range_end,
            serializable: self.rng.percent(30),
            count_only: self.rng.percent(20),
            revision: if self.rng.percent(5) { 1_000_000 } else { 0 },
            ..Default::default()
        }
    }

    fn delete(&mut self) -> pb::DeleteRangeRequest {
        let (key, range_end) = self.range();
        let prev_kv = self.rng.percent(30);
        pb::DeleteRangeRequest {
            key,
            range_end,
            prev_kv,
        }
    }

    fn txn(&mut self, depth: usize, reads: bool) -> pb::TxnRequest {
        let compares = self.rng.below(3);
        let compare = (0..compares).map(|_| {
            let (key, range_end) = self.range();
            pb::Compare {
                key,
                range_end,
                target: pb::compare::CompareTarget::Version as i32,
                result: self.rng.below(3) as i32,
                target_union: Some(pb::compare::TargetUnion::Version(1)),
            }
        });
        let compare = compare.collect();
        let branch = |generator: &mut Generator| -> Vec<pb::RequestOp> {
            let ops = generator.rng.below(3);
            (0..ops)
                .map(|_| {
                    let kind = if reads { 0 } else { generator.rng.below(5) };
                    let request = match kind {
                        0 | 1 if depth > 0 && generator.rng.percent(20) => {
                            TxnOp::RequestTxn(generator.txn(depth - 1, reads))
                        }
                        0 | 1 => TxnOp::RequestRange(generator.range_request()),
                        2 | 3 => TxnOp::RequestPut(generator.put()),
                        _ => TxnOp::RequestDeleteRange(generator.delete()),
                    };
                    pb::RequestOp {
                        request: Some(request),
                    }
                })
                .collect()
        };
        let (success, failure) = (branch(self), branch(self));
        pb::TxnRequest {
            compare,
            success,
            failure,
        }
    }

    fn data(&mut self) -> Request {
        match self.rng.below(20) {
            0..=4 => Request::Put(self.put()),
            5..=8 => Request::Range(self.range_request()),
            9 => Request::RangeStream(self.range_request()),
            10..=11 => Request::Delete(self.delete()),
            12..=14 => Request::Txn(self.txn(2, false)),
            15..=16 => Request::Txn(self.txn(2, true)),
            _ => {
                let (key, range_end) = self.range();
                Request::Watch(pb::WatchCreateRequest {
                    key: if self.rng.percent(5) {
                        Bytes::new()
                    } else {
                        key
                    },
                    range_end,
                    start_revision: if self.rng.percent(5) { -1 } else { 0 },
                    ..Default::default()
                })
            }
        }
    }

    fn other(&mut self) -> Request {
        let id = self.rng.pick(&LEASES);
        match self.rng.below(26) {
            0..=3 => Request::LeaseGrant(pb::LeaseGrantRequest { id, ttl: 100_000 }),
            4..=6 => Request::LeaseRevoke(pb::LeaseRevokeRequest { id }),
            7..=9 => Request::KeepAlive(id),
            10..=12 => {
                let keys = self.rng.percent(70);
                Request::TimeToLive(pb::LeaseTimeToLiveRequest { id, keys })
            }
            13..=14 => Request::Leases,
            15 => Request::MemberList,
            16 => Request::MemberAdd(pb::MemberAddRequest {
                // Taken, so that it is never added.
                peer_urls: vec!["http://127.0.0.1:2380".to_owned()],
                is_learner: true,
            }),
            17 => Request::MemberRemove(pb::MemberRemoveRequest { id: 1 }),
            18 => Request::MemberPromote(pb::MemberPromoteRequest { id: 1 }),
            19 => Request::MemberUpdate(pb::MemberUpdateRequest {
                id: 1,
                peer_urls: vec!["http://127.0.0.1:1".to_owned()],
            }),
            20 => {
                let get = self.rng.percent(60);
                Request::Alarm(pb::AlarmRequest {
                    action: if get { 0 } else { 2 },
                    member_id: 0,
                    alarm: 0,
                })
            }
            21 => Request::Status,
            22 => Request::HashKv,
            23 => {
                if self.rng.percent(50) {
                    Request::Defragment
                } else {
                    Request::Hash
                }
            }
            24 => {
                if self.rng.percent(50) {
                    Request::Snapshot
                } else {
                    Request::Downgrade(pb::DowngradeRequest {
                        action: 0,
                        version: "1.0.0".to_owned(),
                    })
                }
            }
            _ => {
                if self.rng.percent(50) {
                    Request::MoveLeader(pb::MoveLeaderRequest { target_id: 1 })
                } else {
                    Request::Compact(pb::CompactionRequest {
                        revision: self.rng.between(1, 3),
                        physical: false,
                    })
                }
            }
        }
    }
}
