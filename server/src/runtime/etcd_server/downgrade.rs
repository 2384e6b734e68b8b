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

/// Major and minor number of `X.Y` or `X.Y.Z`.
fn parse(version: &str) -> Option<(u64, u64)> {
    let parts: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    match parts?.as_slice() {
        [major, minor] | [major, minor, _] => Some((*major, *minor)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_two_parts_or_three() {
        assert_eq!(parse("3.6"), Some((3, 6)));
        assert_eq!(parse("3.6.0"), Some((3, 6)));
        for version in ["", "x", "3", "3.6.0.1", "3.x"] {
            assert_eq!(parse(version), None);
        }
    }
}
