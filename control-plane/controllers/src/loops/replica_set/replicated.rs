//! The kinds whose objects keep a number of equal pods. As in Kubernetes, a replication controller
//! is a replica set in another form.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    PodTemplateSpec, ReplicationController, ReplicationControllerCondition,
    ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as Labels;
use machinery::selector::LabelSelector;

use crate::cache::{Caches, Changed, Diff, Store};
use crate::known::Known;
use crate::meta;

/// A kind whose objects keep a number of equal pods.
pub(crate) trait Replicated: Known {
    /// The objects of the kind.
    fn all(caches: &Caches) -> &Store<Self>;

    /// The change, if it is one of this kind.
    fn changed(changed: &Changed) -> Option<&Diff<Self>>;

    /// Selects the pods; `None` if it would select nothing.
    fn selector(&self) -> Option<LabelSelector>;

    /// The number of pods that there should be.
    fn wanted(&self) -> i64;

    /// How long a pod must be ready to be available.
    fn min_ready_seconds(&self) -> i32;

    /// The template of the pods.
    fn template(&self) -> Option<&PodTemplateSpec>;

    /// The status, in the form that replica sets have.
    fn counts(&self) -> ReplicaSetStatus;

    /// A status without what the kind does not count.
    fn counted(counts: ReplicaSetStatus) -> ReplicaSetStatus {
        counts
    }

    /// The object with this status, without what its kind does not count.
    fn with_counts(&self, counts: ReplicaSetStatus) -> Self;
}

impl Replicated for ReplicaSet {
    fn all(caches: &Caches) -> &Store<ReplicaSet> {
        &caches.replica_sets
    }

    fn changed(changed: &Changed) -> Option<&Diff<ReplicaSet>> {
        match changed {
            Changed::ReplicaSet(diff) => Some(diff),
            _ => None,
        }
    }

    fn selector(&self) -> Option<LabelSelector> {
        meta::selector(&self.spec.as_ref()?.selector)
    }

    fn wanted(&self) -> i64 {
        let replicas = self.spec.as_ref().and_then(|spec| spec.replicas);
        i64::from(replicas.unwrap_or(1))
    }

    fn min_ready_seconds(&self) -> i32 {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn counts(&self) -> ReplicaSetStatus {
        self.status.clone().unwrap_or_default()
    }

    fn with_counts(&self, counts: ReplicaSetStatus) -> ReplicaSet {
        ReplicaSet {
            status: Some(counts),
            ..self.clone()
        }
    }
}

impl Replicated for ReplicationController {
    fn all(caches: &Caches) -> &Store<ReplicationController> {
        &caches.replication_controllers
    }

    fn changed(changed: &Changed) -> Option<&Diff<ReplicationController>> {
        match changed {
            Changed::ReplicationController(diff) => Some(diff),
            _ => None,
        }
    }

    fn selector(&self) -> Option<LabelSelector> {
        meta::selector(&Labels {
            match_labels: self.spec.as_ref()?.selector.clone(),
            match_expressions: None,
        })
    }

    fn wanted(&self) -> i64 {
        let replicas = self.spec.as_ref().and_then(|spec| spec.replicas);
        i64::from(replicas.unwrap_or(1))
    }

    fn min_ready_seconds(&self) -> i32 {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn counts(&self) -> ReplicaSetStatus {
        let status = self.status.clone().unwrap_or_default();
        let conditions = status.conditions.map(|all| {
            let all = all.into_iter().map(|one| ReplicaSetCondition {
                last_transition_time: one.last_transition_time,
                message: one.message,
                reason: one.reason,
                status: one.status,
                type_: one.type_,
            });
            all.collect()
        });
        ReplicaSetStatus {
            available_replicas: status.available_replicas,
            conditions,
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
            terminating_replicas: None,
        }
    }

    fn counted(counts: ReplicaSetStatus) -> ReplicaSetStatus {
        ReplicaSetStatus {
            terminating_replicas: None,
            ..counts
        }
    }

    fn with_counts(&self, counts: ReplicaSetStatus) -> ReplicationController {
        let conditions = counts.conditions.map(|all| {
            let all = all.into_iter().map(|one| ReplicationControllerCondition {
                last_transition_time: one.last_transition_time,
                message: one.message,
                reason: one.reason,
                status: one.status,
                type_: one.type_,
            });
            all.collect()
        });
        let status = ReplicationControllerStatus {
            available_replicas: counts.available_replicas,
            conditions,
            fully_labeled_replicas: counts.fully_labeled_replicas,
            observed_generation: counts.observed_generation,
            ready_replicas: counts.ready_replicas,
            replicas: counts.replicas,
        };
        ReplicationController {
            status: Some(status),
            ..self.clone()
        }
    }
}
