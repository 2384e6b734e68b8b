//! Random clusters: whatever changes, no node is overcommitted, no required rule is broken when a
//! pod is placed, and no pod waits although a node fits it.
//!
//! Separate code checks the rules, straight from the objects.

use std::collections::BTreeMap;

use super::*;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn pick<'a>(&mut self, among: &[&'a str]) -> &'a str {
        among[self.below(among.len() as u64) as usize]
    }
}

fn random_node(random: &mut Random, name: &str) -> Node {
    let mut change = json!({"status": {"allocatable": {
        "cpu": format!("{}", 1 + random.below(4)), "memory": format!("{}Gi", 1 + random.below(8)),
        "pods": format!("{}", 2 + random.below(8)),
    }}});
    let mut labels = json!({"disk": random.pick(&["ssd", "hdd"])});
    if !random.one_in(6) {
        labels["zone"] = random.pick(&["x", "y", "z"]).into();
    }
    change["metadata"] = json!({"labels": labels});
    if random.one_in(5) {
        let effect = random.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
        change["spec"] = json!({"taints": [{"key": "dedicated", "value": "db", "effect": effect}]});
    }
    if random.one_in(8) {
        change["spec"] = json!({"unschedulable": true});
    }
    node(name, change)
}

fn random_pod(random: &mut Random, name: &str) -> Arc<Pod> {
    let app = random.pick(&["web", "db", "job"]);
    let mut main = json!({"name": "main", "image": "x", "resources": {"requests": {
        "cpu": format!("{}m", random.below(1500)), "memory": format!("{}Mi", random.below(2500)),
    }}});
    if random.one_in(6) {
        main["ports"] = json!([{"containerPort": 80, "hostPort": 8000 + random.below(2)}]);
    }
    let mut spec = json!({"containers": [main], "priority": random.below(3)});
    if random.one_in(5) {
        spec["nodeSelector"] = json!({"disk": random.pick(&["ssd", "hdd"])});
    }
    if random.one_in(5) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    let selector = json!({"matchLabels": {"app": app}});
    if random.one_in(4) {
        let skew = 1 + random.below(2);
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }]);
    }
    if random.one_in(6) {
        let key = random.pick(&["kubernetes.io/hostname", "zone"]);
        spec["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": key, "labelSelector": selector},
            ],
        }});
    }
    let labels = json!({"app": app});
    pod(name, json!({"metadata": {"labels": labels}, "spec": spec}))
}

/// The objects as the apiserver has them.
#[derive(Default)]
struct World {
    nodes: BTreeMap<String, Node>,
    placed: BTreeMap<String, (String, Arc<Pod>)>,
    waiting: BTreeMap<String, Arc<Pod>>,
}

impl World {
    /// Why a pod may not go to a node at present; `None` if it may.
    fn breaks(&self, pod: &Pod, node: &Node) -> Option<String> {
        let name = node.metadata.name.as_deref().unwrap();
        let there = || {
            self.placed
                .values()
                .filter(|(at, _)| at == name)
                .map(|(_, pod)| pod)
        };
        let all: Vec<&Pod> = there().map(|pod| &**pod).chain([pod]).collect();
        let allocatable = node.status.as_ref().unwrap().allocatable.as_ref().unwrap();
        let has = |name: &str| amount(&allocatable[name].0);
        // A node that shrank may be overcommitted already; a pod without requests may still come.
        for kind in ["cpu", "memory"] {
            let asks = request(pod, kind) > 0;
            if asks && all.iter().map(|pod| request(pod, kind)).sum::<i64>() > has(kind) {
                return Some(format!("{name} has not enough {kind}"));
            }
        }
        if all.len() as i64 * 1000 > has("pods") {
            return Some(format!("{name} has too many pods"));
        }
        let ports: Vec<i32> = all.iter().filter_map(|pod| host_port(pod)).collect();
        let distinct: HashSet<&i32> = ports.iter().collect();
        if distinct.len() < ports.len() {
            return Some(format!("{name} has a port taken twice"));
        }
        let spec = pod.spec.as_ref().unwrap();
        let node_spec = node.spec.as_ref().unwrap();
        let hard = |effect: &str| effect != "PreferNoSchedule";
        let tainted = node_spec
            .taints
            .iter()
            .flatten()
            .any(|taint| hard(&taint.effect));
        if tainted && spec.tolerations.is_none() {
            return Some(format!("{name} has a taint"));
        }
        if node_spec.unschedulable == Some(true) {
            return Some(format!("{name} is cordoned"));
        }
        let labels = node.metadata.labels.as_ref().unwrap();
        let selector = spec.node_selector.iter().flatten();
        if selector
            .into_iter()
            .any(|(key, value)| labels.get(key) != Some(value))
        {
            return Some(format!("{name} is not selected"));
        }
        self.breaks_spread(pod, node)
            .or_else(|| self.breaks_anti_affinity(pod, node))
    }

    fn breaks_spread(&self, pod: &Pod, node: &Node) -> Option<String> {
        let spec = pod.spec.as_ref().unwrap();
        let constraint = spec.topology_spread_constraints.iter().flatten().next()?;
        let selected = |node: &&Node| {
            let labels = node.metadata.labels.as_ref().unwrap();
            let selector = spec.node_selector.iter().flatten();
            selector
                .into_iter()
                .all(|(key, value)| labels.get(key) == Some(value))
        };
        let Some(zone) = label(node, "zone") else {
            return Some("a node without a zone".into());
        };
        let mut zones: BTreeMap<&str, i64> = BTreeMap::new();
        for node in self.nodes.values().filter(selected) {
            if let Some(zone) = label(node, "zone") {
                let name = node.metadata.name.as_deref().unwrap();
                let here = self.placed.values().filter(|(at, _)| at == name);
                let same = here.filter(|(_, other)| app(other) == app(pod)).count() as i64;
                *zones.entry(zone).or_default() += same;
            }
        }
        let least = zones.values().min().copied().unwrap_or(0);
        let skew = zones.get(zone).copied().unwrap_or(0) + 1 - least;
        (skew > i64::from(constraint.max_skew)).then(|| format!("skew {skew} in zone {zone}"))
    }

    fn breaks_anti_affinity(&self, pod: &Pod, node: &Node) -> Option<String> {
        for (at, other) in self.placed.values() {
            let Some(other_node) = self.nodes.get(at) else {
                continue;
            };
            for who in [pod, other] {
                let Some(key) = anti_key(who) else { continue };
                let near = label(node, key).is_some() && label(node, key) == label(other_node, key);
                if near && app(pod) == app(other) {
                    return Some(format!("too near to {:?} by {key}", other.metadata.name));
                }
            }
        }
        None
    }

    /// Deletes the victims, after which the node must take the pod.
    fn preempt(&mut self, core: &mut Core, pod: &PodInfo, preemption: &Preemption, now: Duration) {
        assert!(!preemption.victims.is_empty(), "{} is helped", pod.name);
        for victim in &preemption.victims {
            assert!(victim.priority < pod.priority, "{} goes", victim.name);
            let (at, _) = self.placed.remove(&victim.uid).expect("it was there");
            assert_eq!(at, preemption.node);
            core.pod_gone(&victim.uid, now);
        }
        let broken = self.breaks(&pod.pod, &self.nodes[&preemption.node]);
        assert_eq!(broken, None, "{} to {}", pod.name, preemption.node);
    }

    fn obey(&mut self, core: &mut Core, mut fails: impl FnMut() -> bool, now: Duration) {
        while let Some(decision) = core.next(now) {
            let (pod, node) = match decision {
                Decision::Bind { pod, node, .. } => (pod, node),
                Decision::Refuse {
                    pod,
                    room: Room::Made(preemption),
                    ..
                } => {
                    self.preempt(core, &pod, &preemption, now);
                    core.preempted(&pod.uid, !fails(), now);
                    continue;
                }
                _ => continue,
            };
            let object = self.waiting[&pod.uid].clone();
            let broken = self.breaks(&object, &self.nodes[&node]);
            assert_eq!(broken, None, "{} to {node}", pod.name);
            if fails() {
                core.not_bound(&pod.uid, now);
                continue;
            }
            self.waiting.remove(&pod.uid);
            self.placed
                .insert(pod.uid.clone(), (node.clone(), object.clone()));
            core.bound(&pod.uid);
            core.pod(on(&node, &object), now);
        }
    }
}

fn amount(text: &str) -> i64 {
    machinery::quantity::Quantity::parse(text)
        .unwrap()
        .milli_value()
}

fn request(pod: &Pod, kind: &str) -> i64 {
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let requests = container.resources.as_ref().unwrap().requests.as_ref();
    amount(&requests.unwrap()[kind].0)
}

fn host_port(pod: &Pod) -> Option<i32> {
    let container = &pod.spec.as_ref().unwrap().containers[0];
    container.ports.iter().flatten().next()?.host_port
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn app(pod: &Pod) -> &str {
    &pod.metadata.labels.as_ref().unwrap()["app"]
}

fn anti_key(pod: &Pod) -> Option<&str> {
    let affinity = pod
        .spec
        .as_ref()?
        .affinity
        .as_ref()?
        .pod_anti_affinity
        .as_ref()?;
    let terms = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    Some(&terms[0].topology_key)
}

fn round(seed: u64) {
    let mut random = Random(seed * 2 + 1);
    let (mut core, mut world) = (Core::new("default-scheduler", seed), World::default());
    let mut now = START;
    for step in 0..120 {
        now += Duration::from_millis(random.below(2000));
        match random.below(10) {
            0 | 1 => {
                let name = format!("node-{}", random.below(8));
                let node = random_node(&mut random, &name);
                core.node(&node, now);
                world.nodes.insert(name, node);
            }
            2 => {
                let name = format!("node-{}", random.below(8));
                core.node_gone(&name, now);
                world.nodes.remove(&name);
            }
            3 | 4 => {
                let many = world.placed.len().max(1) as u64;
                let chosen = world.placed.keys().nth(random.below(many) as usize);
                if let Some(uid) = chosen.cloned() {
                    core.pod_gone(&uid, now);
                    world.placed.remove(&uid);
                }
            }
            _ => {
                let pod = random_pod(&mut random, &format!("pod-{step}"));
                core.pod(pod.clone(), now);
                world.waiting.insert(format!("pod-{step}"), pod);
            }
        }
        world.obey(&mut core, || random.one_in(10), now);
    }
    // After the longest back-off only pods that fit nowhere may wait. The five minutes after which
    // every parked pod is retried are not over, so events must have woken all others. Several
    // rounds, because a pod that was placed may be what another one waited for.
    for _ in 0..25 {
        now += Duration::from_secs(11);
        world.obey(&mut core, || false, now);
        if let (0, 0, _) = core.queue().lengths() {
            break;
        }
    }
    for (name, pod) in &world.waiting {
        for (at, node) in &world.nodes {
            let broken = world.breaks(pod, node);
            assert!(broken.is_some(), "{name} waits though {at} would take it");
        }
    }
}

#[test]
fn random_clusters_keep_every_rule_and_leave_nobody_waiting() {
    for seed in 0..150 {
        println!("seed {seed}");
        round(seed);
    }
}
