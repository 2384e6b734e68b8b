//! PodSecurity: pods keep the Pod Security Standards that the labels of their namespace ask for.
//!
//! - `level` reads the labels;
//! - `checks` holds the checks of the standards, and evaluates a pod by them;
//! - `existing` warns about the pods of a namespace whose labels become stricter.
//!
//! A pod that violates the enforced standard is refused. What creates pods from a template is not:
//! its violations are warned of and audited only.

mod checks;
mod existing;
mod level;

use machinery::object;
use machinery::status::{Status, told_together};
use serde_json::Value;

use crate::admission::{Attributes, CREATE, Context, DELETE, Plugin, UPDATE, matching};
use crate::auth::Answer;
use checks::{Pod, evaluate};
use level::{Level, PREFIX, Policy};

/// What creates pods from a template: group, plural, and the path of the template.
const CONTROLLERS: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
    (
        "batch",
        "cronjobs",
        &["spec", "jobTemplate", "spec", "template"],
    ),
];

/// Subresources of pods that do not change what containers may do. All others are evaluated.
const HARMLESS: [&str; 8] = [
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// Evaluates pods by the standards of their namespace.
pub(crate) struct PodSecurity;

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let (group, plural) = (attributes.kind.group(), attributes.kind.plural());
        let concerns = match (group, plural) {
            ("", "pods") => !HARMLESS.contains(&attributes.subresource),
            ("", "namespaces") => attributes.subresource.is_empty(),
            _ => attributes.subresource.is_empty() && template_path(group, plural).is_some(),
        };
        concerns && attributes.operation != DELETE
    }

    fn validate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            match attributes.kind.plural() {
                "namespaces" => namespace(context, attributes, object).await,
                "pods" => pod(context, attributes, object).await,
                _ => controller(context, attributes, object).await,
            }
        })
    }
}

/// Refuses wrong labels, and warns about the pods that violate a stricter standard.
async fn namespace(
    context: &Context,
    attributes: &Attributes<'_>,
    namespace: &Value,
) -> Result<(), Status> {
    let (policy, causes) = Policy::of(namespace);
    let old = attributes.old.map(Policy::of);
    // A namespace may keep labels that are wrong, but not get more of them.
    let kept = old.as_ref().is_some_and(|(_, old)| *old == causes);
    if !causes.is_empty() && !kept {
        return Err(Status::invalid("", "Namespace", attributes.name, causes));
    }
    let Some((old, _)) = old.filter(|_| attributes.operation == UPDATE) else {
        return Ok(());
    };
    let (new, old) = (policy.enforce, old.enforce);
    let relaxed = new.version == old.version && new.level <= old.level;
    if new.level == Level::Privileged || relaxed {
        return Ok(());
    }
    let warnings = existing::warnings(&context.reader, attributes.name, new).await;
    attributes.warnings.add(warnings);
    Ok(())
}

/// Refuses a pod that violates the enforced standard.
async fn pod(context: &Context, attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    let name = attributes.namespace;
    let namespace = matching::read_namespace(context, name).await;
    let namespace = namespace.map_err(|error| {
        tracing::warn!(%error, namespace = name, "a pod cannot be evaluated");
        Status::internal(&format!("failed to lookup namespace {name:?}"))
    })?;
    let (policy, causes) = Policy::of(&namespace);
    if causes.is_empty() && policy.is_privileged() {
        annotate(attributes, "enforce-policy", || policy.enforce.to_string());
        return Ok(());
    }
    if let Some(old) = attributes.old.filter(|_| attributes.operation != CREATE)
        && !is_significant(old, pod)
    {
        return Ok(());
    }
    note_causes(attributes, &causes);
    annotate(attributes, "enforce-policy", || policy.enforce.to_string());
    let pod = Pod::of(pod);
    let violations = evaluate(policy.enforce, &pod);
    audit(attributes, &policy, &pod);
    if violations.is_empty() {
        warn(attributes, &policy, &pod);
        return Ok(());
    }
    let (enforced, details) = (policy.enforce.to_string(), violations.details());
    Err(attributes.forbidden(&format!("violates PodSecurity {enforced:?}: {details}")))
}

/// Warns about the template of pods.
async fn controller(
    context: &Context,
    attributes: &Attributes<'_>,
    object: &Value,
) -> Result<(), Status> {
    let name = attributes.namespace;
    let namespace = match matching::read_namespace(context, name).await {
        Ok(namespace) => namespace,
        Err(error) => {
            // The pods will be refused.
            let why = || format!("failed to lookup namespace {name:?}: {error}");
            annotate(attributes, "error", why);
            return Ok(());
        }
    };
    let (policy, causes) = Policy::of(&namespace);
    if causes.is_empty() && policy.is_silent() {
        return Ok(());
    }
    let path = template_path(attributes.kind.group(), attributes.kind.plural());
    let template = path.and_then(|path| object::at(object, path));
    let Some(template) = template.filter(|template| !template.is_null()) else {
        return Ok(());
    };
    note_causes(attributes, &causes);
    let pod = Pod::of(template);
    audit(attributes, &policy, &pod);
    warn(attributes, &policy, &pod);
    Ok(())
}

fn warn(attributes: &Attributes<'_>, policy: &Policy, pod: &Pod) {
    attributes.warnings.add(would_violate(policy.warn, pod));
}

fn audit(attributes: &Attributes<'_>, policy: &Policy, pod: &Pod) {
    if let Some(text) = would_violate(policy.audit, pod) {
        annotate(attributes, "audit-violations", || text);
    }
}

fn would_violate(standard: level::Standard, pod: &Pod) -> Option<String> {
    let violations = evaluate(standard, pod);
    if violations.is_empty() {
        return None;
    }
    let (standard, details) = (standard.to_string(), violations.details());
    Some(format!("would violate PodSecurity {standard:?}: {details}"))
}

fn note_causes(attributes: &Attributes<'_>, causes: &[machinery::status::Cause]) {
    if !causes.is_empty() {
        let why = || format!("Failed to parse policy: {}", told_together(causes));
        annotate(attributes, "error", why);
    }
}

/// Annotates the audit event of a write.
fn annotate(attributes: &Attributes<'_>, key: &str, value: impl FnOnce() -> String) {
    attributes.annotate(&format!("{PREFIX}{key}"), value);
}

fn template_path(group: &str, plural: &str) -> Option<&'static [&'static str]> {
    let mut all = CONTROLLERS.iter();
    let found = all.find(|one| (one.0, one.1) == (group, plural))?;
    Some(found.2)
}

/// True if an update changes what is evaluated: a container's image, or a container is new.
fn is_significant(old: &Value, new: &Value) -> bool {
    let image = |container: &Value| object::text(container, &["image"]).to_owned();
    let changed = ["containers", "initContainers"].into_iter().any(|list| {
        let images = |pod| object::items(pod, &["spec", list]).iter().map(image);
        !images(old).eq(images(new))
    });
    let path = ["spec", "ephemeralContainers"];
    let old = object::items(old, &path);
    let is_known = |container: &Value| {
        let mut old = old.iter();
        let same = old.find(|one| one["name"] == container["name"]);
        same.is_some_and(|same| image(same) == image(container))
    };
    changed || !object::items(new, &path).iter().all(is_known)
}
