//! What a member asks its peers before it starts: the members, if it joins a running cluster; and
//! whether the peers know this member already, if it bootstraps a new cluster.
//!
//! None of this is repeated once there is a log: from then on the log contains the members.

#[cfg(test)]
mod tests;
pub(super) mod version;

use std::collections::HashSet;
use std::time::Duration;

use super::{Dialer, PeerAnswer};
use crate::config::{Config, FoundingMember};
use crate::dns::places::{Lookup, System, is_written_alike, same_place};
use crate::member::data_dir::{self, newcomer};
use crate::state::MemberInfo;
use version::is_compatible;

pub(crate) use version::{minor, versions};

/// Limit for one member to list the members, as in etcd.
const MEMBERS_PATIENCE: Duration = Duration::from_secs(10);
/// The same limit at bootstrap, when no peer needs to answer.
const FOUNDING_PATIENCE: Duration = Duration::from_secs(1);

/// What a running cluster says about this member.
pub(crate) struct Joined {
    pub member_id: u64,
    pub cluster_id: u64,
    /// All members, as listed by one of them.
    pub members: Vec<MemberInfo>,
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
    if let Err(error) = match_ids(&System::start(), &mut own, &members).await {
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
    let members = &config.initial_cluster;
    if !FoundingMember::have_duplicate_url(members) {
        return Ok(());
    }
    let cluster = FoundingMember::list(members);
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
async fn match_ids(
    lookup: &impl Lookup,
    own: &mut [MemberInfo],
    members: &[MemberInfo],
) -> Result<(), String> {
    if own.len() != members.len() {
        return Err("member count is unequal".to_owned());
    }
    let mut ids = vec![None; own.len()];
    for member in members {
        let mut found = None;
        let mut last_error = String::new();
        let mut places: Vec<usize> = (0..own.len()).collect();
        // Those that are written alike come first. The name of a host that is down may be unknown
        // meanwhile, and to look it up for a comparison with others would take all of the time.
        places.sort_by_key(|place| !is_written_alike(&member.peer_urls, &own[*place].peer_urls));
        for place in places {
            match same_place(lookup, &member.peer_urls, &own[place].peer_urls).await {
                // One of ours cannot be two of theirs: then another one would have no id.
                Ok(()) if ids[place].is_some() => {}
                Ok(()) => {
                    found = Some(place);
                    break;
                }
                // The last one's is told, as etcd does, be it of one that has an id already.
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
        ids[place] = Some(member.id);
    }
    for (member, id) in own.iter_mut().zip(ids.into_iter().flatten()) {
        member.id = id;
    }
    Ok(())
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
