//! Voters and learners, and the effect of one committed change. A change takes effect when it is
//! applied, as in etcd. One at a time, so that the majorities before and after it overlap.

pub(crate) mod quorum;

use crate::message::{ConfChange, ConfChangeKind, ConfState, NodeId};

/// Invariant: both are sorted and without duplicates; no id is in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Membership {
    voters: Vec<NodeId>,
    learners: Vec<NodeId>,
}

impl Membership {
    pub(crate) fn new(voters: &[NodeId], learners: &[NodeId]) -> Membership {
        let mut membership = Membership::default();
        for id in voters {
            insert(&mut membership.voters, *id);
        }
        for id in learners {
            assert!(
                !membership.is_voter(*id),
                "member {id} both votes and learns"
            );
            insert(&mut membership.learners, *id);
        }
        membership
    }

    pub(crate) fn voters(&self) -> &[NodeId] {
        &self.voters
    }

    pub(crate) fn is_voter(&self, id: NodeId) -> bool {
        self.voters.binary_search(&id).is_ok()
    }

    pub(crate) fn is_learner(&self, id: NodeId) -> bool {
        self.learners.binary_search(&id).is_ok()
    }

    pub(crate) fn contains(&self, id: NodeId) -> bool {
        self.is_voter(id) || self.is_learner(id)
    }

    /// All members except `id`.
    pub(crate) fn others(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let all = self.voters.iter().chain(&self.learners).copied();
        all.filter(move |other| *other != id)
    }

    pub(crate) fn apply(&mut self, change: &ConfChange) {
        let id = change.node;
        match change.kind {
            ConfChangeKind::UpdateNode => return,
            ConfChangeKind::AddNode => {
                remove(&mut self.learners, id);
                insert(&mut self.voters, id);
            }
            ConfChangeKind::AddLearnerNode => {
                remove(&mut self.voters, id);
                insert(&mut self.learners, id);
            }
            ConfChangeKind::RemoveNode => {
                remove(&mut self.voters, id);
                remove(&mut self.learners, id);
            }
        }
        assert!(
            !self.voters.is_empty(),
            "the change to member {id} leaves nobody to vote"
        );
    }

    pub(crate) fn conf_state(&self) -> ConfState {
        ConfState {
            voters: self.voters.clone(),
            learners: self.learners.clone(),
            ..ConfState::default()
        }
    }
}

fn insert(ids: &mut Vec<NodeId>, id: NodeId) {
    if let Err(at) = ids.binary_search(&id) {
        ids.insert(at, id);
    }
}

fn remove(ids: &mut Vec<NodeId>, id: NodeId) {
    if let Ok(at) = ids.binary_search(&id) {
        ids.remove(at);
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

    #[test]
    fn a_learner_added_as_voter_is_promoted() {
        let mut m = Membership::new(&[1], &[2]);
        m.apply(&change(ConfChangeKind::AddNode, 2));
        assert_eq!(m, Membership::new(&[1, 2], &[]));
    }

    #[test]
    fn a_voter_added_as_learner_is_demoted() {
        let mut m = Membership::new(&[3, 1, 2], &[]);
        m.apply(&change(ConfChangeKind::AddLearnerNode, 1));
        assert_eq!(m, Membership::new(&[2, 3], &[1]));
    }

    #[test]
    fn changes_repeated_change_nothing_more() {
        let mut m = Membership::new(&[1], &[]);
        for _ in 0..2 {
            m.apply(&change(ConfChangeKind::AddNode, 1));
            m.apply(&change(ConfChangeKind::UpdateNode, 9));
            m.apply(&change(ConfChangeKind::RemoveNode, 9));
        }
        assert_eq!(m, Membership::new(&[1], &[]));
        assert_eq!(m.others(1).count(), 0);
    }
}
