//! What the status of a pod says of the device claims that were made for it.

use std::collections::{BTreeMap, BTreeSet};

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, named};

/// The claims that were made from templates.
pub(super) fn generated(spec: &FieldValue, status: &FieldValue, causes: &mut Causes) {
    let mut names = BTreeSet::new();
    let claims = spec.items("resourceClaims").iter();
    let claims: BTreeSet<&str> = claims.map(|one| object::text(one, &["name"])).collect();
    causes.each(status, "resourceClaimStatuses", |causes, one| {
        let its_name = one.text("name");
        if !claims.contains(its_name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            causes.wrong_text(one, "name", why);
        }
        if !names.insert(its_name) {
            causes.push(Cause::duplicate(&one.path_of("name"), &its_name.into()));
        }
        causes.named(one, "resourceClaimName", name::dns1123_subdomain);
    });
}

/// The claim for resources that containers request by name.
pub(super) fn of_extended_resources(spec: &FieldValue, status: &FieldValue, causes: &mut Causes) {
    const MAPPINGS: &str = "requestMappings";
    let Some(claim) = status.child("extendedResourceClaimStatus") else {
        return;
    };
    if claim.items(MAPPINGS).is_empty() {
        let why = "at least one request mapping is required";
        causes.push(Cause::required(&claim.path_of(MAPPINGS), why));
    }
    // Of two with one name, the later one counts.
    let containers = ["initContainers", "containers"].into_iter();
    let containers = containers.flat_map(|list| spec.items(list));
    let containers: BTreeMap<&str, &Value> = containers
        .map(|one| (object::text(one, &["name"]), one))
        .collect();
    let mut seen = BTreeSet::new();
    causes.each(&claim, MAPPINGS, |causes, mapping| {
        requested(&containers, mapping, causes);
        // Kubernetes names the field without the mapping.
        let request = mapping.text("requestName");
        let field = claim.path_of("requestName");
        causes.extend(named(&field, request, name::dns1123_label(request)));
        let keys = ["containerName", "resourceName", "requestName"];
        if !seen.insert(keys.map(|key| mapping.text(key))) {
            for key in keys {
                let text = mapping.text(key).into();
                causes.push(Cause::duplicate(&mapping.path_of(key), &text));
            }
        }
    });
    causes.must_be_named(&claim, "resourceClaimName", name::dns1123_subdomain);
}

/// A mapping is about a resource that its container requests.
fn requested(containers: &BTreeMap<&str, &Value>, mapping: &FieldValue, causes: &mut Causes) {
    let Some(container) = containers.get(mapping.text("containerName")) else {
        let why = "must match the name of an entry in spec.initContainers.name or \
                   spec.containers.name";
        return causes.wrong_text(mapping, "containerName", why);
    };
    let resource = mapping.text("resourceName");
    if object::at(container, &["resources", "requests", resource]).is_none() {
        let why = "must match the extended resource name of an entry in \
                   spec.initContainers.resources.requests or spec.containers.resources.requests";
        causes.wrong_text(mapping, "resourceName", why);
    }
}
