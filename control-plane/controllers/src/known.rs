//! The typed kinds that loops know, and how their objects are named.

use std::sync::Arc;

use k8s_openapi::api::{
    apps, autoscaling, batch, certificates, coordination, core, discovery, networking, policy,
    rbac, resource, storage,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use machinery::object::{self, Object};
use machinery::schema::{self, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Namespace and name; the namespace of cluster-scoped objects is empty.
pub(crate) type Key = (String, String);

/// A shared object from a store.
pub(crate) type Shared<T> = Arc<T>;

/// A kind that a store can hold.
pub(crate) trait Known:
    Metadata<Ty = ObjectMeta> + Resource + Clone + Serialize + DeserializeOwned
{
    /// The value of the place index: the node of a pod or an attachment, the volume of a claim, empty
    /// for other kinds.
    fn place(&self) -> &str {
        ""
    }
}

/// The kind of a typed object.
pub(crate) fn kind_of<T: k8s_openapi::Resource>() -> &'static Arc<Kind> {
    let found = schema::kind(T::GROUP, T::VERSION, T::KIND);
    found.expect("the table has every kind that loops know")
}

/// A typed object as JSON.
pub(crate) fn to_object<T: Known>(object: &T) -> Object {
    let kind = kind_of::<T>();
    let mut json = serde_json::to_value(object).unwrap_or_default();
    object::set_type(&mut json, &kind.api_version(), kind.kind());
    json
}

macro_rules! known {
    ($($type:ty),* $(,)?) => { $(impl Known for $type {})* };
}

known![
    apps::v1::ControllerRevision,
    apps::v1::DaemonSet,
    apps::v1::Deployment,
    apps::v1::ReplicaSet,
    apps::v1::StatefulSet,
    autoscaling::v2::HorizontalPodAutoscaler,
    batch::v1::CronJob,
    batch::v1::Job,
    certificates::v1::CertificateSigningRequest,
    coordination::v1::Lease,
    core::v1::ConfigMap,
    core::v1::Endpoints,
    core::v1::Namespace,
    core::v1::Node,
    core::v1::PersistentVolume,
    core::v1::ReplicationController,
    core::v1::ResourceQuota,
    core::v1::Secret,
    core::v1::Service,
    core::v1::ServiceAccount,
    discovery::v1::EndpointSlice,
    networking::v1::IPAddress,
    networking::v1::ServiceCIDR,
    policy::v1::PodDisruptionBudget,
    rbac::v1::ClusterRole,
    resource::v1::ResourceClaim,
    resource::v1::ResourceClaimTemplate,
    storage::v1::CSIDriver,
    storage::v1::StorageClass,
    storage::v1::VolumeAttributesClass,
];

impl Known for core::v1::Pod {
    fn place(&self) -> &str {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.node_name.as_deref())
            .unwrap_or_default()
    }
}

impl Known for storage::v1::VolumeAttachment {
    fn place(&self) -> &str {
        &self.spec.node_name
    }
}

impl Known for core::v1::PersistentVolumeClaim {
    fn place(&self) -> &str {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.volume_name.as_deref())
            .unwrap_or_default()
    }
}
