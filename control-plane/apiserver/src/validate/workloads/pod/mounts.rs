//! Mounts of volumes in a container, as directories or as devices.

use std::collections::BTreeSet;

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::{Pod, paths};
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const READ_ONLY: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];

pub(super) fn check(pod: &Pod, container: &FieldValue, causes: &mut Causes) {
    mounts(pod, container, causes);
    devices(pod, container, causes);
}

/// The texts at a key of each list item.
fn texts<'a>(container: &FieldValue<'a>, list: &str, key: &str) -> BTreeSet<&'a str> {
    let items = container.items(list).iter();
    items.map(|one| object::text(one, &[key])).collect()
}

fn mounts(pod: &Pod, container: &FieldValue, causes: &mut Causes) {
    let device_names = texts(container, "volumeDevices", "name");
    let device_paths = texts(container, "volumeDevices", "devicePath");
    // For some errors, Kubernetes does not name the mount.
    let all = container.path_of("volumeMounts");
    let mut paths = BTreeSet::new();
    causes.each(container, "volumeMounts", |causes, mount| {
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        causes.required(mount, "name");
        if !pod.volumes.contains_key(name) {
            causes.push(Cause::not_found(&mount.path_of("name"), &name.into()));
        }
        causes.required(mount, "mountPath");
        if !paths.insert(path) {
            causes.wrong_text(mount, "mountPath", "must be unique");
        }
        if device_names.contains(name) {
            causes.wrong_text(mount, "name", "must not already exist in volumeDevices");
        }
        if device_paths.contains(path) {
            let why = "must not already exist as a path in volumeDevices";
            causes.wrong_text(mount, "mountPath", why);
        }
        let mount_at_all = FieldValue::new(all.as_str(), mount.value);
        paths::descending(&mount_at_all, "subPath", causes);
        if mount.has("subPath") && mount.has("subPathExpr") {
            let why = "subPathExpr and subPath are mutually exclusive";
            causes.wrong(mount, "subPathExpr", why);
        }
        paths::descending(&mount_at_all, "subPathExpr", causes);
        propagation(container, &mount_at_all, causes);
        read_only(&mount_at_all, causes);
    });
}

fn propagation(container: &FieldValue, mount: &FieldValue, causes: &mut Causes) {
    const KEY: &str = "mountPropagation";
    causes.word(mount, KEY, &PROPAGATIONS);
    let privileged = object::at(container.value, &["securityContext", "privileged"]);
    if mount.text(KEY) == "Bidirectional" && privileged != Some(&Value::Bool(true)) {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        causes.forbidden(mount, KEY, why);
    }
}

fn read_only(mount: &FieldValue, causes: &mut Causes) {
    const KEY: &str = "recursiveReadOnly";
    causes.word(mount, KEY, &READ_ONLY);
    if !["Enabled", "IfPossible"].contains(&mount.text(KEY)) {
        return;
    }
    if !mount.flag("readOnly") {
        let why = "may only be specified when readOnly is true";
        causes.forbidden(mount, KEY, why);
    }
    if !["", "None"].contains(&mount.text("mountPropagation")) {
        let why = "may only be specified when mountPropagation is None or not specified";
        causes.forbidden(mount, KEY, why);
    }
}

fn devices(pod: &Pod, container: &FieldValue, causes: &mut Causes) {
    let mount_names = texts(container, "volumeMounts", "name");
    let mount_paths = texts(container, "volumeMounts", "mountPath");
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    causes.each(container, "volumeDevices", |causes, device| {
        let (name, path) = (device.text("name"), device.text("devicePath"));
        if causes.required(device, "name") && !names.insert(name) {
            causes.wrong(device, "name", "must be unique");
        }
        match pod.volumes.get(name) {
            None => causes.push(Cause::not_found(&device.path_of("name"), &name.into())),
            Some(volume) => {
                let blocks = ["persistentVolumeClaim", "ephemeral"];
                if !blocks.iter().any(|source| volume.get(source).is_some()) {
                    let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    causes.wrong(device, "name", why);
                }
            }
        }
        if causes.required(device, "devicePath") {
            if paths::leads_up(path) {
                let why = "can not contain backsteps ('..')";
                causes.wrong(device, "devicePath", why);
            } else if !paths.insert(path) {
                causes.wrong(device, "devicePath", "must be unique");
            }
        }
        if mount_names.contains(name) {
            causes.wrong_text(device, "name", "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path) {
            let why = "must not already exist as a path in volumeMounts";
            causes.wrong_text(device, "devicePath", why);
        }
    });
}
