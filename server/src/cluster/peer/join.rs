//! What a member asks its peers before it starts: the members, if it joins a running cluster; and
//! whether the peers know this member already, if it bootstraps a new cluster.
//!
//! None of this is repeated once there is a log: from then on the log contains the members.

use std::collections::HashSet;
use std::time::Duration;

use serde::Deserialize;

use super::{Dialer, PeerAnswer};
use crate::config::{CLUSTER_VERSION, Config, MIN_CLUSTER_VERSION, Url};
use crate::data_dir::{self, newcomer};
use crate::state::MemberInfo;

/// Limit for one member to list the members, as in etcd.
const MEMBERS_PATIENCE: Duration = Duration::from_secs(10);
/// The same limit at bootstrap, when no peer needs to answer.
const FOUNDING_PATIENCE: Duration = Duration::from_secs(1);
const VERSION_PATIENCE: Duration = Duration::from_secs(7);

/// What a running cluster says about this member.
pub(crate) struct Joined {
    pub member_id: u64,
    pub cluster_id: u64,
    /// All members, as listed by one of them.
    pub members: Vec<MemberInfo>,
}

/// The fields of `/version` that matter here.
#[derive(Debug, Deserialize)]
pub(crate) struct Versions {
    pub etcdserver: String,
    pub etcdcluster: String,
}

impl Versions {
    pub(super) fn of(body: &[u8]) -> Option<Versions> {
        serde_json::from_slice(body).ok()
    }
}

/// Finds this member in the member list of the running cluster. The error has etcd's text.
pub(crate) async fn join(config: &Config, dialer: &Dialer) -> Result<Joined, String> {
    if let Some(error) = &config.founding_error {
        return Err(error.clone());
    }
    refuse_duplicates(config)?;
    let mut own = data_dir::founders(config);
    // etcd compares in this order; if several members differ, it reports the last.
    own.sort_by_key(|member| member.id);
    let urls = urls_of_others(&own, &config.name);
    let fetched = fetch(dialer, &urls).await;
    let (cluster_id, members) =
        fetched.map_err(|error| format!("cannot fetch cluster info from peer urls: {error}"))?;
    if let Err(error) = match_ids(&mut own, &members).await {
        let told = describe(cluster_id, &members);
        return Err(format!("error validating peerURLs {told}: {error}"));
    }
    let local = own.iter().find(|member| member.name == config.name);
    let local = local.expect("it is among those named, or founding would be an error");
    let others: Vec<&MemberInfo> = own.iter().filter(|member| member.id != local.id).collect();
    newcomer::may_join(local.id, &members)?;
    let own_urls = local.peer_urls.iter().cloned().collect();
    for known in lists_of(dialer, cluster_id, &members, &own_urls).await {
        newcomer::may_join(local.id, &known)?;
    }
    if !is_compatible(dialer, &others).await {
        return Err("incompatible with current running cluster".to_owned());
    }
    let learners = members.iter().filter(|member| member.is_learner).count();
    if learners > config.max_learners {
        return Err("membership: too many learner members in cluster".to_owned());
    }
    Ok(Joined {
        member_id: local.id,
        cluster_id,
        members,
    })
}

/// Refuses to start a founding member that has lost its data: the others would trust that it still
/// has the entries it acknowledged. Besides the founders it asks those who are members now, as the
/// first founder that answers lists them.
pub(crate) async fn refuse_bootstrapped(config: &Config, dialer: &Dialer) -> Result<(), String> {
    refuse_duplicates(config)?;
    let founders = data_dir::founders(config);
    let urls = urls_of_others(&founders, &config.name);
    let mut current = None;
    for (cluster_id, members) in ask_all(dialer, &urls).await {
        newcomer::may_bootstrap(config, &members)?;
        current.get_or_insert((cluster_id, members));
    }
    let Some((cluster_id, members)) = current else {
        return Ok(());
    };
    let founders = founders.into_iter().flat_map(|member| member.peer_urls);
    for known in lists_of(dialer, cluster_id, &members, &founders.collect()).await {
        newcomer::may_bootstrap(config, &known)?;
    }
    Ok(())
}

/// The members as each of `members` lists them, except those with the URLs in `without`. One that is
/// behind may not know yet what another one knows.
async fn lists_of(
    dialer: &Dialer,
    cluster_id: u64,
    members: &[MemberInfo],
    without: &HashSet<String>,
) -> Vec<Vec<MemberInfo>> {
    let urls = members.iter().flat_map(|member| &member.peer_urls);
    let urls: Vec<String> = urls
        .filter(|url| !without.contains(*url))
        .cloned()
        .collect();
    let answers = ask_all(dialer, &urls).await.into_iter();
    let of_cluster = answers.filter(|(id, _)| *id == cluster_id);
    of_cluster.map(|(_, members)| members).collect()
}

/// Cluster id and members, from all URLs that answer. The peers may be starting too: all are asked at
/// once, with a short timeout.
async fn ask_all(dialer: &Dialer, urls: &[String]) -> Vec<(u64, Vec<MemberInfo>)> {
    let asking: Vec<_> = urls
        .iter()
        .map(|url| {
            let (dialer, url) = (dialer.clone(), url.clone());
            tokio::spawn(async move { ask(&dialer, &url, FOUNDING_PATIENCE).await })
        })
        .collect();
    let mut answers = Vec::new();
    for answer in asking {
        answers.extend(answer.await.ok().and_then(Result::ok));
    }
    answers
}

fn refuse_duplicates(config: &Config) -> Result<(), String> {
    let mut seen = HashSet::new();
    let urls = config.initial_cluster.iter().flat_map(|m| &m.peer_urls);
    let mut urls = urls.map(Url::as_str);
    if urls.all(|url| seen.insert(url)) {
        return Ok(());
    }
    let mut pairs: Vec<String> = config
        .initial_cluster
        .iter()
        .flat_map(|m| m.peer_urls.iter().map(|url| format!("{}={url}", m.name)))
        .collect();
    pairs.sort();
    let cluster = pairs.join(",");
    Err(format!("initial cluster {cluster} has duplicate url"))
}

/// The peer URLs of all members except `local`, in the order in which they are tried.
fn urls_of_others(members: &[MemberInfo], local: &str) -> Vec<String> {
    let others = members.iter().filter(|member| member.name != local);
    let mut urls: Vec<String> = others.flat_map(|m| m.peer_urls.clone()).collect();
    urls.sort();
    urls
}

/// Cluster id and members, from the first URL that answers.
async fn fetch(dialer: &Dialer, urls: &[String]) -> Result<(u64, Vec<MemberInfo>), String> {
    for url in urls {
        match ask(dialer, url, MEMBERS_PATIENCE).await {
            Ok((_, members)) if members.is_empty() => {
                return Err("failed to get raft cluster member(s) from the given URLs".to_owned());
            }
            Ok(found) => return Ok(found),
            Err(error) => {
                let address = format!("{url}/members");
                tracing::warn!(address, error, "failed to get cluster response");
            }
        }
    }
    Err("could not retrieve cluster information from the given URLs".to_owned())
}

async fn ask(
    dialer: &Dialer,
    url: &str,
    patience: Duration,
) -> Result<(u64, Vec<MemberInfo>), String> {
    let answer = dialer.get(url, "/members", patience).await;
    listed(&answer.map_err(|error| error.to_string())?)
}

/// Cluster id and members of an answer.
pub(super) fn listed(answer: &PeerAnswer) -> Result<(u64, Vec<MemberInfo>), String> {
    let members = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    let id = u64::from_str_radix(&answer.cluster_id, 16).map_err(|error| error.to_string())?;
    Ok((id, members))
}

/// Gives our members the ids of the running cluster; members are matched by their URLs.
async fn match_ids(own: &mut [MemberInfo], members: &[MemberInfo]) -> Result<(), String> {
    if own.len() != members.len() {
        return Err("member count is unequal".to_owned());
    }
    let mut ids = vec![0; own.len()];
    for member in members {
        let mut found = None;
        let mut last_error = String::new();
        for (place, local) in own.iter().enumerate() {
            match is_same_place(&member.peer_urls, &local.peer_urls).await {
                Ok(()) => {
                    found = Some(place);
                    break;
                }
                Err(error) => last_error = error,
            }
        }
        let Some(place) = found else {
            return Err(format!(
                "PeerURLs: no match found for existing member ({:x}, [{}]), last resolver error ({last_error})",
                member.id,
                member.peer_urls.join(" ")
            ));
        };
        ids[place] = member.id;
    }
    for (member, id) in own.iter_mut().zip(ids) {
        member.id = id;
    }
    Ok(())
}

async fn is_same_place(theirs: &[String], ours: &[String]) -> Result<(), String> {
    let quoted = |urls: &[String]| {
        let urls: Vec<String> = urls.iter().map(|url| format!("{url:?}")).collect();
        format!("[{}]", urls.join(" "))
    };
    if theirs.len() != ours.len() {
        return Err(format!("len({}) != len({})", quoted(theirs), quoted(ours)));
    }
    let (mut theirs, mut ours) = (theirs.to_vec(), ours.to_vec());
    theirs.sort();
    ours.sort();
    for (theirs, ours) in theirs.iter().zip(&ours) {
        if theirs == ours {
            continue;
        }
        let (resolved, expected) = (resolve(theirs).await?, resolve(ours).await?);
        if resolved != expected {
            return Err(format!("resolved urls: {theirs:?} != {ours:?}"));
        }
    }
    Ok(())
}

async fn resolve(url: &str) -> Result<std::net::SocketAddr, String> {
    let url = Url::parse(url)?;
    if url.is_unix() {
        return Err(format!("{url} is a file and no host"));
    }
    let address = url.address();
    let mut found = tokio::net::lookup_host(&address)
        .await
        .map_err(|error| error.to_string())?;
    let first = found.next();
    first.ok_or_else(|| format!("{address} has no address"))
}

/// True if at least one member knows the cluster version, and no member reports one that this
/// version cannot speak.
async fn is_compatible(dialer: &Dialer, others: &[&MemberInfo]) -> bool {
    let mut newest = minor(CLUSTER_VERSION).unwrap_or_default();
    let mut oldest = minor(MIN_CLUSTER_VERSION).unwrap_or_default();
    if downgrades(dialer, others).await {
        newest.1 += 1;
        oldest = newest;
    }
    let mut told = false;
    for member in others {
        let Some(versions) = versions(dialer, &member.peer_urls).await else {
            let id = format!("{:x}", member.id);
            tracing::warn!("remote-member-id" = id, "failed to get version");
            continue;
        };
        let Some(version) = minor(&versions.etcdcluster) else {
            continue; // Not decided yet.
        };
        if version < oldest || version > newest {
            tracing::warn!(
                "remote-member-id" = format!("{:x}", member.id),
                "remote-member-cluster-version" = versions.etcdcluster,
                "cluster version of remote member is not compatible"
            );
            return false;
        }
        if lacks_checks(&versions.etcdserver) {
            tracing::warn!(
                "remote-member-id" = format!("{:x}", member.id),
                "remote-member-server-version" = versions.etcdserver,
                "the remote member does not check all permissions of a transaction; upgrade it to \
                 etcd 3.5.31, 3.6.11 or later before you use authentication: else its data and this \
                 member's may differ"
            );
        }
        told = true;
    }
    told
}

/// True for releases of etcd before those that check all permissions of a transaction.
fn lacks_checks(version: &str) -> bool {
    let numbers: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    match numbers.as_deref() {
        Some([3, 6, patch]) => *patch < 11,
        Some([3, 5, patch]) => *patch < 31,
        Some([3, minor, _]) => *minor < 5,
        _ => false,
    }
}

async fn downgrades(dialer: &Dialer, others: &[&MemberInfo]) -> bool {
    for url in others.iter().flat_map(|member| &member.peer_urls) {
        let asked = dialer
            .get(url, "/downgrade/enabled", VERSION_PATIENCE)
            .await;
        if let Ok(answer) = asked
            && answer.status == 200
        {
            return answer.body.as_ref() == b"true";
        }
    }
    false
}

/// The versions that the member at one of these URLs reports.
pub(crate) async fn versions(dialer: &Dialer, urls: &[String]) -> Option<Versions> {
    for url in urls {
        if let Ok(answer) = dialer.get(url, "/version", VERSION_PATIENCE).await
            && let Some(versions) = Versions::of(&answer.body)
        {
            return Some(versions);
        }
    }
    None
}

/// Major and minor version.
pub(crate) fn minor(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// As Go prints it.
fn describe(cluster_id: u64, members: &[MemberInfo]) -> String {
    let member = |m: &MemberInfo| {
        format!(
            "&{{ID:{:x} RaftAttributes:{{PeerURLs:[{}] IsLearner:{}}} Attributes:{{Name:{} ClientURLs:[{}]}}}}",
            m.id,
            m.peer_urls.join(" "),
            m.is_learner,
            m.name,
            m.client_urls.join(" ")
        )
    };
    let members: Vec<String> = members.iter().map(member).collect();
    let members = members.join(" ");
    format!("{{ClusterID:{cluster_id:x} Members:[{members}] RemovedMemberIDs:[]}}")
}

#[cfg(test)]
mod tests {
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
        match_ids(&mut own, &theirs).await.unwrap();
        assert_eq!((own[0].id, own[1].id), (9, 7));
        let error = match_ids(&mut own, &theirs[..1]).await.unwrap_err();
        assert_eq!(error, "member count is unequal");
        own[1].peer_urls = vec!["http://127.0.0.1:4".into()];
        let error = match_ids(&mut own, &theirs).await.unwrap_err();
        assert_eq!(
            error,
            "PeerURLs: no match found for existing member (7, [http://127.0.0.1:3]), last resolver \
             error (resolved urls: \"http://127.0.0.1:3\" != \"http://127.0.0.1:4\")"
        );
    }

    #[test]
    fn releases_without_all_checks_are_told_from_those_with_them() {
        for (version, lacks) in [
            ("3.4.40", true),
            ("3.5.30", true),
            ("3.5.31", false),
            ("3.6.10", true),
            ("3.6.11", false),
            ("3.7.0", false),
            ("3.8.0-alpha.0", false),
        ] {
            assert_eq!(lacks_checks(version), lacks, "{version}");
        }
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
}
