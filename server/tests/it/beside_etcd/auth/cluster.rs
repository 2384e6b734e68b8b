//! Users in a mixed cluster of etcd and Stele, and in states that come from etcd: enforced from the
//! first request on, and the same on every member, whichever member leads.
#![expect(
    clippy::disallowed_methods,
    reason = "a test around real processes reads the clock and their files"
)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use rustix::process::Signal;
use testkit::{Launch, Minor, Server, Tools};

use super::ask::{Asked, Request, ask};
use super::generate::{Generator, Who};
use super::{CHEAP, client};
use crate::harness::fleet::{self, PATIENCE, free_urls};
use crate::harness::minors::{beside_each_minor, forgetful};
use crate::harness::rng::Rng;
use crate::harness::subject;

const STELE: &str = env!("CARGO_BIN_EXE_stele");
const SECRET: &[u8] = b"secret";
const AGAIN: Duration = Duration::from_millis(20);
/// Of the mixed run, between two comparisons.
const OPS_PER_COMPARISON: usize = 100;
fn launch(program: &Path, name: &str, peer: &str, all: &str, existing: bool) -> Launch {
    let state = if existing { "existing" } else { "new" };
    Launch::program(program)
        .flag(format!("--name={name}"))
        .flag(format!("--listen-peer-urls={peer}"))
        .flag(format!("--initial-advertise-peer-urls={peer}"))
        .flag(format!("--initial-cluster={all}"))
        .flag(format!("--initial-cluster-state={state}"))
        .flag(CHEAP)
}

fn start(launch: &Launch) -> Server {
    launch.start().unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn put(key: &[u8]) -> Request {
    Request::Put(pb::PutRequest {
        key: bytes::Bytes::copy_from_slice(key),
        value: bytes::Bytes::from_static(SECRET),
        ..Default::default()
    })
}

pub(crate) fn get(key: &[u8], serializable: bool) -> Request {
    Request::Range(pb::RangeRequest {
        key: bytes::Bytes::copy_from_slice(key),
        serializable,
        ..Default::default()
    })
}

/// Again until it is answered without an error.
async fn until_ok(client: &Client, request: &Request, token: &str) -> Asked {
    let until = Instant::now() + PATIENCE;
    loop {
        let asked = ask(client, request, Some(token)).await;
        if asked.shown.is_ok() {
            return asked;
        }
        assert!(Instant::now() < until, "{request:?}: {:?}", asked.shown);
        tokio::time::sleep(AGAIN).await;
    }
}

pub(crate) async fn must(client: &Client, request: Request, token: Option<&str>) -> Asked {
    let asked = ask(client, &request, token).await;
    assert!(asked.shown.is_ok(), "{request:?}: {:?}", asked.shown);
    asked
}

pub(crate) async fn login(client: &Client, name: &str, password: &str) -> String {
    let (name, password) = (name.to_owned(), password.to_owned());
    let login = Request::Authenticate(pb::AuthenticateRequest { name, password });
    must(client, login, None).await.token.unwrap()
}

/// Root, alice who may read and write `a`, and auth switched on.
pub(crate) async fn add_users(client: &Client) {
    for name in ["root", "alice"] {
        let request = Request::UserAdd(pb::AuthUserAddRequest {
            name: name.to_owned(),
            password: name.to_owned(),
            ..Default::default()
        });
        must(client, request, None).await;
    }
    let name = "r".to_owned();
    must(
        client,
        Request::RoleAdd(pb::AuthRoleAddRequest { name }),
        None,
    )
    .await;
    let grant = Request::RoleGrantPermission(pb::AuthRoleGrantPermissionRequest {
        name: "r".to_owned(),
        perm: Some(etcd_api::authpb::Permission {
            perm_type: 2,
            key: bytes::Bytes::from_static(b"a"),
            range_end: bytes::Bytes::new(),
        }),
    });
    must(client, grant, None).await;
    for (user, role) in [("root", "root"), ("alice", "r")] {
        let (user, role) = (user.to_owned(), role.to_owned());
        let grant = Request::UserGrantRole(pb::AuthUserGrantRoleRequest { user, role });
        must(client, grant, None).await;
    }
    must(client, put(b"a"), None).await;
    must(client, put(b"b"), None).await;
    must(client, Request::Enable, None).await;
}

/// What the users above see of a server that has them.
async fn check_users(server: &Server) {
    let client = client(server).await;
    for request in [get(b"b", true), get(b"b", false), put(b"b")] {
        let refused = ask(&client, &request, None).await;
        let (_, text) = refused.shown.unwrap_err();
        assert_eq!(text, "etcdserver: user name is empty", "{request:?}");
    }
    let alice = login(&client, "alice", "alice").await;
    must(&client, put(b"a"), Some(&alice)).await;
    let read = must(&client, get(b"a", false), Some(&alice)).await;
    assert!(read.shown.unwrap().contains("secret"));
    for request in [get(b"b", true), put(b"b"), Request::UserList] {
        let (code, text) = ask(&client, &request, Some(&alice))
            .await
            .shown
            .unwrap_err();
        assert_eq!((code, &text[..]), (7, "etcdserver: permission denied"));
    }
    let root = login(&client, "root", "root").await;
    must(&client, put(b"b"), Some(&root)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_an_etcd_that_is_restored_or_imported_are_in_force() {
    let Some(tools) = Tools::or_skip("users in a snapshot of etcd") else {
        return;
    };
    let mut etcd = Server::start_etcd(&tools, &[CHEAP]);
    let theirs = client(&etcd).await;
    add_users(&theirs).await;
    let root = login(&theirs, "root", "root").await;
    // Questions that etcd puts into its log.
    for request in [
        Request::AuthStatus,
        Request::UserList,
        Request::RoleList,
        Request::UserGet(pb::AuthUserGetRequest {
            name: "alice".to_owned(),
        }),
        Request::RoleGet(pb::AuthRoleGetRequest {
            role: "r".to_owned(),
        }),
    ] {
        must(&theirs, request, Some(&root)).await;
    }
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("snapshot.db");
    let saved = Command::new(&tools.etcdctl)
        .args(["--user=root:root", "snapshot", "save"])
        .arg(&file)
        .arg(format!("--endpoints={}", etcd.url()))
        .output()
        .unwrap();
    assert!(saved.status.success(), "{saved:?}");
    let restored = place.path().join("restored");
    let done = Command::new(STELE)
        .args(["utl", "snapshot", "restore"])
        .arg(&file)
        .arg("--data-dir")
        .arg(&restored)
        .args([
            "--initial-cluster=default=http://127.0.0.1:2380",
            "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        ])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let stele = Server::start_stele(STELE, &[CHEAP], Some(&restored));
    check_users(&stele).await;
    drop(stele);

    etcd.kill();
    let imported = place.path().join("imported");
    let done = Command::new(STELE)
        .args(["utl", "import"])
        .arg(etcd.data_dir())
        .arg("--data-dir")
        .arg(&imported)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let mut stele = Server::start_stele(STELE, &[CHEAP], Some(&imported));
    check_users(&stele).await;
    stele.kill_and_restart();
    check_users(&stele).await;
}

/// Takes back what [`add_users`] did.
async fn remove_users(client: &Client, root: &str) {
    must(client, Request::Disable, Some(root)).await;
    for name in ["root", "alice"] {
        let name = name.to_owned();
        must(
            client,
            Request::UserDelete(pb::AuthUserDeleteRequest { name }),
            None,
        )
        .await;
    }
    let role = "r".to_owned();
    must(
        client,
        Request::RoleDelete(pb::AuthRoleDeleteRequest { role }),
        None,
    )
    .await;
}

/// What all members have to agree on: history, users, roles.
async fn compare(clients: &[Client], root: &str, minor: Minor) {
    let head = until_ok(&clients[0], &get(b"a", false), root).await;
    drop(head);
    let mut questions = vec![Request::HashKv, Request::AuthStatus, Request::UserList];
    questions.push(Request::RoleList);
    // etcd 3.5 does not tell of the permissions of the role root.
    let roles = ["root", "r1", "r2", "r3", "r4"].into_iter();
    for role in roles.filter(|role| *role != "root" || minor > Minor::V3_5) {
        let role = role.to_owned();
        questions.push(Request::RoleGet(pb::AuthRoleGetRequest { role }));
    }
    for user in ["root", "alice", "bob", "carol", "dave"] {
        let name = user.to_owned();
        questions.push(Request::UserGet(pb::AuthUserGetRequest { name }));
    }
    for question in questions {
        let mut answers = Vec::new();
        for client in clients {
            // So that a hash is not of an older revision.
            until_ok(client, &get(b"a", false), root).await;
            let asked = ask(client, &question, Some(root)).await;
            answers.push(asked.shown.map(|text| {
                // etcd 3.5 does not tell of which revision a hash is.
                let text = match text.split_once(", hash_revision") {
                    Some((told, _)) if minor == Minor::V3_5 => told.to_owned(),
                    _ => text,
                };
                without_members(&text)
            }));
        }
        assert!(
            answers.windows(2).all(|two| two[0] == two[1]),
            "{question:?}: {answers:#?}"
        );
    }
}

/// Each member names itself.
fn without_members(text: &str) -> String {
    let Some((head, rest)) = text.split_once("member_id: ") else {
        return text.to_owned();
    };
    format!(
        "{head}{}",
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
    )
}

async fn member_id(client: &Client, token: &str) -> u64 {
    let mut call = tonic::Request::new(pb::StatusRequest {});
    call.metadata_mut().insert("token", token.parse().unwrap());
    let status = client.maintenance().status(call).await.unwrap();
    status.into_inner().header.unwrap().member_id
}

/// Adds and promotes; returns a token of root's that the new member knows as well.
async fn join(first: &Client, root: &str, peer: &str, launch: &Launch) -> Server {
    let add = Request::MemberAdd(pb::MemberAddRequest {
        peer_urls: vec![peer.to_owned()],
        is_learner: true,
    });
    until_ok(first, &add, root).await;
    let server = start(launch);
    let mut call = tonic::Request::new(pb::MemberListRequest { linearizable: true });
    call.metadata_mut().insert("token", root.parse().unwrap());
    let members = first
        .cluster()
        .member_list(call)
        .await
        .unwrap()
        .into_inner();
    let learner = members.members.iter().find(|member| member.is_learner);
    let id = learner.unwrap().id;
    until_ok(
        first,
        &Request::MemberPromote(pb::MemberPromoteRequest { id }),
        root,
    )
    .await;
    server
}

beside_each_minor!(etcd_and_stele_agree_on_users_whoever_leads);
async fn etcd_and_stele_agree_on_users_whoever_leads(minor: Minor) {
    let Some(program) = minor.etcd_or_skip("users in a cluster of etcd and Stele") else {
        return;
    };
    let ops = subject::number("STELE_AUTH_JOIN_OPS", 600) as usize;
    let seed = subject::number("STELE_AUTH_SEED", 1);
    let [e0, s1] = [free_urls(), free_urls()].map(|[peer, _]| peer);
    let alone = format!("e0={e0}");
    let both = format!("e0={e0},s1={s1}");
    let founder = launch(&program, "e0", &e0, &alone, false);
    let etcd = start(&founder.flags(&forgetful(minor)));
    let first = client(&etcd).await;
    add_users(&first).await;
    // The log is longer than what is kept of it: the state has to be sent.
    let root = login(&first, "root", "root").await;
    for _ in 0..100 {
        must(&first, put(b"a"), Some(&root)).await;
    }
    let launched = launch(STELE.as_ref(), "s1", &s1, &both, true);
    let launched = launched.flags(&forgetful(Minor::V3_7));
    let mut stele = join(&first, &root, &s1, &launched).await;
    assert!(
        stele.log().contains("received database snapshot"),
        "{}",
        stele.log()
    );
    let second = client(&stele).await;
    // Tokens live in memory: this one is older than the member.
    let root = login(&first, "root", "root").await;
    until_ok(&second, &get(b"a", false), &root).await;
    check_users(&stele).await;
    check_users(&etcd).await;
    let ids = [
        member_id(&first, &root).await,
        member_id(&second, &root).await,
    ];

    // From here on the generator's users.
    remove_users(&first, &root).await;

    let clients = [first, second];
    let (mut generator, mut rng) = (Generator::new(seed), Rng::new(seed));
    for number in 1..=ops {
        let op = generator.next();
        let at = rng.below(clients.len());
        let tokens = generator.tokens_for(&op);
        let token = tokens.as_ref().map(|tokens| &tokens[0][..]);
        let asked = ask(&clients[at], &op.request, token).await;
        // A token is good at every member once it has been handed out; etcd itself may not know it
        // yet.
        let is_unknown = matches!(&asked.shown, Err((16, _)));
        let is_user = matches!(op.who, Who::User(_)) && token.is_some();
        assert!(
            !(at == 1 && is_user && is_unknown),
            "{op:?}: {:?}",
            asked.shown
        );
        generator.learn(&op, &asked, &asked);
        if number == ops / 2 {
            let root = root_of(&generator, &clients[0]).await;
            let target_id = ids[1];
            let leader = Request::MoveLeader(pb::MoveLeaderRequest { target_id });
            let moved = ask(&clients[0], &leader, Some(&root)).await;
            assert!(moved.shown.is_ok(), "{:?}", moved.shown);
        }
        if number % OPS_PER_COMPARISON == 0 {
            let root = root_of(&generator, &clients[0]).await;
            compare(&clients, &root, minor).await;
        }
    }
    stele.kill_and_restart();
    let second = client(&stele).await;
    let [first, _] = clients;
    let password = generator.root_password();
    let root = root_of(&generator, &first).await;
    must(&first, Request::Enable, Some(&root)).await;
    let root = until_login(&second, &password).await;
    compare(&[first, second], &root, minor).await;
}

/// A token of root's; what it is does not matter while auth is off.
async fn root_of(generator: &Generator, client: &Client) -> String {
    if let Some(token) = generator.root_token() {
        return token;
    }
    let (name, password) = ("root".to_owned(), generator.root_password());
    let login = Request::Authenticate(pb::AuthenticateRequest { name, password });
    let asked = ask(client, &login, None).await;
    asked.token.unwrap_or_default()
}

async fn until_login(client: &Client, password: &str) -> String {
    let (name, password) = ("root".to_owned(), password.to_owned());
    let login = Request::Authenticate(pb::AuthenticateRequest { name, password });
    until_ok(client, &login, "").await.token.unwrap()
}

/// A member that was away knows neither the token nor that a user is gone; who asks it first gets
/// the answer of the cluster all the same (etcd's issue 18437).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lags_takes_new_tokens_and_refuses_old_ones() {
    let dir = tempfile::tempdir().unwrap();
    let members = fleet::found(STELE, dir.path(), 3, &[CHEAP]);
    let mut clients = Vec::new();
    for member in &members {
        let ready = || member.log().contains(testkit::READY_LINE);
        fleet::wait("the start", ready, || member.log());
        clients.push(Client::connect(member.url.clone()).await.unwrap());
    }
    until_ok(&clients[0], &put(b"z"), "").await;
    add_users(&clients[0]).await;
    let root = login(&clients[0], "root", "root").await;
    for client in &clients {
        until_ok(client, &get(b"a", false), &root).await;
    }
    for round in 0..3 {
        let away = follower(&clients, &root).await;
        let here = &clients[(away + 1) % 3];
        let old = login(here, "alice", "alice").await;
        until_ok(&clients[away], &get(b"a", false), &old).await;
        members[away].signal(Signal::STOP);
        let name = "alice".to_owned();
        let change = pb::AuthUserChangePasswordRequest {
            password: name.clone(),
            name,
            ..Default::default()
        };
        until_ok(here, &Request::UserChangePassword(change), &root).await;
        let alice = login(here, "alice", "alice").await;
        let asking = [
            (get(b"a", false), alice.clone()),
            (get(b"a", true), alice.clone()),
            (put(b"a"), alice),
            (get(b"a", false), old.clone()),
            (put(b"a"), old),
        ]
        .map(|(request, token)| {
            let client = clients[away].clone();
            tokio::spawn(async move { ask(&client, &request, Some(&token)).await.shown })
        });
        members[away].signal(Signal::CONT);
        let mut answers = Vec::new();
        for asking in asking {
            answers.push(asking.await.unwrap());
        }
        let is_ok: Vec<bool> = answers.iter().map(Result::is_ok).collect();
        assert_eq!(
            is_ok,
            [true, true, true, false, false],
            "round {round}: {answers:#?}"
        );
    }
}

async fn follower(clients: &[Client], token: &str) -> usize {
    for (at, client) in clients.iter().enumerate() {
        let mut call = tonic::Request::new(pb::StatusRequest {});
        call.metadata_mut().insert("token", token.parse().unwrap());
        let status = client
            .maintenance()
            .status(call)
            .await
            .unwrap()
            .into_inner();
        if status.leader != 0 && status.leader != status.header.unwrap().member_id {
            return at;
        }
    }
    panic!("no member follows another");
}
