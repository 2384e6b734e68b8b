//! Discovery by another cluster. Its key `/_etcd/registry/TOKEN/_config/size` says how many members
//! found the cluster; each registers under `members/`, and waits until all have.

use std::time::Duration;

use etcd_api::mvccpb::KeyValue;

use super::service::{Members, Service};
use crate::config::{Config, FoundingMember, Registry};
use crate::member::data_dir;

const PREFIX: &str = "/_etcd/registry";

const SIZE_NOT_FOUND: &str = "discovery: size key not found";
const BAD_SIZE: &str = "discovery: size key is bad";
const FULL: &str = "discovery: cluster is full";
const BAD_URL: &str = "discovery: invalid peer URL";

/// The pause before attempt n is 2 to the power of n seconds, up to this n.
const DOUBLINGS_MAX: u32 = 8;

/// Pause before the members are listed again, after a watch has ended.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Registers this member, and waits for the other founders. Returns all of them in the form of
/// `--initial-cluster`.
pub(super) async fn join(config: &Config, registry: &Registry) -> Result<String, String> {
    let own = data_dir::founders(config);
    let id = own.first().map_or(0, |member| member.id);
    let mut joining = Joining {
        service: Service::connect(registry).await?,
        own_key: format!("{}/{id:x}", members_key(&registry.token)),
        token: &registry.token,
        failures: 0,
    };
    let joined = joining.run(&config.as_founder()).await;
    let (token, endpoints) = (&registry.token, registry.endpoints.join(","));
    match &joined {
        Ok(cluster) => tracing::info!(
            "discovery-token" = token,
            "discovery-endpoints" = endpoints,
            cluster,
            "discovery joined cluster successfully"
        ),
        Err(error) => tracing::error!(
            "discovery-token" = token,
            "discovery-endpoints" = endpoints,
            cluster = "",
            error,
            "discovery failed to join cluster"
        ),
    }
    joined
}

fn members_key(token: &str) -> String {
    format!("{PREFIX}/{token}/members")
}

/// A member that registers.
struct Joining<'a> {
    service: Service,
    own_key: String,
    token: &'a str,
    /// Requests that failed one after the other.
    failures: u32,
}

/// The registered members, in the order in which they came.
#[derive(Debug, Default)]
struct Registered {
    size: usize,
    members: Vec<Registration>,
    /// The revision at which they were listed.
    revision: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Registration {
    key: String,
    /// In the form of `--initial-cluster`.
    urls: String,
    created: i64,
}

impl Joining<'_> {
    async fn run(&mut self, urls: &str) -> Result<String, String> {
        self.list_unless_full().await?;
        self.register(urls).await;
        loop {
            let mut registered = self.list_unless_full().await?;
            if !registered.is_complete() {
                self.wait(&mut registered).await;
            }
            if registered.is_complete() {
                return registered.initial_cluster();
            }
            tokio::time::sleep(WATCH_PAUSE).await;
        }
    }

    /// Lists the registered members; an error if this member cannot be one of the founders any more.
    async fn list_unless_full(&mut self) -> Result<Registered, String> {
        let registered = loop {
            match self.list().await? {
                Some(registered) => break registered,
                None => self.back_off("cluster status check").await,
            }
        };
        self.failures = 0;
        if registered.has_room_for(&self.own_key) {
            Ok(registered)
        } else {
            Err(FULL.to_owned())
        }
    }

    /// `None` if the service does not answer; an error if it does not know the cluster.
    async fn list(&mut self) -> Result<Option<Registered>, String> {
        let key = format!("{PREFIX}/{}/_config/size", self.token);
        let found = match self.service.get(&key).await {
            Ok(found) => found,
            Err(error) => {
                let error = error.message();
                tracing::warn!(
                    "clusterSizeKey" = key,
                    error,
                    "failed to get cluster size from discovery service"
                );
                return Ok(None);
            }
        };
        let size = found.first().ok_or(SIZE_NOT_FOUND)?;
        let size = parse_size(&size.value).ok_or(BAD_SIZE)?;
        let prefix = members_key(self.token);
        match self.service.list(&prefix).await {
            Ok((found, revision)) => {
                let mut registered = Registered {
                    size,
                    revision,
                    ..Registered::default()
                };
                found.iter().for_each(|found| registered.add(found));
                Ok(Some(registered))
            }
            Err(error) => {
                let error = error.message();
                tracing::warn!(
                    "membersKeyPrefix" = prefix,
                    error,
                    "failed to get cluster members from discovery service"
                );
                Ok(None)
            }
        }
    }

    async fn register(&mut self, urls: &str) {
        let key = self.own_key.clone();
        while let Err(error) = self.service.put(&key, urls).await {
            let error = error.message();
            tracing::warn!(
                "memberKey" = key,
                error,
                "failed to register members itself to the discovery service"
            );
            self.back_off("register member itself").await;
        }
        self.failures = 0;
        tracing::info!(
            "memberKey" = key,
            "memberInfo" = urls,
            "register member itself successfully"
        );
    }

    /// Waits until all have registered, or until the watch ends.
    async fn wait(&mut self, registered: &mut Registered) {
        tracing::info!(
            "clusterSize" = registered.size,
            "found-peers" = registered.members.len(),
            "waiting for peers from discovery service"
        );
        let prefix = members_key(self.token);
        let watched = self.service.watch(&prefix, registered.revision + 1).await;
        let watched = match watched {
            Ok(watch) => follow(watch, registered).await,
            Err(error) => Err(error),
        };
        match watched {
            Ok(()) => tracing::info!(
                "clusterSize" = registered.size,
                "found-peers" = registered.members.len(),
                "found all needed peers from discovery service"
            ),
            Err(error) => tracing::warn!(
                error = error.message(),
                "failed to watch cluster members at the discovery service"
            ),
        }
    }

    async fn back_off(&mut self, step: &str) {
        self.failures = self.failures.saturating_add(1);
        let pause = Duration::from_secs(1 << self.failures.min(DOUBLINGS_MAX));
        tracing::warn!(
            reason = step,
            backoff = go_text::duration(pause),
            "retry connecting to discovery service"
        );
        tokio::time::sleep(pause).await;
    }
}

async fn follow(mut watch: Members, registered: &mut Registered) -> Result<(), tonic::Status> {
    while !registered.is_complete() {
        for member in watch.next().await? {
            registered.add(&member);
        }
    }
    Ok(())
}

fn parse_size(value: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(value).ok()?;
    text.parse().ok().filter(|size| *size > 0)
}

impl Registered {
    fn is_complete(&self) -> bool {
        self.members.len() >= self.size
    }

    /// The founders: those that came first.
    fn founders(&self) -> impl Iterator<Item = &Registration> {
        self.members.iter().take(self.size)
    }

    fn has_room_for(&self, key: &str) -> bool {
        !self.is_complete() || self.founders().any(|member| member.key == key)
    }

    fn add(&mut self, found: &KeyValue) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let member = Registration {
            key: text(&found.key),
            urls: text(&found.value),
            created: found.create_revision,
        };
        let (key, urls) = (member.key.clone(), member.urls.clone());
        if !urls.contains('=') {
            tracing::warn!(
                "memberKey" = key,
                "memberInfo" = urls,
                "invalid peer info returned from discovery service"
            );
        } else if self.members.iter().any(|known| known.key == key) {
            tracing::warn!(
                "memberKey" = key,
                "memberInfo" = urls,
                "found duplicate peer from discovery service"
            );
        } else {
            tracing::info!(
                "memberKey" = key,
                "memberInfo" = urls,
                "found peer from discovery service"
            );
            self.members.push(member);
            self.members.sort_by_key(|member| member.created);
        }
    }

    fn initial_cluster(&self) -> Result<String, String> {
        let urls: Vec<&str> = self.founders().map(|member| member.urls.as_str()).collect();
        let urls = urls.join(",");
        match FoundingMember::parse_list(&urls) {
            Ok(_) => Ok(urls),
            Err(_) => Err(BAD_URL.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members registered under these keys at these revisions, in a cluster of two.
    fn registered(members: &[(&str, &str, i64)]) -> Registered {
        let mut registered = Registered {
            size: 2,
            ..Registered::default()
        };
        for (key, value, created) in members {
            registered.add(&KeyValue {
                key: (*key).to_owned().into(),
                value: (*value).to_owned().into(),
                create_revision: *created,
                ..KeyValue::default()
            });
        }
        registered
    }

    #[test]
    fn those_that_came_first_found_the_cluster() {
        let all = registered(&[
            ("/c", "c=http://c:1", 9),
            ("/b", "b=http://b:1,b=http://b:2", 7),
            ("/a", "a=http://a:1", 8),
        ]);
        let founders = "b=http://b:1,b=http://b:2,a=http://a:1";
        assert_eq!(all.initial_cluster().unwrap(), founders);
        assert!(all.has_room_for("/a") && !all.has_room_for("/c") && !all.has_room_for("/d"));
    }

    #[test]
    fn what_is_no_member_is_left_out() {
        let mut some = registered(&[
            ("/a", "a=http://a:1", 3),
            ("/a", "a=http://a:2", 4),
            ("/b", "nothing", 5),
        ]);
        assert!(!some.is_complete() && some.has_room_for("/x"));
        assert_eq!(some.initial_cluster().unwrap(), "a=http://a:1");
        some.members[0].urls = "a=ftp://a".to_owned();
        assert_eq!(some.initial_cluster().unwrap_err(), BAD_URL);
    }

    #[test]
    fn a_size_is_a_number_above_zero() {
        assert_eq!(parse_size(b"3"), Some(3));
        for bad in [&b"0"[..], b"-1", b"", b"three", b"\xff"] {
            assert_eq!(parse_size(bad), None, "{bad:?}");
        }
    }
}
