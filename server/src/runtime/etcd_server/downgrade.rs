//! Requests to lower the cluster version to the previous one, so that members of that version may
//! join. The leader then changes the version, in `lifecycle/versions.rs`.

use etcd_api::etcdserverpb::downgrade_request::DowngradeAction;
use etcd_api::membershippb;

use super::EtcdServer;
use crate::basics::error::Error;
use crate::config::CLUSTER_VERSION;
use crate::request::Request;
use crate::state::{self, Downgrade};

impl EtcdServer {
    /// Returns the cluster version without its patch number.
    pub(crate) async fn downgrade(
        &self,
        action: DowngradeAction,
        version: &str,
    ) -> Result<String, Error> {
        match action {
            DowngradeAction::Validate => {
                self.check_target(version).await?;
            }
            DowngradeAction::Enable => {
                let (major, minor) = self.check_target(version).await?;
                self.set_downgrade(true, format!("{major}.{minor}.0"))
                    .await?;
            }
            DowngradeAction::Cancel => {
                // Without a downgrade the caller has what it wants already, as in etcd.
                if let Err(error) = self.cancel_downgrade().await {
                    tracing::warn!(%error, "failed to cancel downgrade");
                }
            }
        }
        let version = self.cluster_version()?;
        let version = version.as_deref().unwrap_or(CLUSTER_VERSION);
        Ok(version
            .rsplit_once('.')
            .map_or(version, |(short, _)| short)
            .to_owned())
    }

    pub(crate) fn downgrade_info(&self) -> Result<Downgrade, Error> {
        state::downgrade(&self.view())
    }

    async fn cancel_downgrade(&self) -> Result<(), Error> {
        self.linearizable().await?;
        if self.downgrade_info()?.enabled {
            self.set_downgrade(false, String::new()).await
        } else {
            let text = "etcdserver: no inflight downgrade job".to_owned();
            Err(Error::Other(tonic::Code::FailedPrecondition, text))
        }
    }

    async fn check_target(&self, version: &str) -> Result<(u64, u64), Error> {
        let target = parse(version).ok_or(Error::WrongDowngradeVersion)?;
        if self.cluster_version()?.is_none() {
            return Err(Error::NoClusterVersion);
        }
        // A downgrade that another member enabled must be visible here.
        self.linearizable().await?;
        let current = self.cluster_version()?;
        let current = current.as_deref().and_then(parse).unwrap_or_default();
        if current.1 == 0 || target != (current.0, current.1 - 1) {
            return Err(Error::BadDowngradeTarget);
        }
        if self.downgrade_info()?.enabled {
            Err(Error::DowngradeInProgress)
        } else {
            Ok(target)
        }
    }

    async fn set_downgrade(&self, enabled: bool, ver: String) -> Result<(), Error> {
        let set = membershippb::DowngradeInfoSetRequest { enabled, ver };
        self.propose(Request::DowngradeInfoSet(set)).await.map(drop)
    }
}

/// Major and minor number of a semantic version, whose patch number may be left out if nothing
/// follows it.
fn parse(version: &str) -> Option<(u64, u64)> {
    semantic(version).or_else(|| semantic(&format!("{version}.0")))
}

/// Major and minor number of `X.Y.Z`, `X.Y.Z-PRERELEASE`, `X.Y.Z+BUILD` or all of them. The rules
/// are those of etcd's library: a part may be empty, and numbers may begin with zeros.
fn semantic(version: &str) -> Option<(u64, u64)> {
    let (version, build) = version.split_once('+').unwrap_or((version, ""));
    let (numbers, prerelease) = version.split_once('-').unwrap_or((version, ""));
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if ![build, prerelease]
        .iter()
        .all(|name| name.bytes().all(is_of_name))
    {
        return None;
    }
    // `parse` would accept a sign, but the first one was split off with what follows it.
    let numbers: Option<Vec<i64>> = numbers.split('.').map(|part| part.parse().ok()).collect();
    match numbers?.as_slice() {
        [major, minor, _] => Some((major.unsigned_abs(), minor.unsigned_abs())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic_or_lack_the_patch_number() {
        for version in [
            "3.6",
            "3.6.0",
            "3.06.7",
            "3.6.0-rc.1",
            "3.6.0-",
            "3.6.0+build.5",
            "3.6.0-rc-1+build-5",
        ] {
            assert_eq!(parse(version), Some((3, 6)), "{version}");
        }
        for version in [
            "",
            "x",
            "3",
            "3.x",
            "3.6.0.1",
            "3.6.",
            "3.6-rc.1",
            "3.6+5",
            "3.6.0-rc_1",
            "3.6.0+a+b",
            "+3.6",
            "3.+6",
            "-3.6",
            "3.-6.0",
            "3.9223372036854775808",
        ] {
            assert_eq!(parse(version), None, "{version}");
        }
    }
}
