//! A fleet on an in-memory API.

use machinery::api::DeleteOptions;
use machinery::api::memory::{Change, MemoryApi};
use machinery::patch;
use serde_json::Value;

use super::*;
use crate::address::Family;
use crate::host::{STOPPED, Size};

struct Scene {
    api: MemoryApi,
    fleet: Fleet,
    /// The revision up to which the fleet was told of changes.
    told: i64,
    elapsed: Duration,
}

const START: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanos: 0,
};

/// Each node and pod has addresses of both.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

fn fleet(count: u32) -> Fleet {
    fleet_of(count, &FAMILIES)
}

fn fleet_of(count: u32, families: &[Family]) -> Fleet {
    let host = |number| Host {
        name: format!("node-{number}"),
        number,
        families: families.to_vec(),
        size: Size::default(),
        labels: Vec::new(),
    };
    let periods = Periods {
        lease: Duration::from_secs(10),
        status: Duration::from_secs(300),
    };
    Fleet::new((0..count).map(host).collect(), periods)
}

impl Scene {
    fn new(count: u32) -> Scene {
        let api = MemoryApi::new(START);
        for name in ["default", host::LEASES] {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            create(&api, namespace);
        }
        let told = api.revision();
        Scene {
            api,
            fleet: fleet(count),
            told,
            elapsed: Duration::ZERO,
        }
    }

    fn now(&self) -> Now {
        Now {
            elapsed: self.elapsed,
            wall: START.plus(self.elapsed),
        }
    }

    /// Passes events to the fleet and makes its calls until none are left; returns the number of
    /// calls.
    fn settle(&mut self) -> usize {
        let mut calls = 0;
        loop {
            for event in self.api.events_after(self.told) {
                self.told = event.revision;
                let gone = event.change == Change::Deleted;
                match (event.kind.kind(), gone) {
                    ("Pod", false) => self.fleet.pod_applied(event.object),
                    ("Pod", true) => self.fleet.pod_deleted(&event.object),
                    ("Node", false) => self.fleet.node_applied(event.object),
                    ("Node", true) => self.fleet.node_deleted(&event.object),
                    _ => {}
                }
            }
            let Some(work) = self.fleet.next(self.now()) else {
                return calls;
            };
            let mut answer = Ok(Value::Null);
            for call in work.calls {
                calls += 1;
                let reads_claim = matches!(call, Call::Get { .. });
                answer = self.api.answer(call);
                if reads_claim {
                    answer = pod::bound(answer);
                }
                if answer.is_err() {
                    break;
                }
            }
            self.fleet.done(&work.job, answer, self.now());
            assert!(calls < 1000, "it never comes to rest");
        }
    }

    /// The process restarts; the informer begins with a list.
    fn restart(&mut self, fleet: Fleet) {
        self.fleet = fleet;
        self.told = self.api.revision();
        let all = self.api.objects().into_iter();
        let (pods, others): (Vec<_>, Vec<_>) = all.partition(|(kind, _)| kind.kind() == "Pod");
        let nodes = others.into_iter().filter(|(kind, _)| kind.kind() == "Node");
        let nodes = nodes.map(|(_, node)| node).collect();
        self.fleet.nodes_replaced(nodes);
        let pods = pods.into_iter().map(|(_, pod)| pod).collect();
        self.fleet.pods_replaced(pods);
    }

    fn pass(&mut self, seconds: u64) -> usize {
        self.elapsed += Duration::from_secs(seconds);
        self.api.set_now(START.plus(self.elapsed));
        self.settle()
    }

    fn get(&self, kind: &str, name: &str) -> Option<Object> {
        let all = self.api.objects().into_iter();
        let mut all = all
            .filter(|(one, _)| one.kind() == kind)
            .map(|(_, object)| object);
        all.find(|object| object::name(object) == name)
    }

    fn renewed(&self, node: &str) -> Timestamp {
        let lease = self.get("Lease", node).unwrap();
        Timestamp::parse(object::text(&lease, &["spec", "renewTime"])).unwrap()
    }

    fn annotate(&self, kind: &str, name: &str, key: &str, value: Value) {
        let call = Call::Patch {
            kind: kind_of("", kind),
            namespace: String::new(),
            name: name.to_owned(),
            subresource: "",
            form: PatchForm::Merge,
            patch: json!({"metadata": {"annotations": {key: value}}}),
        };
        self.api.answer(call).unwrap();
    }
}

fn create(api: &MemoryApi, object: Object) -> Object {
    let kind = kind_of("", object::kind(&object));
    api.answer(Call::Create { kind, object }).unwrap()
}

fn pod(name: &str, node: &str, change: Value) -> Object {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    patch::merge(&pod, &change)
}

fn delete(api: &MemoryApi, kind: &str, namespace: &str, name: &str) {
    let options = DeleteOptions::default();
    let call = Call::Delete {
        kind: kind_of("", kind),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        options,
    };
    api.answer(call).unwrap();
}

#[test]
fn nodes_register_once_and_renew_their_leases() {
    let mut scene = Scene::new(3);
    scene.pass(7);
    for name in ["node-0", "node-1", "node-2"] {
        assert!(host::is_ready(&scene.get("Node", name).unwrap()), "{name}");
        assert!(scene.get("Lease", name).is_some());
    }
    for _ in 0..6 {
        assert_eq!(scene.pass(10), 3, "a renewal each and nothing else");
    }
    assert!(scene.renewed("node-2") > START.plus(Duration::from_secs(50)));
    // A second process takes over the objects of the first.
    scene.fleet = fleet(3);
    scene.elapsed += Duration::from_secs(10);
    scene.settle();
    assert_eq!(scene.pass(300), 6, "leases and statuses");
}

#[test]
fn pods_on_the_nodes_run_and_go() {
    let mut scene = Scene::new(2);
    scene.settle();
    create(&scene.api, pod("a", "node-0", json!({})));
    create(&scene.api, pod("b", "node-1", json!({})));
    create(&scene.api, pod("elsewhere", "other", json!({})));
    scene.settle();
    let phase = |name: &str| {
        let pod = scene.get("Pod", name).unwrap();
        object::text(&pod, &["status", "phase"]).to_owned()
    };
    assert_eq!(
        (phase("a"), phase("b"), phase("elsewhere")),
        ("Running".into(), "Running".into(), "Pending".into())
    );
    let ip = |name: &str| scene.get("Pod", name).unwrap()["status"]["podIP"].clone();
    assert_eq!(
        (ip("a"), ip("b")),
        (json!("10.244.0.2"), json!("10.244.1.2"))
    );
    delete(&scene.api, "Pod", "default", "a");
    assert!(scene.get("Pod", "a").is_some(), "it is given time");
    scene.settle();
    assert!(scene.get("Pod", "a").is_none());
}

#[test]
fn a_pod_starts_once_its_claims_are_bound() {
    let mut scene = Scene::new(1);
    scene.settle();
    let volumes = json!([
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {}},
    ]);
    let user = json!({"spec": {"volumes": volumes}});
    create(&scene.api, pod("a", "node-0", user));
    let state = |scene: &Scene| {
        let pod = scene.get("Pod", "a").unwrap();
        let status = &pod["status"];
        let waiting = &status["containerStatuses"][0]["state"]["waiting"]["reason"];
        let phase = object::text(status, &["phase"]);
        format!("{phase} {}", waiting.as_str().unwrap_or_default())
    };
    let waits = "Pending ContainerCreating";
    for name in ["data", "a-scratch"] {
        scene.settle();
        assert_eq!(state(&scene), waits, "{name} is missing");
        let metadata = json!({"namespace": "default", "name": name});
        let claim = json!({"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {}});
        create(&scene.api, claim);
        scene.pass(10);
        assert_eq!(state(&scene), waits, "{name} has no volume");
        let bound = Call::Patch {
            kind: kind_of("", "PersistentVolumeClaim"),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            subresource: "",
            form: PatchForm::Merge,
            patch: json!({
                "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"volumeName": "v"},
            }),
        };
        scene.api.answer(bound).unwrap();
        scene.pass(10);
    }
    assert_eq!(state(&scene), "Running ");
    // From then on nobody asks for them.
    delete(&scene.api, "PersistentVolumeClaim", "default", "data");
    assert_eq!(scene.pass(1), 0);
}

#[test]
fn a_pod_that_ends_by_itself_ends_in_time() {
    let mut scene = Scene::new(1);
    scene.settle();
    let sleeps = json!({"spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i", "command": ["sleep", "60"]}]}});
    create(&scene.api, pod("a", "node-0", sleeps));
    scene.settle();
    scene.pass(59);
    assert_eq!(scene.get("Pod", "a").unwrap()["status"]["phase"], "Running");
    scene.pass(1);
    assert_eq!(
        scene.get("Pod", "a").unwrap()["status"]["phase"],
        "Succeeded"
    );
}

#[test]
fn what_happened_while_nobody_ran_is_caught_up_with() {
    let mut scene = Scene::new(1);
    scene.settle();
    create(&scene.api, pod("a", "node-0", json!({})));
    create(&scene.api, pod("b", "node-0", json!({})));
    scene.settle();
    delete(&scene.api, "Pod", "default", "a");
    scene.restart(fleet(1));
    let before = scene.get("Pod", "b").unwrap();
    scene.settle();
    assert!(scene.get("Pod", "a").is_none());
    assert_eq!(scene.get("Pod", "b").unwrap(), before, "it runs on");
    create(&scene.api, pod("c", "node-0", json!({})));
    scene.settle();
    let [b, c] = ["b", "c"].map(|name| scene.get("Pod", name).unwrap()["status"]["podIP"].clone());
    assert_ne!(b, c);
}

#[test]
fn addresses_follow_the_families_of_the_node() {
    let mut scene = Scene::new(1);
    let addresses = |scene: &Scene| {
        let pod = scene.get("Pod", "a").unwrap()["status"].take();
        let node = scene.get("Node", "node-0").unwrap()["status"].take();
        let texts = |list: &Value, key: &str| -> Vec<String> {
            let all = list.as_array().unwrap().iter();
            all.map(|one| object::text(one, &[key]).to_owned())
                .collect()
        };
        assert_eq!(pod["podIP"], pod["podIPs"][0]["ip"]);
        assert_eq!(pod["hostIP"], pod["hostIPs"][0]["ip"]);
        let of_node = texts(&node["addresses"], "address");
        (
            texts(&pod["podIPs"], "ip"),
            texts(&pod["hostIPs"], "ip"),
            of_node,
        )
    };
    scene.settle();
    create(&scene.api, pod("a", "node-0", json!({})));
    scene.settle();
    for families in [
        &FAMILIES[..],
        &[Family::V6, Family::V4],
        &[Family::V6],
        &[Family::V4],
    ] {
        scene.restart(fleet_of(1, families));
        // The status is written in its turn, even though the node is well.
        scene.pass(300);
        let of = |v4: &str, v6: &str| -> Vec<String> {
            let own = families.iter().map(|family| match family {
                Family::V4 => v4,
                Family::V6 => v6,
            });
            own.map(str::to_owned).collect()
        };
        let host = of("172.18.0.2", "fd00:172:18::2");
        let of_node = [&host[..], &["node-0".to_owned()]].concat();
        let of_pod = of("10.244.0.2", "fd00:10:244::2");
        assert_eq!(addresses(&scene), (of_pod, host, of_node));
    }
}

#[test]
fn addresses_are_out_of_the_ranges_that_the_node_has() {
    let mut scene = Scene::new(1);
    let ranges = json!(["10.9.8.0/24", "fd09::/64"]);
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"},
        "spec": {"podCIDR": ranges[0], "podCIDRs": ranges},
    });
    create(&scene.api, node);
    scene.settle();
    create(&scene.api, pod("a", "node-0", json!({})));
    scene.settle();
    let status = scene.get("Pod", "a").unwrap()["status"].take();
    let expected = json!([{"ip": "10.9.8.2"}, {"ip": "fd09::2"}]);
    assert_eq!(status["podIPs"], expected);
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    let mut scene = Scene::new(1);
    scene.settle();
    create(&scene.api, pod("a", "node-0", json!({})));
    scene.settle();
    delete(&scene.api, "Pod", "default", "a");
    scene.settle();
    create(&scene.api, pod("a", "node-0", json!({})));
    scene.settle();
    assert_eq!(scene.get("Pod", "a").unwrap()["status"]["phase"], "Running");
}

#[test]
fn a_deleted_node_stays_deleted_and_a_stopped_one_falls_silent() {
    let mut scene = Scene::new(2);
    scene.pass(10);
    delete(&scene.api, "Node", "", "node-0");
    scene.annotate("Node", "node-1", STOPPED, json!("true"));
    scene.settle();
    create(&scene.api, pod("a", "node-1", json!({})));
    assert_eq!(scene.pass(400), 0, "not a word");
    assert!(scene.get("Node", "node-0").is_none());
    assert_eq!(scene.get("Pod", "a").unwrap()["status"]["phase"], "Pending");
    scene.annotate("Node", "node-1", STOPPED, json!(null));
    scene.settle();
    assert_eq!(scene.get("Pod", "a").unwrap()["status"]["phase"], "Running");
    assert_eq!(scene.renewed("node-1"), START.plus(scene.elapsed));
}

#[test]
fn a_node_that_others_call_unwell_says_that_it_is_well() {
    let mut scene = Scene::new(1);
    scene.settle();
    let unknown = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]);
    let call = Call::Patch {
        kind: kind_of("", "Node"),
        namespace: String::new(),
        name: "node-0".to_owned(),
        subresource: "status",
        form: PatchForm::Strategic,
        patch: json!({"status": {"conditions": unknown}}),
    };
    scene.api.answer(call).unwrap();
    assert!(!host::is_ready(&scene.get("Node", "node-0").unwrap()));
    scene.settle();
    assert!(host::is_ready(&scene.get("Node", "node-0").unwrap()));
}

#[test]
fn a_failed_call_is_tried_again() {
    let mut scene = Scene::new(1);
    let work = scene.fleet.next(scene.now()).unwrap();
    let error = Status::internal("no store");
    scene.fleet.done(&work.job, Err(error), scene.now());
    scene.settle();
    assert!(scene.get("Node", "node-0").is_none(), "not at once");
    scene.pass(1);
    assert!(scene.get("Node", "node-0").is_some());
}

#[test]
fn a_conflict_ends_the_job_of_a_pod_only_if_it_is_about_another_pod() {
    for (why, phase) in [
        ("the object has been modified", "Running"),
        ("admission webhook \"w\" denied the request", "Running"),
        (
            "the UID in the precondition (x) does not match the UID in record (y)",
            "Pending",
        ),
    ] {
        let mut scene = Scene::new(1);
        scene.settle();
        let created = create(&scene.api, pod("a", "node-0", json!({})));
        // Nothing else makes the fleet decide again.
        scene.told = scene.api.revision();
        scene.fleet.pod_applied(created);
        let work = scene.fleet.next(scene.now()).unwrap();
        let conflict = Status::conflict("", "pods", "a", why);
        scene.fleet.done(&work.job, Err(conflict), scene.now());
        scene.pass(1);
        let pod = scene.get("Pod", "a").unwrap();
        assert_eq!(pod["status"]["phase"], phase, "{why}");
    }
}
