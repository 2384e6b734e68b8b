//! Services.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::pod::{port_name, port_number};
use super::{Causes, meta, named, one_of};

pub(super) fn service(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let kind = object::text(object, &["spec", "type"]);
    let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(object, &["spec", "type"], "spec.type", &known, &mut causes);
    let headless = object::text(object, &["spec", "clusterIP"]) == "None";
    let ports = object::items(object, &["spec", "ports"]);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    if headless && ["NodePort", "LoadBalancer"].contains(&kind) {
        let why = format!("may not be set to 'None' for {kind} services");
        causes.push(Cause::invalid("spec.clusterIPs[0]", &"None".into(), &why));
    }
    if kind == "ExternalName" {
        let target = object::text(object, &["spec", "externalName"]);
        match target {
            "" => causes.push(Cause::required("spec.externalName", "")),
            target => {
                let target = target.strip_suffix('.').unwrap_or(target);
                let wrong = name::dns1123_subdomain(target);
                causes.extend(named("spec.externalName", target, wrong));
            }
        }
    }
    check_ports(ports, &mut causes);
    let selector = object::at(object, &["spec", "selector"]).and_then(Value::as_object);
    causes.extend(meta::labels("spec.selector", selector));
    let known = ["ClientIP", "None"];
    let path = ["spec", "sessionAffinity"];
    one_of(object, &path, "spec.sessionAffinity", &known, &mut causes);
    causes
}

fn check_ports(ports: &[Value], causes: &mut Causes) {
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (at, port) in ports.iter().enumerate() {
        if causes.is_full() {
            break;
        }
        let field = |key: &str| format!("spec.ports[{at}].{key}");
        let name = object::text(port, &["name"]);
        if name.is_empty() && ports.len() > 1 {
            causes.push(Cause::required(&field("name"), ""));
        } else if !name.is_empty() {
            causes.extend(named(&field("name"), name, name::dns1123_label(name)));
            if !names.insert(name) {
                causes.push(Cause::duplicate(&field("name"), &name.into()));
            }
        }
        let number = object::integer(port, &["port"]).unwrap_or(0);
        causes.extend(port_number(&field("port"), number));
        let known = ["SCTP", "TCP", "UDP"];
        one_of(port, &["protocol"], &field("protocol"), &known, causes);
        match port.get("targetPort") {
            Some(Value::String(name)) => {
                causes.extend(named(&field("targetPort"), name, port_name(name)));
            }
            Some(number) => {
                let number = number.as_i64().unwrap_or(0);
                causes.extend(port_number(&field("targetPort"), number));
            }
            None => {}
        }
        let protocol = object::text(port, &["protocol"]);
        if !numbers.insert((protocol, number)) {
            let shown = serde_json::json!({"port": number, "protocol": protocol});
            causes.push(Cause::duplicate(&format!("spec.ports[{at}]"), &shown));
        }
    }
}

/// A service keeps the address it got, unless it becomes a name for something outside.
pub(super) fn service_update(old: &Value, new: &Value) -> Causes {
    let external = |object: &Value| object::text(object, &["spec", "type"]) == "ExternalName";
    let (before, after) = (
        object::text(old, &["spec", "clusterIP"]),
        object::text(new, &["spec", "clusterIP"]),
    );
    if external(old) || external(new) || before.is_empty() || before == after {
        return Causes::default();
    }
    let list = object::at(new, &["spec", "clusterIPs"])
        .cloned()
        .unwrap_or(after.into());
    let why = "may not change once set";
    Causes::from(Cause::invalid("spec.clusterIPs[0]", &list, why))
}
