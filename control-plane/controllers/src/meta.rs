//! Accessors for the metadata of typed objects, and helpers for conditions and times.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, ObjectMeta, OwnerReference, Time,
};
use k8s_openapi::jiff;
use machinery::selector;
use machinery::time::Timestamp;

use crate::known::{Key, Known, kind_of};

pub(crate) type Labels = BTreeMap<String, String>;

pub(crate) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

pub(crate) fn namespace(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().unwrap_or_default()
}

pub(crate) fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

pub(crate) fn resource_version(metadata: &ObjectMeta) -> &str {
    metadata.resource_version.as_deref().unwrap_or_default()
}

/// The cache key of an object.
pub(crate) fn key(metadata: &ObjectMeta) -> Key {
    (namespace(metadata).to_owned(), name(metadata).to_owned())
}

/// The version as a number: loops compare versions, which the API allows since 1.35.
pub(crate) fn revision(metadata: &ObjectMeta) -> i64 {
    resource_version(metadata).parse().unwrap_or(0)
}

pub(crate) fn is_deleting(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

pub(crate) fn created(metadata: &ObjectMeta) -> Timestamp {
    let created = metadata.creation_timestamp.as_ref();
    created.map(stamp).unwrap_or_default()
}

pub(crate) fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The owner reference with `controller: true`.
pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// A controller reference to this owner.
pub(crate) fn owned_by<T: Known>(owner: &T) -> OwnerReference {
    OwnerReference {
        api_version: kind_of::<T>().api_version(),
        kind: kind_of::<T>().kind().into(),
        name: name(owner.metadata()).into(),
        uid: uid(owner.metadata()).into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A workload's selector; `None` if it is invalid or empty, as it then selects nothing.
pub(crate) fn selector(of: &LabelSelector) -> Option<selector::LabelSelector> {
    let json = serde_json::to_value(of).ok()?;
    let selector = selector::LabelSelector::from_object(&json).ok()?;
    (!selector.is_empty()).then_some(selector)
}

/// True if the labels satisfy a selector.
pub(crate) fn matches(selector: &selector::LabelSelector, labels: Option<&Labels>) -> bool {
    selector.requirements.iter().all(|one| {
        let value = labels.and_then(|labels| labels.get(&one.key));
        one.matches(value.map(String::as_str))
    })
}

pub(crate) fn stamp(time: &Time) -> Timestamp {
    Timestamp {
        seconds: time.0.as_second(),
        nanos: u32::try_from(time.0.subsec_nanosecond()).unwrap_or(0),
    }
}

/// A time in whole seconds, so that it is the same when read back.
pub(crate) fn time(stamp: Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(stamp.seconds).unwrap_or_default())
}

/// The remaining time of a `span` that began at `from`; `None` if it is over.
pub(crate) fn left(from: Timestamp, span: Duration, now: Timestamp) -> Option<Duration> {
    let end = from.plus(span);
    (end > now).then(|| end.since(now))
}

pub(crate) fn seconds(count: impl TryInto<u64>) -> Duration {
    Duration::from_secs(count.try_into().unwrap_or(0))
}
