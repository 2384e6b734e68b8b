//! Who votes and who learns is what the log says: a member counts majorities of exactly those
//! that its state has, and a change that was acknowledged is never lost.

use std::collections::BTreeMap;

use raft::{ConfChange, ConfChangeKind, ConfState, NodeId};
use server::state::MemberInfo;

use super::Verdict;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Learns,
    Votes,
    Gone,
}

#[derive(Debug, Default)]
pub struct Membership {
    /// The least that must be true of a member, as clients were told. It only goes one way: who
    /// was removed never comes back, who votes never learns again.
    told: BTreeMap<NodeId, Standing>,
    changes: usize,
}

impl Membership {
    /// `host` counts majorities by `conf`, and its state has `members`, both at the same index.
    pub fn counts(&self, host: usize, conf: &ConfState, members: &[MemberInfo]) -> Verdict {
        let of_kind = |learners: bool| -> Vec<NodeId> {
            let of_kind = members.iter().filter(|m| m.is_learner == learners);
            of_kind.map(|member| member.id).collect()
        };
        if conf.voters == of_kind(false) && conf.learners == of_kind(true) {
            return Ok(());
        }
        Err(format!(
            "host {host} counts {conf:x?}, where its state has {members:x?}"
        ))
    }

    /// A client was told that this is done.
    pub fn acknowledged(&mut self, change: &ConfChange) {
        self.changes += 1;
        let standing = match change.kind {
            ConfChangeKind::AddLearnerNode => Standing::Learns,
            ConfChangeKind::AddNode => Standing::Votes,
            ConfChangeKind::RemoveNode => Standing::Gone,
            ConfChangeKind::UpdateNode => return,
        };
        let known = self.told.entry(change.node).or_insert(standing);
        *known = standing.max(*known);
    }

    /// What a member shows when the cluster is at rest.
    pub fn at_rest(&self, host: usize, members: &[MemberInfo], removed: &[NodeId]) -> Verdict {
        for (id, told) in &self.told {
            let known = members.iter().find(|member| member.id == *id);
            let is = match known {
                Some(member) if member.is_learner => Some(Standing::Learns),
                Some(_) => Some(Standing::Votes),
                None => removed.contains(id).then_some(Standing::Gone),
            };
            if is < Some(*told) {
                return Err(format!(
                    "host {host} has {is:?} of member {id:x}, which clients were told to be {told:?}"
                ));
            }
        }
        Ok(())
    }

    pub fn changes(&self) -> usize {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ConfChangeKind, node: NodeId) -> ConfChange {
        ConfChange {
            kind,
            node,
            ..ConfChange::default()
        }
    }

    fn member(id: NodeId, is_learner: bool) -> MemberInfo {
        MemberInfo {
            id,
            is_learner,
            ..MemberInfo::default()
        }
    }

    #[test]
    fn a_change_that_was_acknowledged_and_is_lost_is_noticed() {
        let mut told = Membership::default();
        told.acknowledged(&change(ConfChangeKind::AddLearnerNode, 7));
        assert!(told.at_rest(0, &[], &[]).is_err());
        assert!(told.at_rest(0, &[member(7, true)], &[]).is_ok());
        assert!(told.at_rest(0, &[], &[7]).is_ok());
        told.acknowledged(&change(ConfChangeKind::AddNode, 7));
        assert!(told.at_rest(0, &[member(7, true)], &[]).is_err());
        told.acknowledged(&change(ConfChangeKind::RemoveNode, 7));
        assert!(told.at_rest(0, &[member(7, false)], &[]).is_err());
    }
}
