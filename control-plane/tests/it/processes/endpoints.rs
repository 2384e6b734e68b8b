//! The endpoints of the service `kubernetes`, which all apiservers of a store keep together.

use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::cluster::{Cluster, WITHIN, apiserver_with};

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const POLL: Duration = Duration::from_millis(50);

/// An apiserver that tells others this address.
fn server_at(cluster: &Cluster, ip: &str) -> (Child, u16) {
    let keys = cluster.file(ip, "");
    std::fs::remove_file(&keys).unwrap();
    let cert_dir = format!("--cert-dir={keys}");
    let kubeconfig = format!("--admin-kubeconfig={keys}.kubeconfig");
    let advertised = format!("--advertise-address={ip}");
    let (child, address) =
        apiserver_with(&cluster.store.url(), &[&cert_dir, &kubeconfig, &advertised]);
    let (_, port) = address.rsplit_once(':').unwrap();
    (child, port.parse().unwrap())
}

/// What both objects say, without what every object has.
fn said(cluster: &Cluster) -> [Value; 2] {
    [ENDPOINTS, SLICE].map(|path| {
        let answer = cluster.get(path);
        let object = if answer.code == 404 {
            Value::Null
        } else {
            answer.expect(200)
        };
        json!({
            "labels": object["metadata"]["labels"], "subsets": object["subsets"],
            "endpoints": object["endpoints"], "ports": object["ports"],
            "addressType": object["addressType"],
        })
    })
}

/// What Kubernetes' own apiservers write for these addresses.
fn wanted(ips: &[&str], port: u16) -> [Value; 2] {
    let port = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let plain: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let subsets = if ips.is_empty() {
        Value::Null
    } else {
        json!([{"addresses": plain, "ports": port}])
    };
    let endpoint = |ip: &&str| json!({"addresses": [ip], "conditions": {"ready": true}});
    let endpoints: Vec<Value> = ips.iter().map(endpoint).collect();
    // An empty list is stored as none.
    let endpoints = if ips.is_empty() {
        Value::Null
    } else {
        endpoints.into()
    };
    [
        json!({
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}, "subsets": subsets,
            "endpoints": null, "ports": null, "addressType": null,
        }),
        json!({
            "labels": {"kubernetes.io/service-name": "kubernetes"}, "subsets": null,
            "endpoints": endpoints, "ports": port, "addressType": "IPv4",
        }),
    ]
}

fn until(cluster: &Cluster, ips: &[&str], port: u16) {
    let begun = Instant::now();
    loop {
        let (is, wanted) = (said(cluster), wanted(ips, port));
        if is == wanted {
            return;
        }
        assert!(begun.elapsed() < WITHIN, "{is:?}\nis not\n{wanted:?}");
        sleep(POLL);
    }
}

fn end(mut child: Child, signal: rustix::process::Signal) {
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, signal).unwrap();
    child.wait().unwrap();
}

#[test]
fn endpoints_are_the_servers_that_run() {
    use rustix::process::Signal;
    let cluster = Cluster::start();
    let (first, port) = server_at(&cluster, "10.9.8.7");
    until(&cluster, &["10.9.8.7"], port);
    let (second, port_of_second) = server_at(&cluster, "10.9.8.6");
    // Each server writes its own port, so with different ones the last to write decides.
    until(&cluster, &["10.9.8.6", "10.9.8.7"], port_of_second);
    // What others do to the objects is undone.
    let gone = cluster.call("DELETE", ENDPOINTS).send();
    gone.expect(200);
    end(first, Signal::TERM);
    until(&cluster, &["10.9.8.6"], port_of_second);
    // One that is killed has no time to say so.
    let (third, port_of_third) = server_at(&cluster, "10.9.8.5");
    until(&cluster, &["10.9.8.5", "10.9.8.6"], port_of_third);
    end(second, Signal::KILL);
    until(&cluster, &["10.9.8.5"], port_of_third);
    end(third, Signal::TERM);
    until(&cluster, &[], port_of_third);
}
