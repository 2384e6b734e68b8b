//! What loops know: the objects that informers told of, and what the loops themselves wrote.
//!
//! An answer to an own write goes in at once, so a loop never decides on a state from before its
//! own last write. This takes the place of Kubernetes' expectations: a watch that lags behind is
//! recognised by the versions of its objects and cannot bring an older one back.

mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api_client::Notice;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use machinery::object::{self, Object};
use machinery::schema::{self, Kind};
use machinery::time::Timestamp;
use serde::de::DeserializeOwned;

use crate::graph::Graph;
pub(crate) use store::{Diff, Gone, Known, Store};

/// Namespace and name; the namespace of cluster objects is empty.
pub(crate) type Key = (String, String);

/// What an informer's notices are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feed {
    /// Whole objects that are also all there are of their kind.
    Both,
    /// The metadata of all objects of the kind.
    Graph,
    /// Whole objects, some of their kind.
    Store,
}

/// Declares the kinds that loops read whole: a store for each, and a change for each.
macro_rules! caches {
    ($($field:ident: $type:ident,)*) => {
        /// Everything the loops know.
        #[derive(Default)]
        pub(crate) struct Caches {
            $(pub(crate) $field: Store<$type>,)*
            /// The metadata of every object that can be deleted.
            pub(crate) graph: Graph,
        }

        /// A change to something the loops know.
        #[expect(dead_code, reason = "leases change too often to wake anybody")]
        pub(crate) enum Changed {
            $($type(Diff<$type>),)*
        }

        impl Caches {
            /// Whether loops read objects of this kind whole.
            pub(crate) fn reads(kind: &'static Kind) -> bool {
                $(std::ptr::eq(kind, kind_of::<$type>()))||*
            }

            fn put(&mut self, kind: &'static Kind, object: Object, now: Timestamp) -> Vec<Changed> {
                $(if std::ptr::eq(kind, kind_of::<$type>()) {
                    let diff = read(object).and_then(|object| self.$field.put(object, now));
                    return diff.map(Changed::$type).into_iter().collect();
                })*
                Vec::new()
            }

            fn take(
                &mut self,
                kind: &'static Kind,
                object: &Object,
                now: Timestamp,
            ) -> Vec<Changed> {
                $(if std::ptr::eq(kind, kind_of::<$type>()) {
                    let diff = self.$field.take(object, now);
                    return diff.map(Changed::$type).into_iter().collect();
                })*
                Vec::new()
            }

            fn replace(
                &mut self,
                kind: &'static Kind,
                objects: Vec<Object>,
                now: Timestamp,
            ) -> Vec<Changed> {
                $(if std::ptr::eq(kind, kind_of::<$type>()) {
                    let objects = objects.into_iter().filter_map(read).collect();
                    let diffs = self.$field.replace(objects, now);
                    return diffs.into_iter().map(Changed::$type).collect();
                })*
                Vec::new()
            }
        }
    };
}

caches! {
    budgets: PodDisruptionBudget,
    config_maps: ConfigMap,
    deployments: Deployment,
    endpoint_slices: EndpointSlice,
    leases: Lease,
    namespaces: Namespace,
    nodes: Node,
    pods: Pod,
    replica_sets: ReplicaSet,
    service_accounts: ServiceAccount,
    services: Service,
}

/// What a notice changed: whole objects, and the places of the graph to look at again.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) changed: Vec<Changed>,
    pub(crate) touched: Vec<String>,
}

impl Caches {
    /// Takes in what an informer tells.
    pub(crate) fn observe(
        &mut self,
        kind: &'static Kind,
        feed: Feed,
        notice: Notice,
        now: Timestamp,
    ) -> Effects {
        let mut effects = Effects::default();
        if feed != Feed::Store {
            effects.touched = match &notice {
                Notice::Replaced(objects) => self.graph.replace(kind, objects),
                Notice::Applied(object) => self.graph.put(kind, object),
                Notice::Deleted(object) => self.graph.take(object),
            };
        }
        if feed != Feed::Graph {
            effects.changed = match notice {
                Notice::Replaced(objects) => self.replace(kind, objects, now),
                Notice::Applied(object) => self.put(kind, object, now),
                Notice::Deleted(object) => self.take(kind, &object, now),
            };
        }
        effects
    }

    /// Takes in what became of an object by an own write.
    pub(crate) fn wrote(&mut self, kind: &'static Kind, object: Object, now: Timestamp) -> Effects {
        if is_gone(&object) {
            return self.deleted(kind, &object, now);
        }
        Effects {
            touched: self.graph.put(kind, &object),
            changed: self.put(kind, object, now),
        }
    }

    /// Takes in that an own call deleted an object.
    pub(crate) fn deleted(
        &mut self,
        kind: &'static Kind,
        object: &Object,
        now: Timestamp,
    ) -> Effects {
        Effects {
            touched: self.graph.take(object),
            changed: self.take(kind, object, now),
        }
    }
}

/// The kind of a typed object.
pub(crate) fn kind_of<T: k8s_openapi::Resource>() -> &'static Kind {
    let found = schema::kind(T::GROUP, T::VERSION, T::KIND);
    found.expect("the table has every kind that loops know")
}

/// A typed object as JSON.
pub(crate) fn to_object<T: Known>(object: &T) -> Object {
    let kind = kind_of::<T>();
    let mut json = serde_json::to_value(object).unwrap_or_default();
    object::set_type(&mut json, &kind.api_version(), kind.kind);
    json
}

/// An object that cannot be read is as good as unknown: the apiserver keeps no such object.
fn read<T: DeserializeOwned>(object: Object) -> Option<T> {
    let what = format!("{}/{}", object::namespace(&object), object::name(&object));
    match serde_json::from_value(object) {
        Ok(read) => Some(read),
        Err(error) => {
            tracing::warn!(%what, %error, "an object is not what its kind says");
            None
        }
    }
}

/// Whether the answer to a write shows an object that nothing holds any longer.
pub(crate) fn is_gone(object: &Object) -> bool {
    object::is_deleting(object)
        && object::finalizers(object).next().is_none()
        && object::deletion_grace_seconds(object).unwrap_or(0) == 0
        && object::items(object, &["spec", "finalizers"]).is_empty()
}

/// A shared object out of a store.
pub(crate) type Shared<T> = Arc<T>;
