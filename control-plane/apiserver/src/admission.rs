//! What the cluster has to say about a write: one chain for creations, updates and deletions, of
//! objects and of what is below them.
//!
//! First come the steps that may change the object; its rules are checked between; then come those
//! that only refuse, of the state that would be stored.

mod certificates;
mod pods;

use machinery::object;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::api::Api;
use crate::auth::{Admission, Answer};
use crate::resources::catalogue;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
/// The taint of a node that nobody has found ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

const CREATE: &str = "CREATE";
const UPDATE: &str = "UPDATE";
const DELETE: &str = "DELETE";

type Run =
    for<'a> fn(api: &'a Api, admission: &'a Admission<'a>, object: &'a mut Value) -> Answer<'a, ()>;

/// One of Kubernetes' admission plugins, and what it is asked about.
struct Plugin {
    #[expect(dead_code, reason = "the name by which Kubernetes' flags know it")]
    name: &'static str,
    operations: &'static [&'static str],
    /// Group, plural and subresource; everything without them.
    about: Option<(&'static str, &'static str, &'static str)>,
    run: Run,
}

/// Those that may change the object, in Kubernetes' order.
const MUTATING: [Plugin; 5] = [
    Plugin {
        name: "NamespaceLifecycle",
        operations: &[CREATE, UPDATE, DELETE],
        about: None,
        run: namespace_lifecycle,
    },
    // ServiceAccount, and whether somebody gives away more than they hold.
    Plugin {
        name: "Gate",
        operations: &[CREATE, UPDATE, DELETE],
        about: None,
        run: |api, admission, object| api.0.config.gate.admit(api, admission.clone(), object),
    },
    Plugin {
        name: "TaintNodesByCondition",
        operations: &[CREATE],
        about: Some(("", "nodes", "")),
        run: taint_nodes,
    },
    Plugin {
        name: "Priority",
        operations: &[CREATE, UPDATE],
        about: Some(("", "pods", "")),
        run: pods::priority,
    },
    Plugin {
        name: "DefaultTolerationSeconds",
        operations: &[CREATE, UPDATE],
        about: Some(("", "pods", "")),
        run: pods::toleration_seconds,
    },
];

/// Those that only refuse.
const VALIDATING: [Plugin; 3] = [
    Plugin {
        name: "CertificateApproval",
        operations: &[UPDATE],
        about: Some((certificates::GROUP, certificates::PLURAL, "approval")),
        run: certificates::approval,
    },
    Plugin {
        name: "CertificateSigning",
        operations: &[UPDATE],
        about: Some((certificates::GROUP, certificates::PLURAL, "status")),
        run: certificates::signing,
    },
    Plugin {
        name: "CertificateSubjectRestriction",
        operations: &[CREATE],
        about: Some((certificates::GROUP, certificates::PLURAL, "")),
        run: certificates::subject,
    },
];

impl Plugin {
    fn concerns(&self, admission: &Admission<'_>) -> bool {
        let kind = admission.kind;
        let it = (kind.group, kind.plural, admission.subresource);
        self.operations.contains(&admission.operation) && self.about.is_none_or(|about| about == it)
    }
}

/// Changes or refuses a write before its rules are checked. A deletion has no object: it is null.
pub(crate) async fn mutate(
    api: &Api,
    admission: &Admission<'_>,
    object: &mut Value,
) -> Result<(), Status> {
    run(&MUTATING, api, admission, object).await
}

/// Refuses a write whose object keeps the rules.
pub(crate) async fn validate(
    api: &Api,
    admission: &Admission<'_>,
    object: &mut Value,
) -> Result<(), Status> {
    run(&VALIDATING, api, admission, object).await
}

/// Both, where nothing stands between: for deletions, and for bodies that are not stored as such.
pub(crate) async fn admit(
    api: &Api,
    admission: &Admission<'_>,
    object: &mut Value,
) -> Result<(), Status> {
    mutate(api, admission, object).await?;
    validate(api, admission, object).await
}

async fn run(
    plugins: &[Plugin],
    api: &Api,
    admission: &Admission<'_>,
    object: &mut Value,
) -> Result<(), Status> {
    for plugin in plugins.iter().filter(|plugin| plugin.concerns(admission)) {
        (plugin.run)(api, admission, object).await?;
    }
    Ok(())
}

/// Refuses a write as a plugin does.
fn forbidden(admission: &Admission<'_>, why: &str) -> Status {
    let kind = admission.kind;
    Status::forbidden(kind.group, kind.plural, admission.name, why)
}

/// NamespaceLifecycle: some namespaces stay, and what is made in one needs it to be there and to
/// stay.
fn namespace_lifecycle<'a>(
    api: &'a Api,
    admission: &'a Admission<'a>,
    _: &'a mut Value,
) -> Answer<'a, ()> {
    Box::pin(async move {
        let kind = admission.kind;
        let deletes = admission.operation == DELETE;
        if (kind.group, kind.kind) == ("", "Namespace") {
            return match deletes && IMMORTAL.contains(&admission.name) {
                true => Err(forbidden(admission, "this namespace may not be deleted")),
                false => Ok(()),
            };
        }
        // An answer about a namespace to somebody who only asks for rights would tell too much.
        let review =
            (kind.group, kind.plural) == ("authorization.k8s.io", "localsubjectaccessreviews");
        if admission.namespace.is_empty() || deletes || review {
            return Ok(());
        }
        open_namespace(api, admission).await
    })
}

async fn open_namespace(api: &Api, admission: &Admission<'_>) -> Result<(), Status> {
    let namespaces = catalogue::resource("", "v1", "namespaces")
        .ok_or_else(|| Status::internal("no namespaces in the schema"))?;
    let namespace = admission.namespace;
    let found = match api.cached(namespaces.kind, "", namespace) {
        Some(found) => found,
        // It may have been made a moment ago.
        None => api.get(namespaces.kind, "", namespace).await?,
    };
    if admission.operation == CREATE && object::is_deleting(&found) {
        let (group, plural) = (admission.kind.group, admission.kind.plural);
        let name = admission.name;
        return Err(Status::namespace_terminating(
            group, plural, name, namespace,
        ));
    }
    Ok(())
}

/// TaintNodesByCondition: a new node gets no pods before somebody has looked whether it is ready,
/// and has taken this taint away.
fn taint_nodes<'a>(_: &'a Api, _: &'a Admission<'a>, node: &'a mut Value) -> Answer<'a, ()> {
    let mut taints = object::items(node, &["spec", "taints"]).to_vec();
    let is_there = |one: &Value| one["key"] == NOT_READY && one["effect"] == "NoSchedule";
    if !taints.iter().any(is_there) {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        object::set(node, &["spec", "taints"], taints.into());
    }
    Box::pin(async { Ok(()) })
}
