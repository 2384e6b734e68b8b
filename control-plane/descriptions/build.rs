//! Writes the table of descriptions. They come from the schemas of the crate k8s-openapi, which is
//! used here alone, so that no program contains its schemas.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::{
    admissionregistration, apps, authentication, authorization, autoscaling, batch, certificates,
    coordination, core, discovery, events, flowcontrol, networking, node, policy, rbac, resource,
    scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::{apis::meta, runtime, version};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

/// The descriptions of a type: of its fields by name, and its own under the empty name.
type Descriptions = BTreeMap<String, String>;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut generator = SchemaGenerator::default();
    add_workloads(&mut generator);
    add_cluster(&mut generator);
    add_access(&mut generator);
    add_common(&mut generator);
    let mut table: BTreeMap<String, Descriptions> = generator
        .take_definitions(true)
        .into_iter()
        .map(|(name, schema)| (name, of_type(&schema)))
        .collect();
    split_events(&mut table);
    let folder = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let mut zip = GzEncoder::new(Vec::new(), Compression::best());
    let text = serde_json::to_vec(&table).expect("a map of texts is JSON");
    zip.write_all(&text).expect("memory takes what is written");
    let zipped = zip.finish().expect("memory takes what is written");
    #[expect(
        clippy::disallowed_methods,
        reason = "a build script has no other disk"
    )]
    std::fs::write(Path::new(&folder).join("descriptions.json.gz"), zipped)
        .expect("OUT_DIR can be written");
}

/// Adds a type and all types in it.
fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

fn add_workloads(of: &mut SchemaGenerator) {
    add::<apps::v1::ControllerRevision>(of);
    add::<apps::v1::DaemonSet>(of);
    add::<apps::v1::Deployment>(of);
    add::<apps::v1::ReplicaSet>(of);
    add::<apps::v1::StatefulSet>(of);
    add::<autoscaling::v1::HorizontalPodAutoscaler>(of);
    add::<autoscaling::v1::Scale>(of);
    add::<autoscaling::v2::HorizontalPodAutoscaler>(of);
    add::<batch::v1::CronJob>(of);
    add::<batch::v1::Job>(of);
    add::<core::v1::Binding>(of);
    add::<core::v1::ConfigMap>(of);
    add::<core::v1::Endpoints>(of);
    add::<core::v1::Event>(of);
    add::<core::v1::LimitRange>(of);
    add::<core::v1::PersistentVolumeClaim>(of);
    add::<core::v1::Pod>(of);
    add::<core::v1::PodTemplate>(of);
    add::<core::v1::ReplicationController>(of);
    add::<core::v1::ResourceQuota>(of);
    add::<core::v1::Secret>(of);
    add::<core::v1::Service>(of);
    add::<discovery::v1::EndpointSlice>(of);
    add::<events::v1::Event>(of);
    add::<networking::v1::Ingress>(of);
    add::<networking::v1::NetworkPolicy>(of);
    add::<policy::v1::Eviction>(of);
    add::<policy::v1::PodDisruptionBudget>(of);
    add::<resource::v1::ResourceClaim>(of);
    add::<resource::v1::ResourceClaimTemplate>(of);
}

fn add_cluster(of: &mut SchemaGenerator) {
    add::<apiregistration::v1::APIService>(of);
    add::<apiextensions::v1::CustomResourceDefinition>(of);
    add::<coordination::v1::Lease>(of);
    add::<core::v1::ComponentStatus>(of);
    add::<core::v1::Namespace>(of);
    add::<core::v1::Node>(of);
    add::<core::v1::PersistentVolume>(of);
    add::<flowcontrol::v1::FlowSchema>(of);
    add::<flowcontrol::v1::PriorityLevelConfiguration>(of);
    add::<networking::v1::IngressClass>(of);
    add::<networking::v1::IPAddress>(of);
    add::<networking::v1::ServiceCIDR>(of);
    add::<node::v1::RuntimeClass>(of);
    add::<resource::v1::DeviceClass>(of);
    add::<resource::v1::ResourceSlice>(of);
    add::<scheduling::v1::PriorityClass>(of);
    add::<storage::v1::CSIDriver>(of);
    add::<storage::v1::CSINode>(of);
    add::<storage::v1::CSIStorageCapacity>(of);
    add::<storage::v1::StorageClass>(of);
    add::<storage::v1::VolumeAttachment>(of);
    add::<storage::v1::VolumeAttributesClass>(of);
}

fn add_access(of: &mut SchemaGenerator) {
    add::<admissionregistration::v1::MutatingAdmissionPolicy>(of);
    add::<admissionregistration::v1::MutatingAdmissionPolicyBinding>(of);
    add::<admissionregistration::v1::MutatingWebhookConfiguration>(of);
    add::<admissionregistration::v1::ValidatingAdmissionPolicy>(of);
    add::<admissionregistration::v1::ValidatingAdmissionPolicyBinding>(of);
    add::<admissionregistration::v1::ValidatingWebhookConfiguration>(of);
    add::<authentication::v1::SelfSubjectReview>(of);
    add::<authentication::v1::TokenRequest>(of);
    add::<authentication::v1::TokenReview>(of);
    add::<authorization::v1::LocalSubjectAccessReview>(of);
    add::<authorization::v1::SelfSubjectAccessReview>(of);
    add::<authorization::v1::SelfSubjectRulesReview>(of);
    add::<authorization::v1::SubjectAccessReview>(of);
    add::<certificates::v1::CertificateSigningRequest>(of);
    add::<core::v1::ServiceAccount>(of);
    add::<rbac::v1::ClusterRole>(of);
    add::<rbac::v1::ClusterRoleBinding>(of);
    add::<rbac::v1::Role>(of);
    add::<rbac::v1::RoleBinding>(of);
}

/// What requests of all kinds take and give.
fn add_common(of: &mut SchemaGenerator) {
    add::<meta::v1::APIGroup>(of);
    add::<meta::v1::APIGroupList>(of);
    add::<meta::v1::APIResourceList>(of);
    add::<meta::v1::APIVersions>(of);
    add::<meta::v1::DeleteOptions>(of);
    add::<meta::v1::Patch>(of);
    add::<meta::v1::Status>(of);
    add::<meta::v1::WatchEvent<runtime::RawExtension>>(of);
    add::<runtime::RawExtension>(of);
    add::<version::Info>(of);
}

fn of_type(schema: &Value) -> Descriptions {
    let text = |schema: &Value| schema["description"].as_str().map(str::to_owned);
    let mut all: Descriptions = text(schema)
        .map(|own| (String::new(), own))
        .into_iter()
        .collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    all.extend(properties.filter_map(|(name, field)| Some((name.clone(), text(field)?))));
    all
}

/// The library says of an event as a whole what Kubernetes says of the object in it.
fn split_events(table: &mut BTreeMap<String, Descriptions>) {
    let event = table.get_mut("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent");
    if let Some(event) = event {
        let whole = event.get("").cloned().unwrap_or_default();
        if let Some((own, object)) = whole.split_once("\n\n") {
            event.insert(String::new(), own.to_owned());
            event.insert("object".to_owned(), object.trim_end().to_owned());
        }
    }
}
