//! Where a load balancer answers for a service or an ingress.

use std::net::IpAddr;

use machinery::name;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::address;
use crate::validate::words::field::FieldValue;

/// The status of a service or an ingress.
pub(crate) fn status(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let balancer = object.pointer("/status/loadBalancer");
    let balancer = FieldValue::new("status.loadBalancer", balancer.unwrap_or(&Value::Null));
    causes.each(&balancer, "ingress", |causes, one| {
        let ip = one.text("ip");
        if !ip.is_empty() {
            causes.extend(address::wrong(&one.path_of("ip"), ip));
        }
        causes.named_unless_empty(one, "hostname", name::dns1123_subdomain);
        if one.text("hostname").parse::<IpAddr>().is_ok() {
            causes.wrong(one, "hostname", "must be a DNS name, not an IP address");
        }
    });
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_balancer_has_addresses_and_names() {
        let told = |one: Value| {
            let object = json!({"status": {"loadBalancer": {"ingress": [one]}}});
            Vec::from(status(&object)).len()
        };
        assert_eq!(told(json!({"ip": "192.0.2.1"})), 0);
        assert_eq!(told(json!({"hostname": "a.example.com"})), 0);
        assert_eq!(told(json!({"ip": "x", "hostname": "Bad_Value!"})), 2);
        assert_eq!(told(json!({"hostname": "192.0.2.1"})), 1);
    }
}
