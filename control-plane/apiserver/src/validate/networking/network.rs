//! Services: their ports, targets, and ways to reach them. Allocation checks that addresses and
//! ports are free.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::networking::cluster_ips::{self, is_headless};
use crate::validate::words::field::FieldValue;
use crate::validate::words::maps;
use crate::validate::words::port::{port_name, port_number};
use crate::validate::{Causes, named, words::address};

/// A day: the longest session affinity of a client.
const AFFINITY_SECONDS_MAX: i64 = 86_400;
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const POLICIES: [&str; 2] = ["Cluster", "Local"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const OF_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// Checks a service. An update may keep addresses in a form that is refused today.
pub(crate) fn service(old: Option<&Value>, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let before = old.map_or(spec(&Value::Null), spec);
    let spec = spec(object);
    target(&spec, &mut causes);
    ports(&spec, &mut causes);
    causes.extend(maps::labels("spec.selector", spec.map("selector")));
    affinity(&spec, &mut causes);
    causes.extend(cluster_ips::addresses(old, object));
    let had = address::texts(before.items("externalIPs"));
    causes.each(&spec, "externalIPs", |causes, one| {
        let text = one.value.as_str().unwrap_or_default();
        match address::wrong_new(&one.path, text, &had) {
            Some(cause) => causes.push(cause),
            None => causes.extend(address::endpoint(&one.path, text)),
        }
    });
    causes.choice(&spec, "type", &TYPES);
    distinct(&spec, &mut causes);
    balancer(&before, &spec, &mut causes);
    annotated_ranges(old, object, &mut causes);
    traffic(&spec, &mut causes);
    causes
}

/// Checks what an update changes, and the result.
pub(crate) fn service_update(old: &Value, new: &Value) -> Causes {
    let mut causes = cluster_ips::update(old, new);
    let (before, after) = (spec(old), spec(new));
    let balancer = |spec: &FieldValue| spec.text("type") == "LoadBalancer";
    let class = "loadBalancerClass";
    if balancer(&before) && balancer(&after) && before.get(class) != after.get(class) {
        causes.wrong(&after, class, "may not change once set");
    }
    let port = "healthCheckNodePort";
    if asks(&before) && asks(&after) && before.number(port) != after.number(port) {
        let field = after.path_of(port);
        causes.push(Cause::forbidden(&field, "field is immutable"));
    }
    causes.extend(service(Some(old), new));
    causes
}

/// True if traffic comes from outside the cluster, which has further rules.
pub(crate) fn reached_from_outside(object: &Value) -> bool {
    comes_in(&spec(object))
}

/// True if a load balancer needs a health check port on each node.
pub(crate) fn checks_health(object: &Value) -> bool {
    asks(&spec(object))
}

fn comes_in(spec: &FieldValue) -> bool {
    match spec.text("type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !spec.items("externalIPs").is_empty(),
        _ => false,
    }
}

fn asks(spec: &FieldValue) -> bool {
    (spec.text("type"), spec.text("externalTrafficPolicy")) == ("LoadBalancer", "Local")
}

fn spec(object: &Value) -> FieldValue<'_> {
    FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null))
}

/// Ports, a headless service, or an external name.
fn target(spec: &FieldValue, causes: &mut Causes) {
    let (kind, headless) = (spec.text("type"), is_headless(spec));
    if spec.items("ports").is_empty() && !headless && kind != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    if headless && ["NodePort", "LoadBalancer"].contains(&kind) {
        let why = format!("may not be set to 'None' for {kind} services");
        causes.push(Cause::invalid("spec.clusterIPs[0]", &"None".into(), &why));
    }
    if kind != "ExternalName" {
        return;
    }
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        causes.forbidden(spec, key, "may not be set for ExternalName services");
    }
    let name = spec.text("externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => causes.push(Cause::required("spec.externalName", "")),
        name => {
            let wrong = name::dns1123_subdomain(name);
            causes.extend(named("spec.externalName", name, wrong));
        }
    }
}

fn ports(spec: &FieldValue, causes: &mut Causes) {
    let several = spec.items("ports").len() > 1;
    let mut names = BTreeSet::new();
    causes.each(spec, "ports", |causes, port| {
        let name = port.text("name");
        if several || !name.is_empty() {
            causes.must_be_named(port, "name", name::dns1123_label);
        }
        if !name.is_empty() && !names.insert(name) {
            causes.push(Cause::duplicate(&port.path_of("name"), &name.into()));
        }
        causes.extend(port_number(&port.path_of("port"), port.number("port")));
        causes.choice(port, "protocol", &PROTOCOLS);
        let field = port.path_of("targetPort");
        match port.get("targetPort") {
            Some(Value::String(name)) => causes.extend(named(&field, name, port_name(name))),
            target => {
                let number = target.and_then(Value::as_i64).unwrap_or(0);
                causes.extend(port_number(&field, number));
            }
        }
        causes.named(port, "appProtocol", name::qualified_name);
    });
}

fn affinity(spec: &FieldValue, causes: &mut Causes) {
    causes.choice(spec, "sessionAffinity", &["ClientIP", "None"]);
    const KEY: &str = "sessionAffinityConfig";
    match spec.text("sessionAffinity") {
        "ClientIP" => {
            let seconds = ["clientIP", "timeoutSeconds"];
            let config = spec.get(KEY).unwrap_or(&Value::Null);
            let field = format!("spec.{KEY}.clientIP.timeoutSeconds");
            match object::integer(config, &seconds) {
                None => {
                    let why = "when session affinity type is ClientIP";
                    causes.push(Cause::required(&field, why));
                }
                Some(seconds) if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds) => {
                    let why =
                        format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                    causes.push(Cause::invalid(&field, &seconds.into(), &why));
                }
                Some(_) => {}
            }
        }
        "None" => causes.forbidden(spec, KEY, "must not be set when session affinity is None"),
        _ => {}
    }
}

/// Ports of a service are unique, and only some types have node ports.
fn distinct(spec: &FieldValue, causes: &mut Causes) {
    if spec.text("type") == "ClusterIP" {
        causes.each(spec, "ports", |causes, port| {
            let why = "may not be used when `type` is 'ClusterIP'";
            if port.number("nodePort") != 0 {
                causes.forbidden(port, "nodePort", why);
            }
        });
    }
    let mut on_nodes = BTreeSet::new();
    causes.each(spec, "ports", |causes, port| {
        let number = port.number("nodePort");
        if number != 0 && !on_nodes.insert((port.text("protocol"), number)) {
            causes.push(Cause::duplicate(&port.path_of("nodePort"), &number.into()));
        }
    });
    let mut own = BTreeSet::new();
    causes.each(spec, "ports", |causes, port| {
        let (protocol, number) = (port.text("protocol"), port.number("port"));
        if !own.insert((protocol, number)) {
            // The compared fields, as Go prints them.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                Value::from(protocol)
            );
            causes.push(Cause::duplicate_shown(&port.path, &shown, ""));
        }
    });
}

/// Fields that only load balancers have.
fn balancer(before: &FieldValue, spec: &FieldValue, causes: &mut Causes) {
    let is_one = spec.text("type") == "LoadBalancer";
    // Go's name of the field.
    let field = "spec.LoadBalancerSourceRanges";
    if spec.has("loadBalancerSourceRanges") {
        if !is_one {
            causes.push(Cause::forbidden(field, OF_BALANCERS));
        }
        let had = source_ranges(before);
        for (at, range) in source_ranges(spec).into_iter().enumerate() {
            if causes.is_full() {
                break;
            }
            let field = format!("{field}[{at}]");
            causes.extend(address::wrong_new_range(&field, range, &had));
        }
    }
    let ports = "allocateLoadBalancerNodePorts";
    match is_one {
        false => causes.forbidden(spec, ports, OF_BALANCERS),
        true if !spec.has(ports) => causes.push(Cause::required(ports, "")),
        true => {}
    }
    if is_one {
        causes.named(spec, "loadBalancerClass", name::qualified_name)
    } else {
        causes.forbidden(spec, "loadBalancerClass", OF_BALANCERS)
    }
}

fn source_ranges<'a>(spec: &FieldValue<'a>) -> Vec<&'a str> {
    let ranges = address::texts(spec.items("loadBalancerSourceRanges"));
    ranges.into_iter().map(str::trim).collect()
}

/// The older place of ranges, which only counts without the newer one.
fn annotated_ranges(old: Option<&Value>, object: &Value, causes: &mut Causes) {
    let annotated = |object| object::annotation(object, SOURCE_RANGES);
    let spec = spec(object);
    let Some(ranges) = annotated(object).filter(|_| !spec.has("loadBalancerSourceRanges")) else {
        return;
    };
    let field = format!("metadata.annotations[{SOURCE_RANGES}]");
    if spec.text("type") != "LoadBalancer" {
        causes.push(Cause::forbidden(&field, OF_BALANCERS));
    }
    if ranges.trim().is_empty() || old.and_then(annotated) == Some(ranges) {
        return;
    }
    for range in ranges.split(',') {
        causes.extend(address::wrong_range(&field, range.trim()));
    }
}

/// Traffic policies.
fn traffic(spec: &FieldValue, causes: &mut Causes) {
    if comes_in(spec) {
        causes.choice(spec, "externalTrafficPolicy", &POLICIES);
    } else if spec.has("externalTrafficPolicy") {
        let why = "may only be set for externally-accessible services";
        causes.wrong(spec, "externalTrafficPolicy", why);
    }
    let port = "healthCheckNodePort";
    let number = spec.number(port);
    if asks(spec) {
        // Allocation sets a missing one.
        if number != 0 {
            causes.extend(port_number(&spec.path_of(port), number));
        }
    } else if number != 0 {
        let why =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        causes.wrong(spec, port, why);
    }
    match spec.text("type") {
        "ClusterIP" | "NodePort" | "LoadBalancer" => {
            causes.word_given(spec, "internalTrafficPolicy", &POLICIES);
        }
        _ => causes.word(spec, "internalTrafficPolicy", &POLICIES),
    }
    causes.word(spec, "trafficDistribution", &DISTRIBUTIONS);
}
