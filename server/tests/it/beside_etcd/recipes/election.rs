//! `v3electionpb.Election`.

use etcd_api::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, ProclaimRequest, ResignRequest,
};
use testkit::Launch;
use tokio::task::JoinHandle;
use tonic::{Response, Status};

use super::{Side, beside_etcd, lease_of, without_term};
use crate::usual::pages::get;

type Elected = Result<Response<CampaignResponse>, Status>;

impl Side {
    fn campaigning(&self, name: &str, lease: i64, value: &str) -> JoinHandle<Elected> {
        let mut client = self.client.election();
        let request = CampaignRequest {
            name: name.to_owned().into(),
            lease,
            value: value.to_owned().into(),
        };
        tokio::spawn(async move {
            let answer = client.campaign(request).await;
            answer.map(|mut answer| {
                without_term(&mut answer.get_mut().header);
                answer
            })
        })
    }

    async fn campaign(&mut self, name: &str, lease: i64, value: &str) {
        let answer = self.campaigning(name, lease, value).await.unwrap();
        self.say(&format!("campaign {name} with {lease}"), answer);
    }

    async fn proclaim(&mut self, leader: Option<LeaderKey>, value: &str) {
        let value = value.to_owned().into();
        let request = ProclaimRequest { leader, value };
        let answer = self.client.election().proclaim(request).await;
        let answer = answer.map(|mut answer| {
            without_term(&mut answer.get_mut().header);
            answer
        });
        self.say("proclaim", answer);
    }

    async fn resign(&mut self, leader: Option<LeaderKey>) {
        let request = ResignRequest { leader };
        let answer = self.client.election().resign(request).await;
        let answer = answer.map(|mut answer| {
            without_term(&mut answer.get_mut().header);
            answer
        });
        self.say("resign", answer);
    }

    async fn leader(&mut self, name: &str) {
        let name = name.to_owned().into();
        let answer = self.client.election().leader(LeaderRequest { name }).await;
        let answer = answer.map(|mut answer| {
            without_term(&mut answer.get_mut().header);
            answer
        });
        self.say("leader", answer);
    }
}

fn leader_key(name: &str, lease: i64, rev: i64) -> Option<LeaderKey> {
    Some(LeaderKey {
        name: name.to_owned().into(),
        key: format!("{name}/{lease:x}").into(),
        rev,
        lease,
    })
}

#[tokio::test]
async fn a_leader_proclaims_resigns_and_is_followed_by_the_next() {
    beside_etcd("elections", async |side| {
        for lease in 1..=3 {
            side.grant(lease, 1000).await;
        }
        side.leader("e").await;
        side.campaign("e", 1, "one").await;
        side.leader("e").await;
        let second = side.campaigning("e", 2, "two");
        side.until("e/2", true).await;
        side.proclaim(leader_key("e", 1, 2), "uno").await;
        side.leader("e").await;
        // The same session again: as it is, and with another value.
        side.campaign("e", 1, "uno").await;
        side.campaign("e", 1, "eins").await;
        side.leader("e").await;
        assert!(!second.is_finished());
        side.resign(leader_key("e", 1, 2)).await;
        side.say("second", second.await.unwrap());
        side.leader("e").await;
        side.proclaim(leader_key("e", 1, 2), "late").await;
        side.resign(leader_key("e", 1, 2)).await;
        // The session of the leader ends, of one that waits too: who follows hears of it.
        let third = side.campaigning("e", 3, "three");
        side.until("e/3", true).await;
        side.revoke(2).await;
        side.say("third", third.await.unwrap());
        side.leader("e").await;
    })
    .await;
}

#[tokio::test]
async fn what_is_no_candidate_or_leader_is_refused_in_etcds_words() {
    beside_etcd("refused candidates", async |side| {
        side.campaign("e", 99, "x").await;
        side.proclaim(None, "x").await;
        side.resign(None).await;
        side.proclaim(Some(LeaderKey::default()), "x").await;
        side.resign(Some(LeaderKey::default())).await;
        side.proclaim(leader_key("e", 99, 2), "x").await;
        side.resign(leader_key("e", 99, 2)).await;
        side.grant(1, 1000).await;
        side.campaign("e", 1, "one").await;
        side.proclaim(leader_key("e", 1, 1), "x").await;
        // A lease that has ended in the meantime, with the right key.
        let unknown = leader_key("e", 1, 2).map(|key| LeaderKey { lease: 98, ..key });
        side.proclaim(unknown, "x").await;
        side.campaign("", 1, "").await;
        side.leader("").await;
        side.leader("nobody").await;
    })
    .await;
}

#[tokio::test]
async fn a_candidate_that_goes_away_is_none_any_more() {
    beside_etcd("candidates that leave", async |side| {
        side.grant(1, 1000).await;
        side.grant(2, 1000).await;
        side.grant(3, 1).await;
        side.campaign("e", 1, "one").await;
        let leaves = side.campaigning("e", 2, "two");
        side.until("e/2", true).await;
        let expires = side.campaigning("e", 3, "three");
        side.until("e/3", true).await;
        leaves.abort();
        side.until("e/2", false).await;
        side.until("e/3", false).await;
        side.resign(leader_key("e", 1, 2)).await;
        // As etcd has it: the candidate of an ended session is told that it leads.
        side.say("expires", expires.await.unwrap());
        side.leader("e").await;
    })
    .await;
}

#[tokio::test]
async fn a_candidate_without_a_lease_gets_one() {
    beside_etcd("a candidate's own lease", async |side| {
        let elected = side.campaigning("e", 0, "one").await.unwrap().unwrap();
        let elected = elected.into_inner();
        let leader = elected.leader.unwrap();
        assert_eq!(lease_of(&leader.key), leader.lease);
        side.said
            .push(format!("{:?} {}", elected.header, leader.rev));
    })
    .await;
}

/// Observers see every value of every leader, whether they came before the first or later.
#[tokio::test]
async fn observers_see_each_leader_and_what_it_proclaims() {
    beside_etcd("observers", async |side| {
        for lease in 1..=3 {
            side.grant(lease, 1000).await;
        }
        // etcd answers nothing at all before there is a leader.
        let observe = |side: &Side| {
            let mut client = side.client.election();
            let name = "e".into();
            let observed = async move { client.observe(LeaderRequest { name }).await };
            tokio::spawn(observed)
        };
        let early = observe(side);
        side.campaign("e", 1, "one").await;
        let mut early = early.await.unwrap().unwrap().into_inner();
        let first = early.message().await.unwrap().unwrap();
        let mut late = observe(side).await.unwrap().unwrap().into_inner();
        assert_eq!(late.message().await.unwrap().unwrap().kv, first.kv);
        side.said.push(format!("{:?}", first.kv));
        let second = side.campaigning("e", 2, "two");
        side.until("e/2", true).await;
        side.proclaim(leader_key("e", 1, 2), "uno").await;
        for observer in [&mut early, &mut late] {
            let seen = observer.message().await.unwrap().unwrap();
            side.said.push(format!("{:?}", seen.kv));
        }
        side.resign(leader_key("e", 1, 2)).await;
        side.say("second", second.await.unwrap());
        for observer in [&mut early, &mut late] {
            let seen = observer.message().await.unwrap().unwrap();
            side.said.push(format!("{:?}", seen.kv));
        }
        // Nobody leads for a while.
        side.resign(leader_key("e", 2, 3)).await;
        side.campaign("e", 3, "three").await;
        for observer in [&mut early, &mut late] {
            let seen = observer.message().await.unwrap().unwrap();
            side.said.push(format!("{:?}", seen.kv));
        }
    })
    .await;
}

#[tokio::test]
async fn an_observer_that_leaves_ends_its_watch() {
    let side = Side::start(Launch::program(env!("CARGO_BIN_EXE_stele"))).await;
    let watchers = async || {
        let (_, page) = get(&side.server, "/metrics");
        let line = page
            .lines()
            .find(|line| line.starts_with("etcd_debugging_mvcc_watcher_total "));
        line.unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    let name: bytes::Bytes = "e".into();
    let observed = side.client.election().observe(LeaderRequest { name }).await;
    while watchers().await < 1.0 {
        tokio::task::yield_now().await;
    }
    drop(observed);
    while watchers().await > 0.0 {
        tokio::task::yield_now().await;
    }
}
