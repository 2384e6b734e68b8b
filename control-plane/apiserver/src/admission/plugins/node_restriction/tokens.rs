//! Tokens of service accounts: a node requests them for the pods bound to it, and for audiences
//! that these pods name.

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use super::pods::bound_to;
use super::{Refusal, Write, stored};
use crate::admission::CREATE;
use crate::auth;
use crate::auth::authorize::node::references;

/// The verb by which a node may request tokens for an audience that no pod names.
const VERB: &str = "request-serviceaccounts-token-audience";

/// Sources of volumes, and the drivers that mount them.
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

impl Write<'_> {
    /// Allows tokens that are bound to a pod of the node.
    pub(super) async fn token(&self) -> Result<(), Refusal> {
        if (self.attributes.operation, self.attributes.subresource) != (CREATE, "token") {
            return Ok(());
        }
        let bound = |key| object::text(self.object, &["spec", "boundObjectRef", key]);
        let (name, uid) = (bound("name"), bound("uid"));
        if (bound("apiVersion"), bound("kind")) != ("v1", "Pod") || name.is_empty() {
            return Err("node requested token not bound to a pod".into());
        }
        if uid.is_empty() {
            return Err("node requested token with a pod binding without a uid".into());
        }
        let pod = self.stored_pod(name).await?;
        if object::uid(&pod) != uid {
            return Err(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            )
            .into());
        }
        if bound_to(&pod) != self.node {
            return Err("node requested token bound to a pod scheduled on a different node".into());
        }
        self.audience(&pod).await
    }

    /// Checks that the pod names the audience of the token, or that the node may choose it.
    async fn audience(&self, pod: &Value) -> Result<(), Refusal> {
        let audience = match object::items(self.object, &["spec", "audiences"]) {
            [] => "",
            [audience] => audience.as_str().unwrap_or_default(),
            _ => return Err("node may only request 0 or 1 audiences".into()),
        };
        if self.names_audience(pod, audience).await? {
            return Ok(());
        }
        let user = self.attributes.user;
        let asked = auth::Attributes {
            user: user.clone(),
            verb: VERB.into(),
            resource: audience.into(),
            namespace: self.attributes.namespace.into(),
            name: self.attributes.name.into(),
            ..auth::Attributes::default()
        };
        // Without an audience the request would be one for a path.
        let decision = if audience.is_empty() {
            Ok(false)
        } else {
            let decision = self.context.authorizer.decide(self.reader(), &asked).await;
            decision.map(|decision| decision.allowed)
        };
        let name = &user.name;
        match decision {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!(
                "audience {audience:?} not found in pod spec volume, {name} is not authorized to request tokens for this audience"
            )
            .into()),
            Err(error) => Err(format!(
                "audience {audience:?} not found in pod spec volume, error authorizing {name} to request tokens for this audience: {error}"
            )
            .into()),
        }
    }

    /// True if a volume of the pod has a token for the audience, or is mounted by a driver that
    /// needs one.
    async fn names_audience(&self, pod: &Value, audience: &str) -> Result<bool, Refusal> {
        let mut errors: Vec<String> = Vec::new();
        for volume in object::items(pod, &["spec", "volumes"]) {
            let mut projected = object::items(volume, &["projected", "sources"]).iter();
            let is_projected = projected.any(|source| {
                let token = source.get("serviceAccountToken");
                token.is_some_and(|token| object::text(token, &["audience"]) == audience)
            });
            if is_projected {
                return Ok(true);
            }
            match self.driver_needs(pod, volume, audience).await {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => errors.push(error.message),
            }
        }
        errors.dedup();
        match errors.as_slice() {
            [] => Ok(false),
            [error] => Err(format!("error validating audience {audience:?}: {error}").into()),
            errors => {
                let errors = errors.join(", ");
                Err(format!("error validating audience {audience:?}: [{errors}]").into())
            }
        }
    }

    /// True if the driver of a volume needs a token for the audience.
    async fn driver_needs(
        &self,
        pod: &Value,
        volume: &Value,
        audience: &str,
    ) -> Result<bool, Status> {
        let claim = object::text(volume, &["persistentVolumeClaim", "claimName"]);
        let template = object::at(volume, &["ephemeral", "volumeClaimTemplate"]);
        let driver = if template.is_some() {
            let claim = references::claim_of_ephemeral(pod, volume);
            self.driver_of_claim(&claim).await?
        } else if !claim.is_empty() {
            self.driver_of_claim(claim).await?
        } else {
            driver(volume)
        };
        if driver.is_empty() {
            return Ok(false);
        }
        let kind = ["storage.k8s.io", "csidrivers"];
        let driver = stored(self.reader(), kind, "", &driver).await?;
        let mut requests = object::items(&driver, &["spec", "tokenRequests"]).iter();
        Ok(requests.any(|request| object::text(request, &["audience"]) == audience))
    }

    async fn driver_of_claim(&self, name: &str) -> Result<String, Status> {
        let (reader, namespace) = (self.reader(), self.attributes.namespace);
        let claim = stored(reader, ["", "persistentvolumeclaims"], namespace, name).await?;
        let volume = object::text(&claim, &["spec", "volumeName"]);
        let volume = stored(reader, ["", "persistentvolumes"], "", volume).await?;
        Ok(driver(&volume["spec"]))
    }
}

/// The driver that mounts a volume; empty if none does.
fn driver(source: &Value) -> String {
    let named = object::text(source, &["csi", "driver"]);
    if !named.is_empty() {
        return named.to_owned();
    }
    let has = |key: &str| source.get(key).is_some_and(|value| !value.is_null());
    let migrated = MIGRATED.iter().find(|(key, _)| has(key));
    migrated.map_or_else(String::new, |(_, driver)| (*driver).to_owned())
}
