//! What a member asks its peers before it starts: the members, if it joins a running cluster; and
//! whether the peers know this member already, if it bootstraps a new cluster.
//!
//! None of this is repeated once there is a log: from then on the log contains the members.

use std::collections::HashSet;
use std::time::Duration;

use serde::Deserialize;

use super::Dialer;
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
    let fetched = fetch(dialer, &urls, MEMBERS_PATIENCE, true).await;
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
/// has the entries it acknowledged.
pub(crate) async fn refuse_bootstrapped(config: &Config, dialer: &Dialer) -> Result<(), String> {
    refuse_duplicates(config)?;
    let founders = data_dir::founders(config);
    let urls = urls_of_others(&founders, &config.name);
    // The peers may be starting too: ask all of them at once, with a short timeout.
    let asked: Vec<_> = urls
        .into_iter()
        .map(|url| {
            let dialer = dialer.clone();
            tokio::spawn(async move { fetch(&dialer, &[url], FOUNDING_PATIENCE, false).await })
        })
        .collect();
    for answer in asked {
        if let Ok(Ok((_, members))) = answer.await {
            newcomer::may_bootstrap(config, &members)?;
        }
    }
    Ok(())
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
async fn fetch(
    dialer: &Dialer,
    urls: &[String],
    patience: Duration,
    log: bool,
) -> Result<(u64, Vec<MemberInfo>), String> {
    for url in urls {
        match ask(dialer, url, patience).await {
            Ok((_, members)) if members.is_empty() => {
                return Err("failed to get raft cluster member(s) from the given URLs".to_owned());
            }
            Ok(found) => return Ok(found),
            Err(error) if log => {
                let address = format!("{url}/members");
                tracing::warn!(address, error, "failed to get cluster response");
            }
            Err(_) => {}
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
    let answer = answer.map_err(|error| error.to_string())?;
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
        told = true;
    }
    told
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
            && let Ok(versions) = serde_json::from_slice(&answer.body)
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
    use super::*;

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
}
