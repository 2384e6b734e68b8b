//! Who asks, and whether a member may answer: what its request handlers decide before and after
//! they wait, held against the model at the entry that the member has applied.

use std::fmt::Debug;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use raft::Index;
use server::auth::{self, CurrentAuth, Image, Kind};
use server::basics::error::Error;
use server::request::AuthInfo;
use server::state;
use storage::mvcc::View;

use super::explore::Read;
use super::users::{Claim, is_password};
use crate::canary::Canary;
use crate::check::tokens::Tokens;
use crate::history::Step;
use crate::host::process::Process;
use crate::model::users::{Access, Users};
use crate::model::{Model, Refusal};
use crate::world::{Failed, World};

/// One member's, now.
pub(crate) struct Door<'a> {
    host: usize,
    process: &'a Process,
    /// By the member's clock.
    now: Duration,
    view: View,
    model: &'a Model,
    tokens: &'a Tokens,
    canary: Option<Canary>,
}

/// What a member says, and what it has to say.
type Said<T> = Result<T, Error>;

/// The keys that a request reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    Steps(usize, &'a [Step]),
    Read(&'a Read),
}

impl World {
    /// `None`: no process is there.
    pub(crate) fn door(&self, host: usize) -> Option<Door<'_>> {
        let this = &self.hosts[host];
        let process = this.process.as_ref()?;
        Some(Door {
            host,
            process,
            now: this.clock.now(self.now),
            view: process.view(),
            model: &self.model,
            tokens: &self.checks.tokens,
            canary: self.canary,
        })
    }
}

impl Door<'_> {
    pub(crate) fn index(&self) -> Index {
        self.view.applied().index
    }

    fn auth(&self) -> &CurrentAuth {
        self.process.auth()
    }

    fn users(&self) -> &Users {
        self.model.users_at(self.index())
    }

    /// Who makes a call; inside, `None` if it names nobody. Outside: unknown before the member has
    /// caught up.
    pub(crate) fn caller(&self, claim: &Claim) -> Result<Option<Said<Option<AuthInfo>>>, Failed> {
        let auth = self.auth();
        let said = match claim {
            Claim::Nobody => Some(Ok(None)),
            Claim::Certificate(name) => Some(Ok(Some(auth.named(name)))),
            Claim::Token(_) | Claim::Signed(_) if !auth.is_enabled() => Some(Ok(None)),
            Claim::Token(token) => {
                let user = auth.user_of(token, self.index(), self.now);
                let user = match (user, self.canary) {
                    (Some(None), Some(Canary::EternalToken)) => Some(self.once(token)),
                    (user, _) => user,
                };
                user.map(|user| user.map(Some).ok_or(Error::InvalidAuthToken))
            }
            // The signature is not what is tested here.
            Claim::Signed(says) => Some(Ok(Some(says.clone()))),
        };
        let users = self.users();
        let expected = match claim {
            Claim::Certificate(name) => Some(Ok(Some(self.of(name)))),
            Claim::Nobody => Some(Ok(None)),
            _ if !users.enabled => Some(Ok(None)),
            Claim::Signed(says) => Some(Ok(Some(says.clone()))),
            Claim::Token(token) => match self.tokens.user_of(self.host, token) {
                Some(user) => Some(Ok(Some(self.of(user)))),
                None => {
                    let issued = self.model.token(token);
                    let may_come = issued.is_none_or(|(index, _)| index > self.index());
                    (!may_come).then_some(Err(Error::InvalidAuthToken))
                }
            },
        };
        self.agrees("who asks", claim, &said, &expected)?;
        Ok(said)
    }

    fn of(&self, user: &str) -> AuthInfo {
        AuthInfo {
            user: user.to_owned(),
            revision: self.users().revision,
        }
    }

    /// The canary: whoever had the token once.
    fn once(&self, token: &str) -> Option<AuthInfo> {
        self.model.token(token).map(|(_, user)| self.of(user))
    }

    /// Whether the call names anybody.
    pub(super) fn any(&self, by: Option<&AuthInfo>) -> Result<Said<()>, Failed> {
        let said = self.image().check_any(by);
        let expected = self.users().may_call(by);
        self.judged("whether anybody asks", &by, said, expected)
    }

    /// Whether the root role asks.
    pub(super) fn admin(&self, by: Option<&AuthInfo>) -> Result<Said<()>, Failed> {
        let said = match self.canary {
            Some(Canary::UncheckedAdmin) => Ok(()),
            _ => self.image().check_admin(by),
        };
        let expected = self.users().may_administer(by);
        self.judged("whether root asks", &by, said, expected)
    }

    fn image(&self) -> std::sync::Arc<Image> {
        self.process.image()
    }

    pub(super) fn lease(&self, by: &AuthInfo, kind: Kind, lease: i64) -> Result<Said<()>, Failed> {
        let first = |from: &[u8]| state::first_lease_key(&self.view, lease, from);
        let said = auth::check_lease_keys(&self.image(), by, kind, first);
        if let Err(Error::Damaged(_)) = said {
            return Ok(said);
        }
        let said = match self.canary {
            Some(Canary::UncheckedLease) => Ok(()),
            _ => said,
        };
        let held = self.model.lease_keys(lease, self.view.revision());
        let access = match kind {
            Kind::Read => Access::Read,
            Kind::Write => Access::Write,
        };
        let expected = self.users().may_use_lease(by, access, &held);
        self.judged("the keys of a lease", &(by, lease), said, expected)
    }

    /// Whether the caller may have the answer to a read.
    pub(super) fn reads(&self, by: &AuthInfo, asked: Asked<'_>) -> Result<Said<()>, Failed> {
        if !self.auth().is_enabled() && !self.users().enabled {
            return Ok(Ok(()));
        }
        let (forgotten, auth) = (self.image(), self.auth());
        let said = auth.judge_read(by, |_, by| match asked {
            Asked::Steps(partition, steps) => keys(partition, steps)
                .iter()
                .try_for_each(|key| forgotten.check(by, Kind::Read, key, b"")),
            Asked::Read(Read::Range(range)) => {
                forgotten.check(by, Kind::Read, &range.key, &range.range_end)
            }
            Asked::Read(Read::Txn(txn)) => auth::check_txn(&forgotten, by, txn),
        });
        let said = match self.canary {
            Some(Canary::UncheckedRead) => Ok(()),
            _ => said,
        };
        let users = self.users();
        let expected = match asked {
            Asked::Steps(partition, steps) => keys(partition, steps)
                .iter()
                .try_for_each(|key| users.may(by, Access::Read, key, b"")),
            Asked::Read(Read::Range(range)) => {
                users.may(by, Access::Read, &range.key, &range.range_end)
            }
            Asked::Read(Read::Txn(txn)) => users.may_transact(by, txn, &|_| Vec::new()),
        };
        let is_known = by.revision == 0 || by.revision == users.revision;
        let expected = expected.and(if is_known {
            Ok(())
        } else {
            Err(Refusal::AuthOldRevision)
        });
        self.judged("a read", &(by, asked), said, expected)
    }

    /// Whether a watch may begin, and otherwise the reason that its client is told. `None`: the
    /// member has to catch up.
    pub(crate) fn watch(
        &self,
        claim: &Claim,
        create: &pb::WatchCreateRequest,
    ) -> Result<Option<Result<(), String>>, Failed> {
        if !self.auth().is_enabled() && !self.users().enabled {
            return Ok(Some(Ok(())));
        }
        let by = match self.caller(claim)? {
            None => return Ok(None),
            Some(Err(error)) => return Ok(Some(Err(auth::watch_refusal(&error)))),
            Some(Ok(by)) => by.unwrap_or_default(),
        };
        let said = auth::may_watch(&self.image(), &by, create);
        let (key, end) = (&create.key, &create.range_end);
        let expected = self.users().may(&by, Access::Read, key, end);
        let said = self.judged("a watch", &(by, create), said, expected)?;
        Ok(Some(said.map_err(|error| auth::watch_refusal(&error))))
    }

    /// Whether this is the user's password.
    pub(super) fn password(&self, user: &str, password: &str) -> Result<Said<()>, Failed> {
        let image = self.image();
        let said = match image.user(user) {
            _ if !image.enabled => Err(Error::AuthNotEnabled),
            None => Err(Error::AuthFailed),
            Some(user) if user.has_no_password() => Err(Error::no_password_user()),
            Some(user) if is_password(&user.row.password, password) => Ok(()),
            Some(_) => Err(Error::AuthFailed),
        };
        let is_right = |hash: &[u8]| is_password(hash, password);
        let expected = self.users().knows_password(user, is_right);
        self.judged("a password", &user, said, expected)
    }

    /// The revision of users in force.
    pub(super) fn revision(&self) -> u64 {
        self.image().revision
    }

    fn judged<T: Debug + ?Sized>(
        &self,
        what: &str,
        asked: &T,
        said: Said<()>,
        expected: Result<(), Refusal>,
    ) -> Result<Said<()>, Failed> {
        self.agrees(what, asked, &said, &expected.map_err(Refusal::error))?;
        Ok(said)
    }

    fn agrees<A: Debug + ?Sized, T: Debug + PartialEq>(
        &self,
        what: &str,
        asked: &A,
        said: &T,
        expected: &T,
    ) -> Result<(), Failed> {
        if said == expected {
            return Ok(());
        }
        let (host, index) = (self.host, self.index());
        let what = format!(
            "h{host} has applied {index} and says of {what} ({asked:?}) {said:?}, by the log {expected:?}"
        );
        Err(("users", what))
    }
}

fn keys(partition: usize, steps: &[Step]) -> Vec<bytes::Bytes> {
    let keys = steps.iter().map(|step| match *step {
        Step::Get(key) | Step::Put(key, _) | Step::Delete(key) => key,
    });
    keys.map(|key| super::request::name(partition, key))
        .collect()
}
