use serde_json::json;

use super::*;

/// What kube-controller-manager 1.36.3 wrote of these pods.
fn address(pod: &str) -> EndpointAddress {
    let (ip, uid) = match pod {
        "p1" => ("10.0.0.1", "8e024b42-6b95-4657-a070-af62a066548f"),
        "p2" => ("10.0.0.2", "63d31358-e1e1-4a21-9ebf-82c4a67cfcc0"),
        "p3" => ("10.0.0.3", "9798dab6-2fdb-46d5-8fb2-301480fd8fd7"),
        _ => ("10.0.0.4", "e9a22360-c166-4479-b158-672b64fb124e"),
    };
    let address = json!({
        "ip": ip, "nodeName": "node-a",
        "hostname": (pod == "p3").then_some("three"),
        "targetRef": {"kind": "Pod", "namespace": "n", "name": pod, "uid": uid},
    });
    serde_json::from_value(address).unwrap()
}

fn port(name: &str, number: i32) -> EndpointPort {
    EndpointPort {
        name: Some(name.to_owned()),
        port: number,
        protocol: Some("TCP".to_owned()),
        app_protocol: None,
    }
}

fn dns() -> EndpointPort {
    EndpointPort {
        protocol: Some("UDP".to_owned()),
        app_protocol: Some("dns".to_owned()),
        ..port("d", 5353)
    }
}

/// Each subset as its ports, its ready pods and its other pods.
fn shown(subsets: &[EndpointSubset]) -> Vec<String> {
    let names = |list: &Option<Vec<EndpointAddress>>| {
        let names = list.iter().flatten().map(|one| match &one.target_ref {
            Some(target) => target.name.clone().unwrap(),
            None => one.ip.clone(),
        });
        names.collect::<Vec<_>>().join(" ")
    };
    let shown = subsets.iter().map(|subset| {
        let ports = subset.ports.iter().flatten();
        let ports = ports.map(|port| format!("{}:{}", port.name.as_deref().unwrap(), port.port));
        let ports: Vec<String> = ports.collect();
        format!(
            "{} = {} / {}",
            ports.join(" "),
            names(&subset.addresses),
            names(&subset.not_ready_addresses)
        )
    });
    shown.collect()
}

type Pods<'a> = [(&'a str, bool, Vec<EndpointPort>)];

/// The subsets of these pods, which are the same in whatever order they come.
fn packed(pods: &Pods<'_>) -> Vec<EndpointSubset> {
    let mut packings = [Packing::default(), Packing::default()];
    for (pod, ready, ports) in pods {
        packings[0].add(&address(pod), *ready, ports);
    }
    for (pod, ready, ports) in pods.iter().rev() {
        let ports: Vec<EndpointPort> = ports.iter().rev().cloned().collect();
        packings[1].add(&address(pod), *ready, &ports);
    }
    let [subsets, reversed] = packings.map(Packing::subsets);
    assert_eq!(subsets, reversed);
    assert_eq!(repack(&subsets), subsets);
    subsets
}

#[test]
fn the_order_is_the_one_that_kubernetes_wrote() {
    let (http, other) = (port("http", 81), port("http", 82));
    let first = [
        ("p1", true, vec![http.clone(), port("m", 90), dns()]),
        ("p2", false, vec![http.clone(), port("m", 91), dns()]),
        ("p3", true, vec![other.clone(), dns()]),
        ("p4", true, vec![http.clone(), dns()]),
    ];
    assert_eq!(
        shown(&packed(&first)),
        [
            "m:90 = p1 / ",
            "m:91 =  / p2",
            "http:81 = p1 p4 / p2",
            "http:82 = p3 / ",
            "d:5353 = p1 p3 p4 / p2",
        ]
    );
    // The second pod became ready, and the last one went.
    let second = [
        ("p1", true, vec![http.clone(), port("m", 90), dns()]),
        ("p2", true, vec![http, port("m", 91), dns()]),
        ("p3", true, vec![other, dns()]),
    ];
    assert_eq!(
        shown(&packed(&second)),
        [
            "d:5353 = p1 p2 p3 / ",
            "m:90 = p1 / ",
            "http:81 = p1 p2 / ",
            "http:82 = p3 / ",
            "m:91 = p2 / ",
        ]
    );
    let names = ["a", "b", "c", "d", "e", "f"];
    let many = names.into_iter().zip(8080..);
    let many: Vec<EndpointPort> = many.map(|(name, number)| port(name, number)).collect();
    assert_eq!(
        shown(&packed(&[("p1", true, many)])),
        ["e:8084 f:8085 a:8080 c:8082 b:8081 d:8083 = p1 / "]
    );
}

#[test]
fn the_ports_of_slices_have_another_order_than_those_of_endpoints() {
    let sorted = |ports: &[EndpointPort]| {
        let ports = ports.iter().map(|port| discovery::EndpointPort {
            name: port.name.clone(),
            port: Some(port.port),
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        });
        let mut ports: Vec<discovery::EndpointPort> = ports.collect();
        sort_slice_ports(&mut ports);
        let names = ports.iter().map(|port| port.name.clone().unwrap());
        names.collect::<Vec<_>>().join(" ")
    };
    let many = ["a", "b", "c", "d", "e", "f"].into_iter().zip(8080..);
    let many: Vec<EndpointPort> = many.map(|(name, number)| port(name, number)).collect();
    assert_eq!(sorted(&many), "b a e d f c");
    let few = [port("https", 443), port("http", 80), dns()];
    assert_eq!(sorted(&few), "d https http");
}

#[test]
fn addresses_that_are_written_twice_are_packed_once() {
    let subsets = json!([
        {"addresses": [{"ip": "192.0.2.2"}, {"ip": "192.0.2.1"}], "ports": [{"name": "a", "port": 1}]},
        {"addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}], "ports": [{"name": "b", "port": 2}]},
        // Ready and not ready.
        {"addresses": [{"ip": "192.0.2.3"}], "ports": [{"name": "c", "port": 3}]},
        {"notReadyAddresses": [{"ip": "192.0.2.3"}], "ports": [{"name": "c", "port": 3}]},
    ]);
    let subsets: Vec<EndpointSubset> = serde_json::from_value(subsets).unwrap();
    let mut packed = shown(&repack(&subsets));
    packed.sort();
    assert_eq!(
        packed,
        ["a:1 b:2 = 192.0.2.1 192.0.2.2 / ", "c:3 =  / 192.0.2.3"]
    );
    // Without ports an address is still one.
    let bare: Vec<EndpointSubset> =
        serde_json::from_value(json!([{"addresses": [{"ip": "192.0.2.1"}]}])).unwrap();
    assert_eq!(repack(&bare), bare);
    assert!(repack(&[EndpointSubset::default()]).is_empty());
}

#[test]
fn pods_may_share_an_address() {
    let pod = |uid: &str| EndpointAddress {
        ip: "10.0.0.1".to_owned(),
        target_ref: Some(k8s_openapi::api::core::v1::ObjectReference {
            name: Some(uid.to_owned()),
            uid: Some(uid.to_owned()),
            ..Default::default()
        }),
        ..EndpointAddress::default()
    };
    let mut packing = Packing::default();
    for uid in ["y", "x", "y"] {
        packing.add(&pod(uid), true, &[port("http", 80)]);
    }
    assert_eq!(shown(&packing.subsets()), ["http:80 = x y / "]);
}

#[test]
fn what_is_too_much_is_left_out_of_each_subset() {
    let list = |count: usize| {
        let all = vec![EndpointAddress::default(); count];
        (count > 0).then_some(all)
    };
    let left = |counts: &[(usize, usize)]| {
        let subsets = counts.iter().map(|(ready, unready)| EndpointSubset {
            addresses: list(*ready),
            not_ready_addresses: list(*unready),
            ports: None,
        });
        let mut subsets: Vec<EndpointSubset> = subsets.collect();
        let is_over = truncate(&mut subsets);
        let left = subsets.iter();
        let left = left.map(|one| (count(&one.addresses), count(&one.not_ready_addresses)));
        (is_over, left.collect::<Vec<_>>())
    };
    assert_eq!(left(&[(900, 100)]), (false, vec![(900, 100)]));
    // Those that are not ready go first, and a subset of them alone with them.
    assert_eq!(
        left(&[(600, 50), (0, 50), (600, 0)]),
        (true, vec![(500, 0), (500, 0)])
    );
    assert_eq!(
        left(&[(500, 200), (400, 100)]),
        (true, vec![(500, 67), (400, 33)])
    );
    assert_eq!(left(&[(1000, 1)]), (true, vec![(1000, 0)]));
}
