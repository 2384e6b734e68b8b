use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::net::tls::Security;

fn member(id: u64, urls: &[&str]) -> MemberInfo {
    MemberInfo {
        id,
        peer_urls: urls.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

/// Matches members whose URLs have addresses, so that no name is looked up.
async fn matched(own: &mut [MemberInfo], theirs: &[MemberInfo]) -> Result<(), String> {
    match_ids(&System::start(), own, theirs).await
}

#[tokio::test]
async fn members_are_told_apart_by_their_urls() {
    let mut own = [
        member(0, &["http://127.0.0.1:2", "http://127.0.0.1:1"]),
        member(0, &["http://127.0.0.1:3"]),
    ];
    let theirs = [
        member(7, &["http://127.0.0.1:3"]),
        member(9, &["http://127.0.0.1:1", "http://127.0.0.1:2"]),
    ];
    matched(&mut own, &theirs).await.unwrap();
    assert_eq!((own[0].id, own[1].id), (9, 7));
    let error = matched(&mut own, &theirs[..1]).await.unwrap_err();
    assert_eq!(error, "member count is unequal");
    own[1].peer_urls = vec!["http://127.0.0.1:4".into()];
    let error = matched(&mut own, &theirs).await.unwrap_err();
    assert_eq!(
        error,
        "PeerURLs: no match found for existing member (7, [http://127.0.0.1:3]), last resolver \
         error (resolved urls: \"http://127.0.0.1:3\" != \"http://127.0.0.1:4\")"
    );
}

/// etcd compares with all of its members, and tells of the last one.
#[tokio::test]
async fn the_last_comparison_is_told_though_that_member_has_been_matched() {
    let mut own = [
        member(0, &["http://127.0.0.1:2"]),
        member(0, &["http://127.0.0.1:1"]),
    ];
    let theirs = [
        member(7, &["http://127.0.0.1:1"]),
        member(9, &["http://127.0.0.1:3"]),
    ];
    let error = matched(&mut own, &theirs).await.unwrap_err();
    assert!(
        error.ends_with("(resolved urls: \"http://127.0.0.1:3\" != \"http://127.0.0.1:1\")"),
        "{error}"
    );
}

#[tokio::test]
async fn one_member_is_not_taken_for_two() {
    let mut own = [
        member(0, &["http://127.0.0.1:1"]),
        member(0, &["http://127.0.0.1:2"]),
    ];
    let theirs = [
        member(7, &["http://127.0.0.1:1"]),
        member(9, &["http://127.0.0.1:1"]),
    ];
    let error = matched(&mut own, &theirs).await.unwrap_err();
    assert!(
        error.contains("no match found for existing member (9"),
        "{error}"
    );
}

/// Knows no host, and is to be asked for none.
struct Unasked;

impl Lookup for Unasked {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    async fn resolve(&self, address: &str, _: Duration) -> Result<SocketAddr, String> {
        panic!("{address} is looked up")
    }

    async fn sleep(&self, _: Duration) {}
}

/// A name may be unknown while its host is down.
#[tokio::test]
async fn no_host_is_looked_up_for_members_whose_urls_are_written_alike() {
    let mut own = [
        member(0, &["http://b.test:1"]),
        member(0, &["http://a.test:1"]),
    ];
    let theirs = [
        member(7, &["http://a.test:1"]),
        member(9, &["http://b.test:1"]),
    ];
    let matched = match_ids(&Unasked, &mut own, &theirs).await;
    assert_eq!(matched, Ok(()));
    assert_eq!((own[0].id, own[1].id), (9, 7));
}

/// A listener, and its URL.
async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// Answers every question as a member does that lists `members` and knows the cluster version.
fn answer(listener: TcpListener, members: &[MemberInfo]) {
    let members = serde_json::to_string(members).unwrap();
    let version = r#"{"etcdserver":"3.5.35","etcdcluster":"3.5.0"}"#;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            let length = stream.read(&mut head).await.unwrap();
            let is_version = head[..length].starts_with(b"GET /version ");
            let body = if is_version { version } else { &members };
            let answer = format!(
                "HTTP/1.1 200 OK\r\nX-Etcd-Cluster-ID: 7\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
}

fn config(own: &str, others: &[(&str, &str)], state: &str) -> Config {
    let mut cluster = vec![format!("own={own}")];
    cluster.extend(others.iter().map(|(name, url)| format!("{name}={url}")));
    let args = [
        "--name=own".to_owned(),
        format!("--initial-advertise-peer-urls={own}"),
        format!("--initial-cluster={}", cluster.join(",")),
        format!("--initial-cluster-state={state}"),
    ];
    let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    crate::config::parse(&args, &[], &no_file).unwrap()
}

/// What a member knows that is behind, and what another one knows, of which only the first one
/// tells.
fn lists(own: &MemberInfo, others: &[MemberInfo]) -> [Vec<MemberInfo>; 2] {
    let behind = [std::slice::from_ref(own), others].concat();
    let mut newest = behind.clone();
    newest[0].client_urls = vec!["http://own:2379".to_owned()];
    [behind, newest]
}

const OWN_URL: &str = "http://127.0.0.1:1";

#[tokio::test]
async fn a_founder_that_lost_its_data_asks_those_who_are_members_now() {
    let (founder, founder_url) = listener().await;
    let (later, later_url) = listener().await;
    let config = config(OWN_URL, &[("founder", &founder_url)], "new");
    let own = data_dir::founders(&config);
    let own = own.iter().find(|member| member.name == "own").unwrap();
    let others = [member(2, &[&founder_url]), member(3, &[&later_url])];
    let [behind, newest] = lists(own, &others);
    answer(founder, &behind);
    answer(later, &newest);
    let dialer = Dialer::new(&Security::prepare(&config).unwrap());
    assert_eq!(
        refuse_bootstrapped(&config, &dialer).await,
        Err(format!("member {:x} has already been bootstrapped", own.id))
    );
}

#[tokio::test]
async fn a_member_that_lost_its_data_is_refused_by_whoever_knows_it() {
    let (first, first_url) = listener().await;
    let (second, second_url) = listener().await;
    let others = [("first", &*first_url), ("second", &*second_url)];
    let config = config(OWN_URL, &others, "existing");
    let others = [member(2, &[&first_url]), member(3, &[&second_url])];
    let [behind, newest] = lists(&member(9, &[OWN_URL]), &others);
    // The one whose URL comes first answers first.
    let (first, second) = if first_url < second_url {
        (first, second)
    } else {
        (second, first)
    };
    answer(first, &behind);
    answer(second, &newest);
    let dialer = Dialer::new(&Security::prepare(&config).unwrap());
    let error = join(&config, &dialer).await.err().unwrap();
    assert!(error.contains("etcdctl member remove 9"), "{error}");
}
