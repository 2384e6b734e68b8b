//! Whether a member may begin with an empty directory, by what another member says of the cluster.
//!
//! A member that published its client URLs had a log once. With its directory it lost the entries
//! that it acknowledged and its votes: if it began again under its ID, entries could be lost that
//! the others count as stored there, and two members could lead one term.

use super::founders;
use crate::config::Config;
use crate::state::MemberInfo;

/// Whether the member `id` may join the cluster of these `members`. The error names the way out.
pub fn may_join(id: u64, members: &[MemberInfo]) -> Result<(), String> {
    if !has_published(id, members) {
        return Ok(());
    }
    Err(format!(
        "member {id:x} has already been part of this cluster, and its data directory is empty: \
         remove it from the cluster (etcdctl member remove {id:x}), add it anew (etcdctl member \
         add), and start it then"
    ))
}

/// Whether the member that `config` describes may bootstrap a cluster, though another member says
/// that there is one of these `members`. The error has etcd's text.
pub fn may_bootstrap(config: &Config, members: &[MemberInfo]) -> Result<(), String> {
    let founders = founders(config);
    let own = founders.iter().find(|member| member.name == config.name);
    match own {
        Some(own) if has_published(own.id, members) => {
            Err(format!("member {:x} has already been bootstrapped", own.id))
        }
        _ => Ok(()),
    }
}

fn has_published(id: u64, members: &[MemberInfo]) -> bool {
    let mut members = members.iter();
    members.any(|member| member.id == id && !member.client_urls.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let args = [
            "--name=a",
            "--initial-advertise-peer-urls=http://a:2380",
            "--initial-cluster=a=http://a:2380,b=http://b:2380",
        ]
        .map(str::to_owned);
        let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        crate::config::parse(&args, &[], &no_file).unwrap()
    }

    #[test]
    fn only_a_member_that_has_published_itself_is_refused() {
        let config = config();
        let mut members = founders(&config);
        let (own, other) = (members[0].id, members[1].id);
        assert_eq!((&*members[0].name, &*members[1].name), ("a", "b"));
        // The other one has, which says nothing of this one.
        members[1].client_urls = vec!["http://b:2379".to_owned()];
        may_join(own, &members).unwrap();
        may_bootstrap(&config, &members).unwrap();
        let error = may_join(other, &members).unwrap_err();
        assert!(
            error.contains(&format!("etcdctl member remove {other:x}")),
            "{error}"
        );
        members[0].client_urls = vec!["http://a:2379".to_owned()];
        may_join(own, &members).unwrap_err();
        assert_eq!(
            may_bootstrap(&config, &members).unwrap_err(),
            format!("member {own:x} has already been bootstrapped")
        );
    }
}
