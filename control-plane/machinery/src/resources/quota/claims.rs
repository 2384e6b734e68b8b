//! Claims: the storage of volumes, by storage class, and devices, by device class.

use std::collections::BTreeSet;

use serde_json::Value;

use super::number;
use crate::object;
use crate::object::selector::Requirement;
use crate::resources::amounts::{self, Amounts, Part};
use crate::values::quantity::{Format, Quantity};

const VOLUME_CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// What comes between a storage class and one of the names above.
const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
/// What follows a device class.
const OF_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The most devices that one request can get; one for all devices counts as so many.
const DEVICES_MAX: i64 = 32;
/// The scope of claims.
const ATTRIBUTES_CLASS: &str = "VolumeAttributesClass";

/// True if volume claims use the resource of this name.
pub(super) fn counts_of_volumes(resource: &str) -> bool {
    let of_class = resource.rsplit_once(OF_STORAGE_CLASS);
    let bare = of_class.map_or(resource, |(_, bare)| bare);
    [VOLUME_CLAIMS, STORAGE].contains(&bare)
}

/// True if device claims use the resource of this name.
pub(super) fn counts_of_devices(resource: &str) -> bool {
    resource.ends_with(OF_DEVICE_CLASS)
}

/// What a volume claim uses, as a whole and of its storage class.
pub(super) fn usage_of_volumes(claim: &Value) -> Amounts {
    let mut usage = Amounts::from([number(VOLUME_CLAIMS, 1)]);
    usage.extend(storage(claim).map(|storage| (STORAGE.to_owned(), storage)));
    let class = object::storage_class(claim);
    if !class.is_empty() {
        let of_class = |(name, amount): (&String, &Quantity)| {
            (format!("{class}{OF_STORAGE_CLASS}{name}"), *amount)
        };
        let of_class: Vec<_> = usage.iter().map(of_class).collect();
        usage.extend(of_class);
    }
    usage
}

/// The storage that a claim asks for or, if that is more, was promised: a quota counts whole bytes.
fn storage(claim: &Value) -> Option<Quantity> {
    let spec = claim.get("spec")?;
    let mut most = *amounts::named(spec, Part::Requests).get("storage")?;
    let allocated = allocated(claim);
    if let Some(allocated) = allocated.filter(|allocated| *allocated > most) {
        most = allocated;
    }
    Some(match most.as_integer() {
        Some(_) => most,
        None => Quantity::from_integer(most.value(), most.format()),
    })
}

fn allocated(claim: &Value) -> Option<Quantity> {
    let allocated = amounts::read(object::at(claim, &["status", "allocatedResources"]));
    allocated.get("storage").copied()
}

/// True if a claim is in a scope: one of the attribute classes that it has, or is to get, matches.
pub(super) fn is_in(scope: &Requirement, claim: &Value) -> bool {
    if scope.key != ATTRIBUTES_CLASS {
        return false;
    }
    let classes = attributes_classes(claim);
    if classes.is_empty() {
        return scope.matches(None);
    }
    classes.iter().any(|class| scope.matches(Some(class)))
}

fn attributes_classes(claim: &Value) -> BTreeSet<&str> {
    let paths: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &[
            "status",
            "modifyVolumeStatus",
            "targetVolumeAttributesClassName",
        ],
    ];
    let named = paths.into_iter().map(|path| object::text(claim, path));
    named.filter(|name| !name.is_empty()).collect()
}

/// True if other storage was promised, or the attribute classes changed.
pub(super) fn is_changed(old: &Value, new: &Value) -> bool {
    allocated(old) != allocated(new) || attributes_classes(old) != attributes_classes(new)
}

/// What a device claim uses: of alternatives, the most of each class.
pub(super) fn usage_of_devices(claim: &Value) -> Amounts {
    let mut usage = Amounts::new();
    for request in object::items(claim, &["spec", "devices", "requests"]) {
        let alternatives = object::items(request, &["firstAvailable"]);
        let mut needs = Amounts::new();
        if alternatives.is_empty() {
            amounts::raise(
                &mut needs,
                &request.get("exactly").map(devices).unwrap_or_default(),
            );
        }
        for alternative in alternatives {
            amounts::raise(&mut needs, &devices(alternative));
        }
        needs.retain(|_, count| alternatives.is_empty() || !count.is_zero());
        amounts::add(&mut usage, &needs);
    }
    usage
}

fn devices(request: &Value) -> Amounts {
    let count = match object::text(request, &["allocationMode"]) {
        "ExactCount" => object::integer(request, &["count"]).unwrap_or(0),
        "All" => DEVICES_MAX,
        _ => 0,
    };
    let class = object::text(request, &["deviceClassName"]);
    let count = Quantity::from_integer(count, Format::DecimalSi);
    Amounts::from([(format!("{class}{OF_DEVICE_CLASS}"), count)])
}
