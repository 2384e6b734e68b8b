//! A cluster of three and more real processes that grows, changes and shrinks while it serves,
//! controlled by `etcdctl`.

mod churn;
mod errors;
mod process;

use std::sync::Arc;

use process::{Cluster, Etcdctl, eventually};
use server::config;
use server::member::data_dir::{DataDir, Found};
use storage::vfs::os::OsVfs;
use testkit::{StartError, Tools};

const GONE: &str = "the member has been permanently removed from the cluster";
const TOO_SOON: &str = "etcdserver: unhealthy cluster";

#[test]
fn members_come_learn_vote_move_and_go_by_etcdctl() {
    let Some(tools) = Tools::or_skip("members by etcdctl") else {
        return;
    };
    let mut cluster = Cluster::new(4);
    let ctl = Etcdctl::new(&tools);
    cluster.start(0, "new", &[0]);
    let first = cluster.client_url(0);
    ctl.ok(&first, &["put", "before", "1"]);

    learner_follows_and_is_promoted(&mut cluster, &ctl);
    third_member_comes_once_the_second_is_trusted(&mut cluster, &ctl);
    followers_pass_changes_on(&mut cluster, &ctl);
    a_member_moves_to_another_address(&mut cluster, &ctl);
    all_answer_for_themselves(&mut cluster, &ctl);
    the_leader_is_removed_for_good(&mut cluster, &ctl);
    one_of_two_goes_on_by_force(&mut cluster, &ctl);
}

fn learner_follows_and_is_promoted(cluster: &mut Cluster, ctl: &Etcdctl) {
    let (first, second) = (cluster.client_url(0), cluster.client_url(1));
    let url = cluster.peer_url(1);
    ctl.ok(
        &first,
        &["member", "add", "m1", "--learner", "--peer-urls", &url],
    );
    let refused = ctl.fails(&first, &["member", "promote", &ctl.id_of(&first, &url)]);
    assert!(
        refused.contains("can only promote a learner member which is in sync with leader"),
        "{refused}"
    );
    cluster.start(1, "existing", &[0, 1]);
    let refused = ctl.fails(&second, &["put", "a", "b"]);
    assert!(
        refused.contains("etcdserver: rpc not supported for learner"),
        "{refused}"
    );
    let refused = ctl.fails(&second, &["get", "before"]);
    assert!(
        refused.contains("etcdserver: rpc not supported for learner"),
        "{refused}"
    );
    eventually("the learner has what was written before it came", || {
        let read = ctl.ok(&second, &["get", "before", "--consistency=s"]);
        read == "before\n1\n"
    });
    let status = ctl.ok(&second, &["endpoint", "status", "-w", "json"]);
    assert!(status.contains("\"isLearner\":true"), "{status}");
    let promoted = ctl.ok(&first, &["member", "promote", &ctl.id_of(&first, &url)]);
    assert!(promoted.contains("promoted in cluster"), "{promoted}");
    eventually("the new voter takes writes", || {
        ctl.run(&second, &["put", "through", "m1"]).is_ok()
    });
}

fn third_member_comes_once_the_second_is_trusted(cluster: &mut Cluster, ctl: &Etcdctl) {
    let first = cluster.client_url(0);
    let url = cluster.peer_url(2);
    let add = ["member", "add", "m2", "--peer-urls", &url];
    // The second has been connected for less than five seconds, or for a little more.
    eventually("the second member is trusted", || {
        match ctl.run(&first, &add) {
            Ok(_) => true,
            Err(error) => {
                assert!(error.contains(TOO_SOON), "{error}");
                false
            }
        }
    });
    cluster.start(2, "existing", &[0, 1, 2]);
    let list = ctl.ok(&cluster.client_url(2), &["member", "list"]);
    assert_eq!(list.matches("started").count(), 3, "{list}");
}

fn followers_pass_changes_on(cluster: &mut Cluster, ctl: &Etcdctl) {
    let follower = cluster.client_url(2);
    let url = cluster.peer_url(3);
    let add = ["member", "add", "m3", "--learner", "--peer-urls", &url];
    eventually("the third member is trusted", || {
        ctl.run(&follower, &add).is_ok()
    });
    let learner = ctl.id_of(&follower, &url);
    let cases = [
        (learner.as_str(), "which is in sync with leader"),
        (
            &ctl.id_of(&follower, &cluster.peer_url(0)),
            "can only promote a learner member",
        ),
        ("abc", "etcdserver: member not found"),
    ];
    for (id, text) in cases {
        let refused = ctl.fails(&follower, &["member", "promote", id]);
        assert!(refused.contains(text), "{refused}");
    }
    // Changes that come together through different members follow each other; none is dropped.
    std::thread::scope(|scope| {
        for at in 0..3 {
            let url = cluster.client_url(at);
            scope.spawn(move || {
                let new = format!("http://127.0.0.1:{}", at + 1);
                let add = ["member", "add", "x", "--learner", "--peer-urls", &new];
                let refused = ctl.fails(&url, &add);
                assert!(
                    refused.contains("too many learner members in cluster"),
                    "{refused}"
                );
            });
        }
    });
    cluster.start(3, "existing", &[0, 1, 2, 3]);
    let removed = ctl.ok(&follower, &["member", "remove", &learner]);
    assert!(removed.contains("removed from cluster"), "{removed}");
    assert!(cluster.wait_exit(3).success());
    assert!(cluster.log(3).contains(GONE), "{}", cluster.log(3));
    cluster.forget(3);
    let again = ctl.fails(&follower, &["member", "remove", &learner]);
    assert!(again.contains("etcdserver: member not found"), "{again}");
}

fn a_member_moves_to_another_address(cluster: &mut Cluster, ctl: &Etcdctl) {
    let first = cluster.client_url(0);
    let id = ctl.id_of(&first, &cluster.peer_url(2));
    let taken = cluster.peer_url(1);
    let refused = ctl.fails(&first, &["member", "update", &id, "--peer-urls", &taken]);
    assert!(
        refused.contains("etcdserver: Peer URLs already exists"),
        "{refused}"
    );
    cluster.kill(2);
    cluster.move_peer(2);
    let url = cluster.peer_url(2);
    ctl.ok(&first, &["member", "update", &id, "--peer-urls", &url]);
    ctl.ok(&first, &["put", "moved", "1"]);
    cluster.start(2, "existing", &[0, 1, 2]);
    eventually("it is found at its new address", || {
        ctl.run(&cluster.client_url(2), &["get", "moved"]) == Ok("moved\n1\n".to_owned())
    });
}

fn all_answer_for_themselves(cluster: &mut Cluster, ctl: &Etcdctl) {
    let first = cluster.client_url(0);
    eventually("all are healthy", || {
        ctl.run(&first, &["endpoint", "health", "--cluster"])
            .is_ok_and(|told| told.matches("is healthy").count() == 3)
    });
    eventually("all have the same history", || {
        let hashes = ctl.ok(&first, &["endpoint", "hashkv", "--cluster"]);
        let hashes: Vec<&str> = hashes
            .lines()
            .filter_map(|l| l.split(", ").nth(1))
            .collect();
        hashes.len() == 3 && hashes.iter().all(|hash| *hash == hashes[0])
    });
    let status = ctl.ok(&first, &["endpoint", "status", "--cluster"]);
    assert_eq!(status.lines().count(), 3, "{status}");
    let (leader, id) = ctl.leader(&first);
    let heir = (0..3).find(|at| cluster.client_url(*at) != leader).unwrap();
    let to = ctl.id_of(&first, &cluster.peer_url(heir));
    let refused = ctl.fails(&cluster.client_url(heir), &["move-leader", &id]);
    assert!(refused.contains("no leader endpoint given"), "{refused}");
    ctl.ok(&leader, &["move-leader", &to]);
    assert_eq!(ctl.leader(&first), (cluster.client_url(heir), to));
}

fn the_leader_is_removed_for_good(cluster: &mut Cluster, ctl: &Etcdctl) {
    let (leader, id) = ctl.leader(&cluster.client_url(0));
    let gone = (0..3).find(|at| cluster.client_url(*at) == leader).unwrap();
    let stays: Vec<usize> = (0..3).filter(|at| *at != gone).collect();
    let other = cluster.client_url(stays[0]);
    eventually("the change would not cost the quorum", || {
        ctl.run(&other, &["member", "remove", &id]).is_ok()
    });
    eventually("those who stay serve", || {
        ctl.run(&other, &["put", "after", "1"]).is_ok()
    });
    assert!(cluster.wait_exit(gone).success());
    assert!(cluster.log(gone).contains(GONE), "{}", cluster.log(gone));
    let error = cluster.try_start(gone, "existing", &[0, 1, 2]).unwrap_err();
    assert!(
        error.status.is_some_and(|status| status.success()),
        "{error}"
    );
    assert!(error.log.contains(GONE), "{error}");
    // Whoever is gone stays out, whatever it was told.
    let list = ctl.ok(&other, &["member", "list"]);
    assert_eq!(list.lines().count(), 2, "{list}");
    cluster.forget(gone);
}

fn one_of_two_goes_on_by_force(cluster: &mut Cluster, ctl: &Etcdctl) {
    let left = cluster.running();
    let (lost, kept) = (left[0], left[1]);
    cluster.kill(lost);
    cluster.kill(kept);
    cluster.start_with(kept, "existing", &left, &["--force-new-cluster"]);
    let url = cluster.client_url(kept);
    let list = ctl.ok(&url, &["member", "list"]);
    assert_eq!(list.lines().count(), 1, "{list}");
    for key in ["before", "through", "moved", "after"] {
        assert!(
            ctl.ok(&url, &["get", key]).starts_with(key),
            "{key} is lost"
        );
    }
    ctl.ok(&url, &["put", "alone", "1"]);
    // The one that was left behind finds nobody who wants it.
    let error = cluster.try_start(lost, "existing", &left).unwrap_err();
    assert!(
        error.status.is_some_and(|status| status.success()),
        "{error}"
    );
    assert!(error.log.contains(GONE), "{error}");
}

#[test]
fn a_newcomer_gets_the_state_when_the_log_begins_later() {
    let Some(tools) = Tools::or_skip("a newcomer behind the log") else {
        return;
    };
    let mut cluster = Cluster::new(2);
    let ctl = Etcdctl::new(&tools);
    cluster.start_with(0, "new", &[0], &["--snapshot-catchup-entries=5"]);
    let (first, second) = (cluster.client_url(0), cluster.client_url(1));
    let write = |round: usize| {
        for number in 0..20 {
            ctl.ok(&first, &["put", &format!("{round}/{number}"), "1"]);
        }
    };
    let arrives = |round: usize| {
        eventually("the learner has what was written", || {
            let last = format!("{round}/19");
            ctl.run(&second, &["get", &last, "--consistency=s"])
                .is_ok_and(|told| told.starts_with(&last))
        });
    };
    write(0);
    let url = cluster.peer_url(1);
    ctl.ok(
        &first,
        &["member", "add", "m1", "--learner", "--peer-urls", &url],
    );
    cluster.start(1, "existing", &[0, 1]);
    arrives(0);
    assert!(cluster.log(1).contains("received database snapshot"));
    cluster.kill(1);
    write(1);
    cluster.start(1, "existing", &[0, 1]);
    arrives(1);
    ctl.ok(&first, &["member", "promote", &ctl.id_of(&first, &url)]);
    eventually("it votes", || {
        ctl.run(&second, &["put", "both", "1"]).is_ok()
    });
    eventually("both have the same history", || {
        let hashes = ctl.ok(&first, &["endpoint", "hashkv", "--cluster"]);
        let hashes: Vec<&str> = hashes
            .lines()
            .filter_map(|l| l.split(", ").nth(1))
            .collect();
        hashes.len() == 2 && hashes[0] == hashes[1]
    });
}

/// It was killed right after it had joined: it knows who it is, and nobody else.
#[test]
fn a_newcomer_that_knows_nobody_is_found_by_the_others() {
    let Some(tools) = Tools::or_skip("a newcomer that knows nobody") else {
        return;
    };
    let mut cluster = Cluster::new(2);
    let ctl = Etcdctl::new(&tools);
    cluster.start(0, "new", &[0]);
    let first = cluster.client_url(0);
    let url = cluster.peer_url(1);
    ctl.ok(
        &first,
        &["member", "add", "m1", "--learner", "--peer-urls", &url],
    );
    let list = ctl.ok(&first, &["member", "list", "-w", "json"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let cluster_id = list["header"]["cluster_id"].as_u64().unwrap();
    let members = list["members"].as_array().unwrap();
    let own = members
        .iter()
        .find(|member| member["peerURLs"][0] == url.as_str());
    let member_id = own.unwrap()["ID"].as_u64().unwrap();

    let args = [format!("--data-dir={}", cluster.data_dir(1).display())];
    let config = config::parse(&args, &[], &|path| panic!("{path} is not to be read")).unwrap();
    let Found::Empty(empty) = DataDir::find(Arc::new(OsVfs), &config, 1).unwrap() else {
        panic!("nobody started there yet");
    };
    drop(empty.join(member_id, cluster_id, Vec::new()).unwrap());

    // A child of another test has what this process had open, with the lock of the directory, until it
    // runs its program.
    let launch = cluster.launch(1, "existing", &cluster.listed(&[0, 1]));
    let is_locked = |error: &StartError| error.log.contains("in use by another server");
    let mut started = launch.start();
    eventually("the directory is free", || {
        if started.as_ref().is_err_and(is_locked) {
            started = launch.start();
        }
        !started.as_ref().is_err_and(is_locked)
    });
    let server = started.unwrap_or_else(|error| panic!("{error}"));
    cluster.adopt(1, server);
    let list = ctl.ok(&first, &["member", "list"]);
    assert_eq!(list.matches("started").count(), 2, "{list}");
}
