//! Locks and elections with auth enabled: each step is authorized as the caller's own request.

use etcd_api::authpb::Permission;
use etcd_api::etcdserverpb as pb;
use etcd_api::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, ProclaimRequest, ResignRequest,
};
use etcd_api::v3lockpb::{LockRequest, LockResponse, UnlockRequest};
use tokio::task::JoinHandle;
use tonic::{Response, Status};

use super::{POLL, Side, beside_etcd_with, without_term};
use crate::beside_etcd::auth::CHEAP;
use crate::beside_etcd::auth::ask::{Request, ask, call};
use crate::beside_etcd::auth::cluster::{login, must};

type Token<'a> = Option<&'a str>;

/// Everybody's.
const ROLE: &str = "role";
const READ_AND_WRITE: i32 = 2;

fn termless<T>(
    answer: Result<Response<T>, Status>,
    header: impl Fn(&mut T) -> &mut Option<pb::ResponseHeader>,
) -> Result<Response<T>, Status> {
    answer.map(|mut answer| {
        without_term(header(answer.get_mut()));
        answer
    })
}

impl Side {
    async fn root(&self, request: Request) {
        let root = login(&self.client, "root", "root").await;
        must(&self.client, request, Some(&root)).await;
    }

    /// Who may hold locks whose names begin with `l` and be elected to offices that begin with `o`.
    async fn users(&self) {
        for name in ["root", "alice", "bob"] {
            let add = pb::AuthUserAddRequest {
                name: name.to_owned(),
                password: name.to_owned(),
                ..Default::default()
            };
            must(&self.client, Request::UserAdd(add), None).await;
        }
        let name = ROLE.to_owned();
        let add = Request::RoleAdd(pb::AuthRoleAddRequest { name });
        must(&self.client, add, None).await;
        for (user, role) in [("root", "root"), ("alice", ROLE)] {
            let (user, role) = (user.to_owned(), role.to_owned());
            let grant = Request::UserGrantRole(pb::AuthUserGrantRoleRequest { user, role });
            must(&self.client, grant, None).await;
        }
        for key in ["l", "o"] {
            must(&self.client, permit(key), None).await;
        }
        must(&self.client, Request::Enable, None).await;
        for id in 11..=16 {
            self.root(Request::LeaseGrant(pb::LeaseGrantRequest { ttl: 1000, id }))
                .await;
        }
    }

    async fn until_as_root(&self, key: &str, exists: bool) {
        let root = login(&self.client, "root", "root").await;
        let range = Request::Range(pb::RangeRequest {
            key: key.to_owned().into(),
            count_only: true,
            ..Default::default()
        });
        loop {
            let shown = ask(&self.client, &range, Some(&root)).await.shown.unwrap();
            if shown.contains("count: 1") == exists {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn remove_as_root(&self, key: &str) {
        let key = key.to_owned().into();
        self.root(Request::Delete(pb::DeleteRangeRequest {
            key,
            ..Default::default()
        }))
        .await;
    }

    fn locking_as(
        &self,
        token: Token<'_>,
        name: &str,
        lease: i64,
    ) -> JoinHandle<Result<Response<LockResponse>, Status>> {
        let name = name.to_owned().into();
        let (mut client, call) = (self.client.lock(), call(LockRequest { name, lease }, token));
        tokio::spawn(async move { termless(client.lock(call).await, |r| &mut r.header) })
    }

    async fn lock_as(&mut self, token: Token<'_>, name: &str, lease: i64) {
        let answer = self.locking_as(token, name, lease).await.unwrap();
        self.say(&format!("lock {name} with {lease}"), answer);
    }

    async fn unlock_as(&mut self, token: Token<'_>, key: &str) {
        let key = key.to_owned().into();
        let call = call(UnlockRequest { key }, token);
        let answer = self.client.lock().unlock(call).await;
        self.say("unlock", termless(answer, |r| &mut r.header));
    }

    fn campaigning_as(
        &self,
        token: Token<'_>,
        name: &str,
        lease: i64,
    ) -> JoinHandle<Result<Response<CampaignResponse>, Status>> {
        let request = CampaignRequest {
            name: name.to_owned().into(),
            lease,
            value: "value".into(),
        };
        let (mut client, call) = (self.client.election(), call(request, token));
        tokio::spawn(async move { termless(client.campaign(call).await, |r| &mut r.header) })
    }

    async fn campaign_as(&mut self, token: Token<'_>, name: &str, lease: i64) {
        let answer = self.campaigning_as(token, name, lease).await.unwrap();
        let leader = answer.as_ref().ok();
        let leader = leader.and_then(|answer| answer.get_ref().leader.clone());
        self.say(&format!("campaign {name} with {lease}"), answer);
        let Some(leader) = leader else {
            return;
        };
        assert_eq!(leader.lease, lease);
    }

    async fn ask_election(&mut self, token: Token<'_>, leader: &LeaderKey) {
        let mut election = self.client.election();
        let name = leader.name.clone();
        let answer = election
            .leader(call(LeaderRequest { name: name.clone() }, token))
            .await;
        self.say("leader", termless(answer, |r| &mut r.header));
        let leader = Some(leader.clone());
        let (value, of) = ("next".into(), leader.clone());
        let request = ProclaimRequest { leader: of, value };
        let answer = election.proclaim(call(request, token)).await;
        self.say("proclaim", termless(answer, |r| &mut r.header));
        let first = match election.observe(call(LeaderRequest { name }, token)).await {
            Ok(stream) => stream.into_inner().message().await,
            Err(status) => Err(status),
        };
        // An observer is not told why there is nothing to see.
        self.said.push(match first {
            Ok(None) => "observe: the end".to_owned(),
            Ok(Some(first)) => format!("observe: {:?}", first.kv),
            Err(status) => format!("observe: {status}"),
        });
        let answer = election.resign(call(ResignRequest { leader }, token)).await;
        self.say("resign", termless(answer, |r| &mut r.header));
    }
}

/// For all keys that begin with this one's letter.
fn permit(key: &str) -> Request {
    let end = char::from(key.as_bytes()[0] + 1).to_string();
    Request::RoleGrantPermission(pb::AuthRoleGrantPermissionRequest {
        name: ROLE.to_owned(),
        perm: Some(Permission {
            perm_type: READ_AND_WRITE,
            key: key.to_owned().into(),
            range_end: end.into(),
        }),
    })
}

fn take_back(key: &str) -> Request {
    let end = char::from(key.as_bytes()[0] + 1).to_string();
    Request::RoleRevokePermission(pb::AuthRoleRevokePermissionRequest {
        role: ROLE.to_owned(),
        key: key.to_owned().into(),
        range_end: end.into(),
    })
}

fn change_password() -> Request {
    Request::UserChangePassword(pb::AuthUserChangePasswordRequest {
        name: "alice".to_owned(),
        password: "alice".to_owned(),
        ..Default::default()
    })
}

/// Those who wait learn at the end of their wait that they may no longer, and why.
#[tokio::test]
async fn locks_and_elections_are_their_users() {
    beside_etcd_with(&[CHEAP], "locks of users", async |side| {
        side.users().await;
        let alice = login(&side.client, "alice", "alice").await;
        let bob = login(&side.client, "bob", "bob").await;
        for token in [None, Some("nonsense"), Some(&bob[..])] {
            side.lock_as(token, "l", 11).await;
            side.lock_as(token, "l", 0).await;
            side.unlock_as(token, "l/b").await;
            side.campaign_as(token, "o", 12).await;
        }
        side.lock_as(Some(&alice), "x", 11).await;
        side.lock_as(Some(&alice), "l", 99).await;
        side.lock_as(Some(&alice), "l", 11).await;

        // Her token ends while she waits.
        let waits = side.locking_as(Some(&alice), "l", 12);
        side.until_as_root("l/c", true).await;
        side.root(change_password()).await;
        side.unlock_as(Some(&alice), "l/b").await;
        side.remove_as_root("l/b").await;
        side.say("without a token that counts", waits.await.unwrap());
        side.remove_as_root("l/c").await;

        // Her permission does.
        let alice = login(&side.client, "alice", "alice").await;
        side.lock_as(Some(&alice), "l", 13).await;
        let waits = side.locking_as(Some(&alice), "l", 14);
        side.until_as_root("l/e", true).await;
        side.root(take_back("l")).await;
        side.unlock_as(Some(&alice), "l/d").await;
        side.remove_as_root("l/d").await;
        side.say("without a permission", waits.await.unwrap());

        side.campaign_as(Some(&alice), "x", 15).await;
        let elected = side.campaigning_as(Some(&alice), "o", 15).await.unwrap();
        let leader = elected.unwrap().into_inner().leader.unwrap();
        for token in [None, Some("nonsense"), Some(&bob[..])] {
            side.ask_election(token, &leader).await;
        }
        let waits = side.campaigning_as(Some(&alice), "o", 16);
        side.until_as_root("o/10", true).await;
        let name = "alice".to_owned();
        side.root(Request::UserDelete(pb::AuthUserDeleteRequest { name }))
            .await;
        side.ask_election(Some(&alice), &leader).await;
        side.remove_as_root("o/f").await;
        side.say("of a user that is gone", waits.await.unwrap());
    })
    .await;
}
