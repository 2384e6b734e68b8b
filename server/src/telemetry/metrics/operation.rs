//! Kinds of requests, as etcd names them in its metrics, with two histograms each.

use super::text::Family;
use super::value::{Buckets, Histogram, Unit};
use crate::request::{AuthRequest, Request};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Operation {
    Range,
    Put,
    DeleteRange,
    Txn,
    ReadonlyTxn,
    Compaction,
    LeaseGrant,
    LeaseRevoke,
    LeaseCheckpoint,
    Alarm,
    ClusterVersionSet,
    ClusterMemberAttrSet,
    DowngradeInfoSet,
    Authenticate,
    AuthEnable,
    AuthDisable,
    AuthUserAdd,
    AuthUserDelete,
    AuthUserChangePassword,
    AuthUserGrantRole,
    AuthUserRevokeRole,
    AuthRoleAdd,
    AuthRoleGrantPermission,
    AuthRoleRevokePermission,
    AuthRoleDelete,
}

const ALL: [(Operation, &str); 25] = [
    (Operation::Range, "Range"),
    (Operation::Put, "Put"),
    (Operation::DeleteRange, "DeleteRange"),
    (Operation::Txn, "Txn"),
    (Operation::ReadonlyTxn, "ReadonlyTxn"),
    (Operation::Compaction, "Compaction"),
    (Operation::LeaseGrant, "LeaseGrant"),
    (Operation::LeaseRevoke, "LeaseRevoke"),
    (Operation::LeaseCheckpoint, "LeaseCheckpoint"),
    (Operation::Alarm, "Alarm"),
    (Operation::ClusterVersionSet, "ClusterVersionSet"),
    (Operation::ClusterMemberAttrSet, "ClusterMemberAttrSet"),
    (Operation::DowngradeInfoSet, "DowngradeInfoSet"),
    (Operation::Authenticate, "Authenticate"),
    (Operation::AuthEnable, "AuthEnable"),
    (Operation::AuthDisable, "AuthDisable"),
    (Operation::AuthUserAdd, "AuthUserAdd"),
    (Operation::AuthUserDelete, "AuthUserDelete"),
    (Operation::AuthUserChangePassword, "AuthUserChangePassword"),
    (Operation::AuthUserGrantRole, "AuthUserGrantRole"),
    (Operation::AuthUserRevokeRole, "AuthUserRevokeRole"),
    (Operation::AuthRoleAdd, "AuthRoleAdd"),
    (
        Operation::AuthRoleGrantPermission,
        "AuthRoleGrantPermission",
    ),
    (
        Operation::AuthRoleRevokePermission,
        "AuthRoleRevokePermission",
    ),
    (Operation::AuthRoleDelete, "AuthRoleDelete"),
];

impl Operation {
    /// The operation that the applier runs for an entry; `None` if etcd has no name for it.
    pub fn of(request: &Request) -> Option<Operation> {
        Some(match request {
            Request::Put(_) => Operation::Put,
            Request::DeleteRange(_) => Operation::DeleteRange,
            Request::Txn(_) => Operation::Txn,
            Request::Compaction(_) => Operation::Compaction,
            Request::LeaseGrant(_) => Operation::LeaseGrant,
            Request::LeaseRevoke(_) => Operation::LeaseRevoke,
            Request::LeaseCheckpoint(_) => Operation::LeaseCheckpoint,
            Request::Alarm(_) => Operation::Alarm,
            Request::ClusterVersionSet(_) => Operation::ClusterVersionSet,
            Request::ClusterMemberAttrSet(_) => Operation::ClusterMemberAttrSet,
            Request::DowngradeInfoSet(_) => Operation::DowngradeInfoSet,
            Request::Authenticate(_) => Operation::Authenticate,
            Request::Auth(request) => Operation::of_auth(request),
            Request::Read => return None,
        })
    }

    fn of_auth(request: &AuthRequest) -> Operation {
        match request {
            AuthRequest::Enable => Operation::AuthEnable,
            AuthRequest::Disable => Operation::AuthDisable,
            AuthRequest::UserAdd(_) => Operation::AuthUserAdd,
            AuthRequest::UserDelete(_) => Operation::AuthUserDelete,
            AuthRequest::UserChangePassword(_) => Operation::AuthUserChangePassword,
            AuthRequest::UserGrantRole(_) => Operation::AuthUserGrantRole,
            AuthRequest::UserRevokeRole(_) => Operation::AuthUserRevokeRole,
            AuthRequest::RoleAdd(_) => Operation::AuthRoleAdd,
            AuthRequest::RoleDelete(_) => Operation::AuthRoleDelete,
            AuthRequest::RoleGrantPermission(_) => Operation::AuthRoleGrantPermission,
            AuthRequest::RoleRevokePermission(_) => Operation::AuthRoleRevokePermission,
        }
    }
}

impl Operation {
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }
}

/// A histogram per operation and outcome.
#[derive(Debug)]
pub(crate) struct Durations(Box<[[Histogram; 2]]>);

impl Durations {
    pub(super) fn new(buckets: Buckets) -> Durations {
        let histogram = || Histogram::new(Unit::Seconds, buckets);
        Durations(ALL.iter().map(|_| [histogram(), histogram()]).collect())
    }

    pub(crate) fn of(&self, operation: Operation, success: bool) -> &Histogram {
        &self.0[operation as usize][usize::from(success)]
    }

    /// Writes the operations that occurred. `label` names the operation; `more` labels follow it.
    pub(super) fn write(&self, label: &str, more: &[(&str, &str)], family: &mut Family<'_>) {
        for (operation, name) in ALL {
            for (success, text) in [(false, "false"), (true, "true")] {
                let histogram = self.of(operation, success);
                if histogram.read().0.last().is_none_or(|bucket| bucket.1 == 0) {
                    continue;
                }
                let mut labels = vec![(label, name), ("success", text)];
                labels.extend_from_slice(more);
                labels.sort();
                family.histogram(&labels, histogram);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_stand_in_their_own_order() {
        assert!(
            ALL.iter()
                .enumerate()
                .all(|(index, (operation, _))| *operation as usize == index)
        );
    }
}
