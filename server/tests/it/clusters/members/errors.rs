//! Invalid requests sent to etcd and to Stele: both must refuse them with the same text.

use std::path::Path;
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::Tools;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status};

use super::process::{Cluster, eventually};

/// For an answer that comes only when no leader has been known for long.
const PATIENCE: Duration = Duration::from_secs(60);
const A: &str = "http://127.0.0.1:9";
const B: &str = "http://127.0.0.1:19";
const C: &str = "http://127.0.0.1:29";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_the_members_are_refused_in_etcds_words() {
    let Some(tools) = Tools::or_skip("refused changes of the members") else {
        return;
    };
    let etcd = answers(&tools.etcd).await;
    let stele = answers(Path::new(env!("CARGO_BIN_EXE_stele"))).await;
    for (etcd, stele) in etcd.iter().zip(&stele) {
        assert_eq!(stele, etcd);
    }
    assert_eq!(stele.len(), etcd.len());
}

struct Asking {
    client: Client,
    told: Vec<String>,
}

impl Asking {
    fn tell<T>(&mut self, what: &str, answer: Result<T, Status>, shown: impl Fn(T) -> String) {
        let answer = match answer {
            Ok(answer) => shown(answer),
            Err(status) => format!("{:?}: {}", status.code(), status.message()),
        };
        self.told.push(format!("{what}: {answer}"));
    }

    async fn add(&mut self, urls: &[&str], is_learner: bool) -> u64 {
        let request = pb::MemberAddRequest {
            peer_urls: urls.iter().map(ToString::to_string).collect(),
            is_learner,
        };
        let answer = self.client.cluster().member_add(request).await;
        let answer = answer.map(|response| response.into_inner());
        let member = answer
            .as_ref()
            .ok()
            .and_then(|answer| answer.member.clone());
        self.tell(&format!("add {is_learner}"), answer, |answer| {
            let member = answer.member.unwrap();
            let shown = (member.name, member.peer_urls, member.is_learner);
            format!("{shown:?} of {}", answer.members.len())
        });
        member.map_or(0, |member| member.id)
    }

    async fn remove(&mut self, what: &str, id: u64) {
        let request = pb::MemberRemoveRequest { id };
        let answer = self.client.cluster().member_remove(request).await;
        self.tell(&format!("remove {what}"), answer, |answer| {
            format!("{} left", answer.into_inner().members.len())
        });
    }

    async fn promote(&mut self, what: &str, id: u64) {
        let request = pb::MemberPromoteRequest { id };
        let answer = self.client.cluster().member_promote(request).await;
        self.tell(&format!("promote {what}"), answer, |answer| {
            format!("{} now", answer.into_inner().members.len())
        });
    }

    async fn update(&mut self, what: &str, id: u64, url: &str) {
        let request = pb::MemberUpdateRequest {
            id,
            peer_urls: vec![url.to_owned()],
        };
        let answer = self.client.cluster().member_update(request).await;
        self.tell(&format!("update {what}"), answer, |answer| {
            let members = answer.into_inner().members;
            let found = members.iter().find(|member| member.id == id).unwrap();
            format!("{}", found.peer_urls.len())
        });
    }
}

async fn answers(program: &Path) -> Vec<String> {
    let mut cluster = Cluster::of(program, 1);
    cluster.start(0, "new", &[0]);
    let client = Client::connect(cluster.client_url(0)).await.unwrap();
    let mut service = client.cluster();
    let listed = service.member_list(pb::MemberListRequest::default());
    let own = listed.await.unwrap().into_inner().members[0].id;
    let mut asking = Asking {
        client,
        told: Vec::new(),
    };
    let own_url = cluster.peer_url(0);
    for urls in [
        &[][..],
        &["foo"],
        &["http://a"],
        &["http://a:1/x"],
        &["ftp://a:1"],
        &[A, "x"],
    ] {
        asking.add(urls, false).await;
    }
    asking.add(&[&own_url], false).await;
    asking.add(&[&own_url], true).await;
    asking.remove("the only one", own).await;
    asking.remove("nobody", 7).await;
    asking.promote("nobody", 7).await;
    asking.promote("a voter", own).await;
    asking.update("nobody", 7, A).await;
    asking.update("to the same", own, &own_url).await;

    let learner = asking.add(&[A], true).await;
    asking.add(&[B], true).await;
    // Within a second the same URLs make the same id, and another error.
    asking.add(&[A, C], false).await;
    asking.promote("one that never started", learner).await;
    asking.update("to another's", learner, &own_url).await;
    asking.update("to the learner's", own, A).await;
    asking.update("the learner", learner, B).await;
    asking.remove("the learner", learner).await;
    asking.remove("the learner again", learner).await;
    asking.promote("one removed", learner).await;
    asking.update("one removed", learner, B).await;

    let mut watch = watch_with_leader(&asking.client).await.unwrap();
    // From here on nobody can lead.
    asking.add(&[C], false).await;
    asking.add(&[B], false).await;
    asking.add(&[B], true).await;
    asking.remove("the one that started", own).await;
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Err(status) = watch.message().await {
                return status;
            }
        }
    });
    let ended: Result<(), Status> = Err(ended.await.expect("the watch is cut"));
    asking.tell("watch", ended, |()| String::new());
    let again = watch_with_leader(&asking.client).await.map(drop);
    asking.tell("watch again", again, |()| "opened".to_owned());
    let mut range = Request::new(pb::RangeRequest {
        key: "k".into(),
        serializable: true,
        ..Default::default()
    });
    range
        .metadata_mut()
        .insert("hasleader", "true".parse().unwrap());
    let read = asking.client.kv().range(range).await;
    asking.tell("range", read, |_| "read".to_owned());
    asking.told
}

/// The stream, or the error it ended with before it began.
async fn watch_with_leader(client: &Client) -> Result<tonic::Streaming<pb::WatchResponse>, Status> {
    let (requests, stream) = tokio::sync::mpsc::channel(1);
    let create = pb::WatchCreateRequest {
        key: "k".into(),
        ..Default::default()
    };
    let union = pb::watch_request::RequestUnion::CreateRequest(create);
    let request = pb::WatchRequest {
        request_union: Some(union),
    };
    requests.send(request).await.unwrap();
    let mut call = Request::new(ReceiverStream::new(stream));
    call.metadata_mut()
        .insert("hasleader", "true".parse().unwrap());
    let mut watch = client.watch().watch(call).await?.into_inner();
    let created = watch.message().await?;
    // The client's side stays open for as long as the stream is read.
    tokio::spawn(async move {
        let () = std::future::pending().await;
        drop(requests);
    });
    match created {
        Some(created) if created.created => Ok(watch),
        other => Err(Status::new(Code::Internal, format!("{other:?}"))),
    }
}

/// Go tells maps in an order that is another one each time.
fn in_any_order(text: &str) -> Vec<String> {
    let words = text.split(' ').map(|word| word.trim_matches(['[', ']']));
    let mut words: Vec<String> = words.map(|word| word.replace("Members:[", "")).collect();
    words.sort();
    words
}

#[test]
fn who_may_not_join_is_told_in_etcds_words() {
    let Some(tools) = Tools::or_skip("refused joins") else {
        return;
    };
    let mut running = Cluster::new(4);
    // Founded by two, of which the second will have lost its data.
    std::thread::scope(|scope| {
        let first = running.launch(0, "new", &running.listed(&[0, 1]));
        let second = running.launch(1, "new", &running.listed(&[0, 1]));
        let second = scope.spawn(move || second.start().unwrap_or_else(|error| panic!("{error}")));
        running.adopt(0, first.start().unwrap_or_else(|error| panic!("{error}")));
        running.adopt(1, second.join().unwrap());
    });
    let (founders, all) = (running.listed(&[0, 1]), running.listed(&[0, 1, 2]));
    let url = running.peer_url(2);
    let unreachable = format!("m0={A},m2={url}");
    let twice = format!("m0={url},m2={url}");
    let other = format!("m0={},m2={url}", running.peer_url(0));
    running.kill(1);
    let cases = [
        (2, "existing", all.as_str()),
        (2, "existing", &other),
        (2, "existing", &unreachable),
        (2, "existing", &twice),
        (2, "new", &twice),
        (1, "new", &founders),
    ];
    for (at, state, listed) in cases {
        let refusal = |program: &Path| {
            let dir = tempfile::tempdir().unwrap();
            let launch = running.launch_program(program, at, state, listed);
            let started = launch.data_dir(dir.path().join("data")).start();
            let error = started.err().expect("it must not start");
            let line = error
                .log
                .lines()
                .find(|line| line.contains("discovery failed"));
            let line = line.unwrap_or_else(|| panic!("{error}"));
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            in_any_order(line["error"].as_str().unwrap())
        };
        let stele = refusal(Path::new(env!("CARGO_BIN_EXE_stele")));
        assert_eq!(stele, refusal(&tools.etcd), "{state} {listed}");
    }
    eventually("nobody joined", || running.running() == [0, 1]);
}
