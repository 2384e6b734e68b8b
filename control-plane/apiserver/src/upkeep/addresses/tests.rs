use serde_json::json;

use super::*;

const NOW: &str = "2026-01-01T10:10:00Z";

fn service(name: &str, address: &str) -> Arc<Value> {
    Arc::new(json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"clusterIP": address},
    }))
}

fn reserved(address: &str, name: &str, made: &str) -> Arc<Value> {
    Arc::new(json!({
        "metadata": {
            "name": address, "creationTimestamp": made,
            "labels": {MANAGED_BY.0: MANAGED_BY.1},
        },
        "spec": {"parentRef": {"resource": "services", "namespace": "shop", "name": name}},
    }))
}

/// Names of the services to reserve for, and addresses to release.
fn planned(services: &[Arc<Value>], reserved: &[Arc<Value>]) -> (Vec<String>, Vec<String>) {
    let plan = plan(services, reserved, Timestamp::parse(NOW).unwrap());
    let names = plan
        .unreserved
        .iter()
        .map(|(service, _)| object::name(service).to_owned());
    let left_over = plan
        .left_over
        .iter()
        .map(|one| object::name(one).to_owned());
    (names.collect(), left_over.collect())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

const OLD: &str = "2026-01-01T10:08:00Z";
const YOUNG: &str = "2026-01-01T10:08:01Z";

#[test]
fn what_fits_together_stays() {
    let services = [
        service("a", "10.0.0.1"),
        service("b", "None"),
        service("c", ""),
    ];
    let addresses = [reserved("10.0.0.1", "a", OLD)];
    assert_eq!(planned(&services, &addresses), (texts(&[]), texts(&[])));
}

#[test]
fn every_address_of_a_service_is_in_use() {
    let mut both = (*service("a", "10.0.0.1")).clone();
    both["spec"]["clusterIPs"] = json!(["10.0.0.1", "fd00::8:CD6"]);
    let addresses = [
        reserved("10.0.0.1", "a", OLD),
        reserved("fd00::8:cd6", "a", OLD),
        reserved("fd00::8:cd7", "a", OLD),
    ];
    let planned = planned(&[Arc::new(both)], &addresses);
    assert_eq!(planned, (texts(&[]), texts(&["fd00::8:cd7"])));
}

#[test]
fn a_service_without_a_reservation_gets_one() {
    let services = [service("a", "10.0.0.1")];
    assert_eq!(planned(&services, &[]), (texts(&["a"]), texts(&[])));
}

#[test]
fn an_old_reservation_without_a_service_is_released() {
    let addresses = [
        reserved("10.0.0.1", "gone", OLD),
        reserved("10.0.0.2", "on-its-way", YOUNG),
        // The service has another address.
        reserved("10.0.0.3", "a", OLD),
        reserved("10.0.0.4", "a", OLD),
    ];
    let services = [service("a", "10.0.0.4")];
    let planned = planned(&services, &addresses);
    assert_eq!(planned, (texts(&[]), texts(&["10.0.0.1", "10.0.0.3"])));
}

#[test]
fn what_others_reserved_is_not_released() {
    let mut foreign = (*reserved("10.0.0.1", "gone", OLD)).clone();
    foreign["metadata"]["labels"][MANAGED_BY.0] = "somebody".into();
    let mut other = (*reserved("10.0.0.2", "gone", OLD)).clone();
    other["spec"]["parentRef"]["resource"] = "gateways".into();
    let mut alike = (*reserved("10.0.0.3", "gone", OLD)).clone();
    alike["spec"]["parentRef"]["group"] = "serving.knative.dev".into();
    let addresses = [Arc::new(foreign), Arc::new(other), Arc::new(alike)];
    assert_eq!(planned(&[], &addresses), (texts(&[]), texts(&[])));
}

#[test]
fn an_address_that_another_service_has_reserved_stays_with_it() {
    let services = [service("a", "10.0.0.1"), service("b", "10.0.0.1")];
    let addresses = [reserved("10.0.0.1", "a", OLD)];
    let (unreserved, left_over) = planned(&services, &addresses);
    assert_eq!(unreserved, texts(&[]));
    assert_eq!(left_over, texts(&[]), "one of the two has it");
}
