//! Jobs: how they select their pods.

use machinery::object;
use serde_json::Value;

/// A job without a manual selector selects its pods by its uid.
pub(super) fn prepare_for_create(job: &mut Value) {
    if object::at(job, &["spec", "manualSelector"]) != Some(&Value::Bool(true)) {
        select_by_uid(job);
    }
}

/// Existing labels stay; validation checks later whether they fit.
fn select_by_uid(job: &mut Value) {
    let (name, uid) = (object::name(job).to_owned(), object::uid(job).to_owned());
    let labels = ["spec", "template", "metadata", "labels"];
    let selector = ["spec", "selector", "matchLabels"];
    for (path, label, value) in [
        (&labels[..], "batch.kubernetes.io/job-name", &name),
        (&labels[..], "batch.kubernetes.io/controller-uid", &uid),
        (&labels[..], "job-name", &name),
        (&labels[..], "controller-uid", &uid),
        (&selector[..], "batch.kubernetes.io/controller-uid", &uid),
    ] {
        let path = [path, &[label]].concat();
        if object::at(job, &path).is_none() {
            object::set(job, &path, value.as_str().into());
        }
    }
}
