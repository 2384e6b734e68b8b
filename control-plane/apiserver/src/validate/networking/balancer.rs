//! Where a load balancer answers for a service or an ingress.

use std::net::IpAddr;

use machinery::status::Cause;
use machinery::{name, object};
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::address;
use crate::validate::words::field::FieldValue;

const MODES: [&str; 2] = ["Proxy", "VIP"];

/// The status of a service: only a load balancer has one, and each address says how it is reached.
pub(crate) fn service_status(old: &Value, service: &Value) -> Causes {
    let answers = balancer(service);
    let is_one = object::text(service, &["spec", "type"]) == "LoadBalancer";
    if !is_one && !answers.items("ingress").is_empty() {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        return Cause::forbidden(&answers.path_of("ingress"), why).into();
    }
    let mut causes = status(old, service);
    causes.each(&answers, "ingress", |causes, one| {
        let mode = "ipMode";
        match (one.text("ip"), one.get(mode)) {
            ("", None) => {}
            ("", Some(_)) => {
                causes.forbidden(one, mode, "may not be specified when `ip` is not set")
            }
            (_, None) => {
                let why = "must be specified when `ip` is set";
                causes.push(Cause::required(&one.path_of(mode), why));
            }
            (_, Some(_)) => causes.word_given(one, mode, &MODES),
        }
    });
    causes
}

/// The status of a service or an ingress. It may keep addresses in a form that is refused today.
pub(crate) fn status(old: &Value, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let before = balancer(old);
    let had: Vec<&str> = before.each("ingress").map(|one| one.text("ip")).collect();
    causes.each(&balancer(object), "ingress", |causes, one| {
        let ip = one.text("ip");
        if !ip.is_empty() {
            causes.extend(address::wrong_new(&one.path_of("ip"), ip, &had));
        }
        causes.named_unless_empty(one, "hostname", name::dns1123_subdomain);
        if one.text("hostname").parse::<IpAddr>().is_ok() {
            causes.wrong(one, "hostname", "must be a DNS name, not an IP address");
        }
    });
    causes
}

fn balancer(object: &Value) -> FieldValue<'_> {
    let balancer = object.pointer("/status/loadBalancer");
    FieldValue::new("status.loadBalancer", balancer.unwrap_or(&Value::Null))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_balancer_has_addresses_and_names() {
        let told = |one: Value| {
            let object = json!({"status": {"loadBalancer": {"ingress": [one]}}});
            Vec::from(status(&Value::Null, &object)).len()
        };
        assert_eq!(told(json!({"ip": "192.0.2.1"})), 0);
        assert_eq!(told(json!({"hostname": "a.example.com"})), 0);
        assert_eq!(told(json!({"ip": "x", "hostname": "Bad_Value!"})), 2);
        assert_eq!(told(json!({"hostname": "192.0.2.1"})), 1);
    }
}
