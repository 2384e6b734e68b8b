//! Who the clients are: users with passwords or certificates, and some that say nothing. One of
//! them administers the rest: it makes users and roles, switches authentication on, and then
//! changes all of that while the others work.

use std::collections::{BTreeMap, VecDeque};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use etcd_api::authpb::Permission;
use etcd_api::authpb::permission::Type;
use etcd_api::etcdserverpb as pb;
use server::basics::error::Error;
use server::request::{AuthInfo, AuthRequest};
use testkit::Rng;

use super::{Ask, Clients};
use crate::model::users::ROOT;

const USERS: [&str; 4] = [ROOT, "u0", "u1", "u2"];
const ROLES: [&str; 4] = [ROOT, "r0", "r1", "r2"];
/// What permissions are about: first key and end. No two begin with the same key.
const RANGES: [(&str, &str); 9] = [
    ("\0", "\0"),
    ("k/", "k0"),
    ("k/1/0", ""),
    ("k/4/", "k/4/2"),
    ("l/", "l0"),
    ("x/", "x0"),
    ("x/2", "x/6"),
    ("x/3", ""),
    ("x/5", "\0"),
];
const WIDE: [(&str, &str); 4] = [("\0", "\0"), ("k/", "k0"), ("l/", "l0"), ("x/", "x0")];
/// How often, of a thousand requests, somebody who is no administrator tries to be one.
const TRIES_TO_ADMINISTER: u64 = 15;

/// What a client says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Claim {
    #[default]
    Nobody,
    /// The common name of its certificate.
    Certificate(String),
    /// A simple token.
    Token(String),
    /// A signed token, and what it says.
    Signed(AuthInfo),
}

#[derive(Clone, Debug, Default)]
pub(super) enum Who {
    #[default]
    Nobody,
    Certificate(&'static str),
    /// It logs in with a password.
    User(&'static str),
}

/// What administrators know.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    /// There are users in this run.
    pub is_used: bool,
    pub has_signed_tokens: bool,
    /// Of a thousand requests of the administrator so many change users and roles.
    changes: u64,
    /// Those that were set last, as far as is known.
    passwords: BTreeMap<String, String>,
    last_password: u64,
    /// What makes the first users.
    setup: VecDeque<AuthRequest>,
}

impl Directory {
    pub(super) fn new(rng: &mut Rng) -> Directory {
        let is_used = rng.chance(400);
        let mut directory = Directory {
            is_used,
            has_signed_tokens: rng.chance(300),
            changes: *rng.pick(&[50, 200, 500]),
            ..Directory::default()
        };
        if is_used {
            directory.sets_up(rng);
        }
        directory
    }

    /// Begins with what authentication needs, and a first distribution of roles.
    fn sets_up(&mut self, rng: &mut Rng) {
        let mut setup = vec![self.user_add(ROOT, rng), grant_role(ROOT, ROOT)];
        for (user, role) in USERS.into_iter().zip(ROLES).skip(1) {
            setup.push(role_add(role));
            for _ in 0..4 {
                setup.push(grant_permission(role, rng));
            }
            setup.push(self.user_add(user, rng));
            setup.push(grant_role(user, role));
        }
        setup.push(AuthRequest::Enable);
        self.setup = setup.into();
    }

    pub(super) fn password(&self, user: &str) -> String {
        self.passwords.get(user).cloned().unwrap_or_default()
    }

    /// The hash of a new password. Not bcrypt's: what makes that slow is not tested here.
    fn new_password(&mut self, rng: &mut Rng) -> String {
        self.last_password += 1;
        let password = format!("pw{}", self.last_password);
        STANDARD.encode(format!("{:x}:{password}", rng.next()))
    }

    /// A password was set, or may have been.
    pub(super) fn learns(&mut self, change: &AuthRequest) {
        let (user, hash) = match change {
            AuthRequest::UserAdd(add) => (&add.name, &add.hashed_password),
            AuthRequest::UserChangePassword(set) => (&set.name, &set.hashed_password),
            _ => return,
        };
        let text = STANDARD.decode(hash).unwrap_or_default();
        if let Some((_, password)) = String::from_utf8_lossy(&text).split_once(':') {
            self.passwords.insert(user.clone(), password.to_owned());
        }
    }

    fn user_add(&mut self, user: &str, rng: &mut Rng) -> AuthRequest {
        let no_password = user != ROOT && rng.chance(100);
        AuthRequest::UserAdd(pb::AuthUserAddRequest {
            name: user.to_owned(),
            hashed_password: if no_password {
                String::new()
            } else {
                self.new_password(rng)
            },
            options: Some(etcd_api::authpb::UserAddOptions { no_password }),
            ..Default::default()
        })
    }

    /// What an administrator asks for next.
    pub(super) fn next(&mut self, is_enabled: bool, rng: &mut Rng) -> AuthRequest {
        if let Some(next) = self.setup.pop_front() {
            return next;
        }
        if !is_enabled && rng.chance(400) {
            return AuthRequest::Enable;
        }
        self.any_change(rng)
    }

    pub(super) fn any_change(&mut self, rng: &mut Rng) -> AuthRequest {
        let (user, role) = (*rng.pick(&USERS), *rng.pick(&ROLES));
        match rng.below(20) {
            0..6 => grant_permission(role, rng),
            6..8 => {
                let (key, end) = *rng.pick(&RANGES);
                AuthRequest::RoleRevokePermission(pb::AuthRoleRevokePermissionRequest {
                    role: role.to_owned(),
                    key: key.into(),
                    range_end: end.into(),
                })
            }
            8..12 => grant_role(user, role),
            12..14 => AuthRequest::UserRevokeRole(pb::AuthUserRevokeRoleRequest {
                name: user.to_owned(),
                role: role.to_owned(),
            }),
            14 => self.user_add(user, rng),
            15 => AuthRequest::UserDelete(pb::AuthUserDeleteRequest {
                name: user.to_owned(),
            }),
            16 => AuthRequest::UserChangePassword(pb::AuthUserChangePasswordRequest {
                name: user.to_owned(),
                hashed_password: self.new_password(rng),
                ..Default::default()
            }),
            17 => role_add(role),
            18 => AuthRequest::RoleDelete(pb::AuthRoleDeleteRequest {
                role: role.to_owned(),
            }),
            _ if rng.chance(300) => AuthRequest::Disable,
            _ => AuthRequest::Enable,
        }
    }

    /// An administrator hears why authentication is not on.
    pub(super) fn hears(&mut self, error: &Error, rng: &mut Rng) {
        if let Error::RootUserNotFound | Error::RootRoleNotGranted = error {
            self.setup = VecDeque::from([self.user_add(ROOT, rng), grant_role(ROOT, ROOT)]);
            self.setup.push_back(AuthRequest::Enable);
        }
    }
}

impl Clients {
    /// Who client `number` is.
    pub(super) fn introduce(number: usize, directory: &Directory, rng: &mut Rng) -> Who {
        if !directory.is_used {
            return Who::Nobody;
        }
        let user = if number == 0 { ROOT } else { *rng.pick(&USERS) };
        match rng.below(10) {
            0..4 => Who::Certificate(user),
            4 if number > 0 => Who::Nobody,
            _ => Who::User(user),
        }
    }

    pub(super) fn claim(&self, client: usize) -> Claim {
        let client = &self.clients[client];
        match &client.who {
            Who::Nobody => Claim::Nobody,
            Who::Certificate(name) => Claim::Certificate((*name).to_owned()),
            Who::User(_) => client.token.clone(),
        }
    }

    /// What one who watches says of itself, for as long as its stream lasts.
    pub(crate) fn any_claim(&self, rng: &mut Rng) -> Claim {
        self.claim(rng.below(self.clients.len() as u64) as usize)
    }

    /// What `client` asks about users, if that is what it does next.
    pub(super) fn choose_about_users(&mut self, client: usize, is_enabled: bool) -> Option<Ask> {
        if !self.directory.is_used {
            return None;
        }
        let rng = &mut self.rng;
        let this = &mut self.clients[client];
        if let (true, Who::User(user)) = (this.wants_login, &this.who) {
            this.wants_login = rng.chance(200);
            let password = if rng.chance(50) {
                "wrong".to_owned()
            } else {
                self.directory.password(user)
            };
            let user = (*user).to_owned();
            return Some(Ask::Login { user, password });
        }
        if rng.chance(20) {
            return Some(Ask::Users);
        }
        let is_set_up = self.directory.setup.is_empty();
        let administers = if client > 0 {
            TRIES_TO_ADMINISTER
        } else if is_set_up {
            self.directory.changes
        } else {
            900
        };
        if !rng.chance(administers) {
            return None;
        }
        let change = if client > 0 {
            self.directory.any_change(rng)
        } else {
            self.directory.next(is_enabled, rng)
        };
        Some(Ask::Govern(change))
    }

    /// What a refusal says of `client`'s token.
    pub(super) fn hears_of_users(&mut self, client: usize, ask: &Ask, error: &Error) {
        if let Ask::Govern(_) = ask {
            self.directory.hears(error, &mut self.rng);
        }
        let this = &mut self.clients[client];
        match error {
            Error::UserEmpty | Error::InvalidAuthToken | Error::AuthOldRevision => {
                this.wants_login = true;
            }
            Error::AuthNotEnabled => {
                this.wants_login = false;
                this.token = Claim::Nobody;
            }
            _ => {}
        }
    }

    pub(super) fn is_logged_in(&mut self, client: usize, user: &str, token: &str, revision: u64) {
        let this = &mut self.clients[client];
        this.wants_login = false;
        this.token = if self.directory.has_signed_tokens {
            let user = user.to_owned();
            Claim::Signed(AuthInfo { user, revision })
        } else {
            Claim::Token(token.to_owned())
        };
    }
}

/// Whether the hash is of this password.
pub(super) fn is_password(hash: &[u8], password: &str) -> bool {
    let text = std::str::from_utf8(hash).unwrap_or_default();
    text.split_once(':').is_some_and(|(_, of)| of == password)
}

fn grant_role(user: &str, role: &str) -> AuthRequest {
    AuthRequest::UserGrantRole(pb::AuthUserGrantRoleRequest {
        user: user.to_owned(),
        role: role.to_owned(),
    })
}

fn role_add(role: &str) -> AuthRequest {
    AuthRequest::RoleAdd(pb::AuthRoleAddRequest {
        name: role.to_owned(),
    })
}

fn grant_permission(role: &str, rng: &mut Rng) -> AuthRequest {
    // With the wide ones much is allowed, and the narrow ones then take little away.
    let (key, end) = if rng.chance(500) {
        *rng.pick(&WIDE)
    } else {
        *rng.pick(&RANGES)
    };
    let kinds = [Type::Read, Type::Write, Type::Readwrite, Type::Readwrite];
    AuthRequest::RoleGrantPermission(pb::AuthRoleGrantPermissionRequest {
        name: role.to_owned(),
        perm: Some(Permission {
            perm_type: *rng.pick(&kinds) as i32,
            key: key.into(),
            range_end: end.into(),
        }),
    })
}
