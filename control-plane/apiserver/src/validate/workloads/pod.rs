//! Pods and the templates of workloads: the spec, in the order of Kubernetes' errors.

mod affinity;
mod annotations;
mod change;
mod containers;
mod deletion_cost;
mod env;
mod exceptions;
mod handlers;
mod host_users;
mod mounts;
mod paths;
mod resources;
mod scheduling;
mod security;
mod sources;
mod status;
pub(crate) mod volumes;

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::{address, field::FieldValue, maps};

use annotations::Annotations;
use change::{resized, visitors};

pub(crate) use affinity::node_selector;
pub(crate) use change::update;
pub(crate) use exceptions::Exceptions;
pub(crate) use resources::overhead_of;
pub(crate) use scheduling::tolerations;
pub(crate) use security::{HOST_PROCESS, PRIVILEGED};

/// Limits of DNS settings, those of the C library.
const NAME_SERVERS_MAX: usize = 3;
const SEARCH_PATHS_MAX: usize = 32;
const SEARCH_BYTES_MAX: usize = 2048;
/// Upper bound of a host name, in bytes.
const HOST_NAME_BYTES_MAX: usize = 64;

const POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PREEMPTION: [&str; 2] = ["PreemptLowerPriority", "Never"];

/// The lists in Kubernetes' order when it visits all containers.
const LISTS_AS_VISITED: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The kind of object that holds a spec.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pod,
    /// Some rules apply only to the pods of the template.
    Template,
}

/// The parts of a pod that containers depend on.
struct Pod<'a> {
    spec: FieldValue<'a>,
    kind: Kind,
    exceptions: Exceptions,
    /// The valid volumes.
    volumes: volumes::Volumes<'a>,
    /// The names of its device claims.
    claims: BTreeSet<&'a str>,
}

impl Pod<'_> {
    fn host_network(&self) -> bool {
        self.spec.flag("hostNetwork")
    }
}

/// Rules that apply only when a pod is created.
pub(crate) fn created(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    causes.forbidden(&spec, "ephemeralContainers", "cannot be set on create");
    if spec.has("nodeName") && !spec.items("schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        causes.forbidden(&spec, "nodeName", why);
    }
    if let Some(annotations) = Annotations::of_pod(object) {
        annotations.contradictions(&mut causes);
    }
    causes
}

/// A pod, given the old one if it is updated.
pub(crate) fn pod(old: Option<&Value>, object: &Value) -> Causes {
    let exceptions = Exceptions::of(old);
    let mut causes = Causes::default();
    if let Some(annotations) = Annotations::of_pod(object) {
        annotations.check(exceptions, &mut causes);
    }
    let at = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    spec(
        &at,
        Kind::Pod,
        object::name(object),
        exceptions,
        &mut causes,
    );
    if at.text("serviceAccountName").is_empty() {
        causes.each(&at, "volumes", |causes, volume| {
            let Some(projected) = volume.child("projected") else {
                return;
            };
            causes.each(&projected, "sources", |causes, source| {
                let why = "must not be specified when serviceAccountName is not set";
                causes.forbidden(source, "serviceAccountToken", why);
            });
        });
    }
    for list in ["containers", "initContainers"] {
        causes.each(&at, list, containers::trimmed_image);
    }
    causes
}

/// A pod after an update through a subresource.
pub(crate) fn subresource_update(subresource: &str, old: &Value, new: &Value) -> Causes {
    if let Some(why) = change::refused(subresource, old) {
        // The path of the whole pod, as Kubernetes writes it.
        return Causes::from(Cause::forbidden("[]", why));
    }
    let change = match subresource {
        "ephemeralcontainers" => visitors,
        "resize" => resized,
        "status" => return status::update(old, new),
        _ => return change::annotations(old, new),
    };
    let mut causes = pod(Some(old), new);
    causes.extend(change::annotations(old, new));
    causes.extend(change(old, new));
    causes
}

/// The template at a path of an object, if there is one.
pub(crate) fn template_of<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    object.pointer(&format!("/{}", path.replace('.', "/")))
}

/// A template: labels and a spec.
pub(crate) fn template(object: &Value, path: &str, exceptions: Exceptions) -> Causes {
    let Some(template) = template_of(object, path) else {
        return Causes::from(Cause::required(path, ""));
    };
    let mut causes = template_metadata(object, path, exceptions);
    let at = FieldValue::new(
        format!("{path}.spec"),
        template.get("spec").unwrap_or(&Value::Null),
    );
    spec(&at, Kind::Template, "", exceptions, &mut causes);
    if let Some(annotations) = Annotations::of_template(path, template) {
        annotations.contradictions(&mut causes);
    }
    let why = "ephemeral containers not allowed in pod template";
    causes.forbidden(&at, "ephemeralContainers", why);
    causes
}

/// The labels and annotations of a template.
pub(crate) fn template_metadata(object: &Value, path: &str, exceptions: Exceptions) -> Causes {
    let template = template_of(object, path).unwrap_or(&Value::Null);
    let mut causes = maps::labels(&format!("{path}.labels"), object::labels(template));
    causes.extend(maps::annotations(
        &format!("{path}.annotations"),
        object::annotations(template),
    ));
    if let Some(annotations) = Annotations::of_template(path, template) {
        annotations.check(exceptions, &mut causes);
    }
    causes
}

/// The spec of a pod or a template; templates have no name.
fn spec(spec: &FieldValue, kind: Kind, name: &str, exceptions: Exceptions, causes: &mut Causes) {
    let pod = Pod {
        exceptions,
        volumes: volumes::check(spec, name, exceptions.token_paths, causes),
        claims: resources::claims(spec, causes),
        spec: spec.clone(),
        kind,
    };
    containers::check(&pod, causes);
    resources::of_pod(&pod, causes);
    containers::host_network(&pod, causes);
    causes.choice(spec, "restartPolicy", &POLICIES);
    causes.choice(spec, "dnsPolicy", &DNS_POLICIES);
    causes.labels(spec, "nodeSelector");
    security::of_pod(&pod, causes);
    causes.below(spec, "affinity", |causes, affinity| {
        affinity::check(&pod, affinity, causes);
    });
    dns(spec, causes);
    causes.each(spec, "readinessGates", |causes, gate| {
        causes.label_name(gate, "conditionType");
    });
    scheduling::gates(spec, causes);
    scheduling::spread(&pod, causes);
    security::host_processes(spec, causes);
    host_users::check(&pod, causes);
    host_name(&pod, causes);
    causes.named(spec, "serviceAccountName", name::dns1123_subdomain);
    causes.named(spec, "nodeName", name::dns1123_subdomain);
    causes.within(spec, "activeDeadlineSeconds", 1, i64::from(i32::MAX));
    causes.named(spec, "hostname", name::dns1123_label);
    causes.named(spec, "subdomain", name::dns1123_label);
    scheduling::tolerations(spec, exceptions.comparisons, causes);
    host_aliases(spec, causes);
    causes.named(spec, "priorityClassName", name::dns1123_subdomain);
    causes.named(spec, "runtimeClassName", name::dns1123_subdomain);
    causes.word(spec, "preemptionPolicy", &PREEMPTION);
    resources::overhead(&pod, causes);
    system(spec, causes);
    env::file_volumes(&pod, causes);
}

fn dns(spec: &FieldValue, causes: &mut Causes) {
    let none = spec.text("dnsPolicy") == "None";
    let Some(config) = spec.child("dnsConfig") else {
        if none {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            causes.push(Cause::required(&spec.path_of("dnsConfig"), why));
        }
        return;
    };
    let servers = config.items("nameservers");
    if none && servers.is_empty() {
        let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        return causes.push(Cause::required(&config.path_of("nameservers"), why));
    }
    if servers.len() > NAME_SERVERS_MAX {
        let why = format!("must not have more than {NAME_SERVERS_MAX} nameservers");
        causes.wrong(&config, "nameservers", &why);
    }
    causes.each(&config, "nameservers", |causes, server| {
        let text = server.value.as_str().unwrap_or_default();
        causes.extend(address::wrong(&server.path, text));
    });
    let searches = config.items("searches");
    if searches.len() > SEARCH_PATHS_MAX {
        let why = format!("must not have more than {SEARCH_PATHS_MAX} search paths");
        causes.wrong(&config, "searches", &why);
    }
    let lengths = searches.iter().filter_map(Value::as_str).map(str::len);
    if lengths.map(|length| length + 1).sum::<usize>() > SEARCH_BYTES_MAX + 1 {
        let why = format!(
            "must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the search list"
        );
        causes.wrong(&config, "searches", &why);
    }
    causes.each(&config, "searches", |causes, search| {
        let text = search.value.as_str().unwrap_or_default();
        if text != "." {
            let text = text.strip_suffix('.').unwrap_or(text);
            let wrong = name::dns1123_subdomain_with_underscore(text);
            causes.extend(crate::validate::named(&search.path, text, wrong));
        }
    });
    causes.each(&config, "options", |causes, option| {
        if option.text("name").is_empty() {
            causes.push(Cause::required(&option.path, "must not be empty"));
        }
    });
}

fn host_aliases(spec: &FieldValue, causes: &mut Causes) {
    causes.each(spec, "hostAliases", |causes, alias| {
        causes.extend(address::wrong(&alias.path_of("ip"), alias.text("ip")));
        causes.each(alias, "hostnames", |causes, host| {
            let text = host.value.as_str().unwrap_or_default();
            causes.extend(crate::validate::named(
                &host.path,
                text,
                name::dns1123_subdomain(text),
            ));
        });
    });
}

fn host_name(pod: &Pod, causes: &mut Causes) {
    const KEY: &str = "hostnameOverride";
    let spec = &pod.spec;
    if !spec.has(KEY) {
        return;
    }
    if spec.flag("setHostnameAsFQDN") {
        let why = "may not be specified when setHostnameAsFQDN is true";
        causes.forbidden(spec, KEY, why);
    }
    if pod.host_network() {
        let why = "may not be specified when hostNetwork is true";
        causes.forbidden(spec, KEY, why);
    }
    let text = spec.text(KEY);
    if text.len() > HOST_NAME_BYTES_MAX {
        causes.push(Cause::too_long(&spec.path_of(KEY), HOST_NAME_BYTES_MAX));
    }
    let wrong = name::dns1123_subdomain(text);
    causes.extend(crate::validate::named(&spec.path_of(KEY), text, wrong));
}

/// The operating system, and fields that it does not support.
fn system(spec: &FieldValue, causes: &mut Causes) {
    let Some(os) = spec.child("os") else {
        return;
    };
    if !causes.required(&os, "name") {
        return;
    }
    match os.text("name") {
        "linux" => security::linux(spec, causes),
        "windows" => security::not_on_windows(spec, causes),
        other => causes.push(Cause::not_supported(
            &os.path,
            &other.into(),
            &["linux", "windows"],
        )),
    }
}
