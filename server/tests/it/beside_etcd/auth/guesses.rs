//! Guessed passwords, passwords that are no longer valid, and changes without a user.

use std::time::Duration;

use etcd_api::etcdserverpb as pb;

use super::ask::{Request, ask};
use super::cluster::{add_users, login, must};
use super::{CHEAP, client};
use crate::harness::subject;
use crate::usual::pages::samples;

const WRONG: &str = "etcdserver: authentication failed, invalid user ID or password";
/// More than go free, and few enough to be done soon.
const GUESSES: usize = 13;
/// For a line of the log.
const SOON: Duration = Duration::from_secs(60);

fn as_alice(password: &str) -> Request {
    Request::Authenticate(pb::AuthenticateRequest {
        name: "alice".to_owned(),
        password: password.to_owned(),
    })
}

#[tokio::test]
async fn guesses_are_slowed_down_and_told_and_those_who_know_better_are_not() {
    let server = subject::launch().flag(CHEAP).start().unwrap();
    let client = client(&server).await;
    add_users(&client).await;
    let wrong = async |password: &str| {
        let (code, text) = ask(&client, &as_alice(password), None)
            .await
            .shown
            .unwrap_err();
        assert_eq!((code, &text[..]), (3, WRONG), "{password}");
    };
    login(&client, "alice", "alice").await;
    for guess in 0..GUESSES {
        wrong(&format!("guess-{guess}")).await;
    }
    // Her own password has been seen right before: nobody locks her out.
    login(&client, "alice", "alice").await;
    let root = login(&client, "root", "root").await;
    if !subject::is_etcd() {
        let log = server.log();
        let told = "too many wrong passwords in a row; delaying the next try";
        assert!(
            log.contains(told) && log.contains("invalid password"),
            "{log}"
        );
        assert!(!log.contains("guess-"), "a password in the log: {log}");
    }
    // What is known of a password ends with it, and with its user.
    let name = || "alice".to_owned();
    let password = "other".to_owned();
    let change = pb::AuthUserChangePasswordRequest {
        name: name(),
        password,
        ..Default::default()
    };
    must(&client, Request::UserChangePassword(change), Some(&root)).await;
    wrong("alice").await;
    login(&client, "alice", "other").await;
    let delete = pb::AuthUserDeleteRequest { name: name() };
    must(&client, Request::UserDelete(delete), Some(&root)).await;
    wrong("other").await;
    let password = "third".to_owned();
    let add = pb::AuthUserAddRequest {
        name: name(),
        password,
        ..Default::default()
    };
    must(&client, Request::UserAdd(add), Some(&root)).await;
    wrong("other").await;
    login(&client, "alice", "third").await;
}

/// etcd logs the whole name.
#[tokio::test]
async fn the_log_shows_the_start_of_a_name_that_no_user_has() {
    const TOLD: &str = "invalid authentication was requested";
    const LINE_BYTES_MAX: usize = 1024;
    if subject::is_etcd() {
        return;
    }
    let server = subject::launch().flag(CHEAP).start().unwrap();
    let client = client(&server).await;
    add_users(&client).await;
    let login = Request::Authenticate(pb::AuthenticateRequest {
        name: format!("mallory{}", "y".repeat(1 << 20)),
        password: "x".to_owned(),
    });
    let refused = ask(&client, &login, None).await.shown.unwrap_err();
    assert_eq!(refused, (3, WRONG.to_owned()));
    assert!(server.wait_for_log(TOLD, SOON));
    let log = server.log();
    let line = log.lines().find(|line| line.contains(TOLD)).unwrap();
    assert!(line.contains("mallory"), "{line}");
    assert!(line.len() < LINE_BYTES_MAX, "{} bytes", line.len());
}

/// etcd writes them to its log, and refuses them when they are applied.
#[tokio::test]
async fn changes_without_a_user_do_not_enter_the_log() {
    const APPLIED: &str = "etcd_server_proposals_applied_total";
    if subject::is_etcd() {
        return;
    }
    let server = subject::launch().flag(CHEAP).start().unwrap();
    let client = client(&server).await;
    add_users(&client).await;
    let alice = login(&client, "alice", "alice").await;
    let put = Request::Put(pb::PutRequest {
        key: "a".into(),
        ..Default::default()
    });
    let before = samples(&server)[APPLIED];
    for _ in 0..10 {
        let refused = ask(&client, &put, None).await.shown.unwrap_err();
        assert_eq!(refused, (3, "etcdserver: user name is empty".to_owned()));
    }
    assert_eq!(samples(&server)[APPLIED], before);
    must(&client, put, Some(&alice)).await;
    assert_eq!(samples(&server)[APPLIED], before + 1.0);
}
