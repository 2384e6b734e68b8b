//! The user's actions in a simulation, and the expected results.

use machinery::api::{Call, DeleteOptions, Propagation};
use machinery::object;
use serde_json::{Value, json};

use super::simulation::{ENDS, Simulation, kind};

pub(crate) struct Story {
    pub(crate) name: &'static str,
    /// Minimum number of writes that the manager makes.
    pub(crate) writes_min: usize,
    tell: fn(&mut Simulation),
}

pub(crate) const STORIES: [Story; 10] = [
    Story {
        name: "create, scale, roll out, roll back",
        writes_min: 40,
        tell: rollout,
    },
    Story {
        name: "a node dies",
        writes_min: 20,
        tell: node_death,
    },
    Story {
        name: "deletions cascade",
        writes_min: 20,
        tell: cascades,
    },
    Story {
        name: "a namespace is deleted",
        writes_min: 20,
        tell: namespace_deletion,
    },
    Story {
        name: "a quota follows what is deleted",
        writes_min: 20,
        tell: quotas,
    },
    Story {
        name: "a stateful set is updated, scaled, and taken over by another",
        writes_min: 60,
        tell: stateful,
    },
    Story {
        name: "a daemon on every node",
        writes_min: 40,
        tell: daemons,
    },
    Story {
        name: "jobs run to their end",
        writes_min: 40,
        tell: jobs,
    },
    Story {
        name: "volumes are bound, released, reused and made",
        writes_min: 30,
        tell: volumes,
    },
    Story {
        name: "claims for devices come and go with their pod",
        writes_min: 8,
        tell: devices,
    },
];

/// Only the namespaces that every story begins with.
pub(crate) const BEGINNING: Story = Story {
    name: "namespaces",
    writes_min: 3,
    tell: Simulation::settle,
};

impl Story {
    pub(crate) fn play(&self, simulation: &mut Simulation) {
        for name in ["kube-system", "kube-node-lease", "shop"] {
            simulation.create(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
            }));
        }
        for name in ["a", "b", "c"] {
            simulation.add_node(name);
        }
        (self.tell)(simulation);
    }
}

fn deployment(name: &str, replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name},
        "spec": {"selector": {"app": name}, "clusterIP": "10.1.0.1", "ports": [{"port": 80}]},
    })
}

fn budget(name: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
    })
}

fn running(simulation: &Simulation, image: &str) -> usize {
    let pods = simulation.items(kind("", "Pod"));
    let has_image = |pod: &&Value| pod["spec"]["containers"][0]["image"] == image;
    let runs = |pod: &&Value| pod["status"]["phase"] == "Running" && !object::is_deleting(pod);
    pods.iter().filter(has_image).filter(runs).count()
}

fn set_image(simulation: &Simulation, name: &str, image: &str) {
    let containers = json!([{"name": "c", "image": image}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    simulation.patch(kind("apps", "Deployment"), "shop", name, patch);
}

fn rollout(simulation: &mut Simulation) {
    simulation.create(service("web"));
    simulation.create(budget("web"));
    simulation.create(deployment("web", 2, "one:1"));
    simulation.settle();
    assert_eq!(running(simulation, "one:1"), 2);
    let deployments = kind("apps", "Deployment");
    simulation.patch(deployments, "shop", "web", json!({"spec": {"replicas": 4}}));
    simulation.settle();
    assert_eq!(running(simulation, "one:1"), 4);
    set_image(simulation, "web", "two:1");
    simulation.settle();
    assert_eq!(
        (running(simulation, "one:1"), running(simulation, "two:1")),
        (0, 4)
    );
    set_image(simulation, "web", "one:1");
    simulation.settle();
    assert_eq!(
        (running(simulation, "one:1"), running(simulation, "two:1")),
        (4, 0)
    );
    assert_eq!(simulation.items(kind("apps", "ReplicaSet")).len(), 2);
    let web = &simulation.items(deployments)[0];
    assert_eq!(
        object::annotation(web, "deployment.kubernetes.io/revision"),
        Some("3")
    );
    assert_eq!(web["status"]["availableReplicas"], 4);
    let slices = simulation.items(kind("discovery.k8s.io", "EndpointSlice"));
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0]["endpoints"].as_array().unwrap().len(), 4);
    let endpoints = simulation.items(kind("", "Endpoints"));
    assert_eq!(endpoints.len(), 1);
    let addresses = &endpoints[0]["subsets"][0]["addresses"];
    assert_eq!(addresses.as_array().unwrap().len(), 4);
    let budget = &simulation.items(kind("policy", "PodDisruptionBudget"))[0]["status"];
    assert_eq!(budget["desiredHealthy"], 3);
    assert_eq!(budget["disruptionsAllowed"], 1);
    // The strategy `Recreate`.
    simulation.patch(
        deployments,
        "shop",
        "web",
        json!({
            "spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}, "replicas": 1},
        }),
    );
    set_image(simulation, "web", "three:1");
    simulation.settle();
    assert_eq!(running(simulation, "three:1"), 1);
}

fn node_death(simulation: &mut Simulation) {
    simulation.create(service("web"));
    simulation.create(deployment("web", 3, "one:1"));
    simulation.settle();
    simulation.kill_node("c");
    simulation.settle();
    let nodes = simulation.items(kind("", "Node"));
    let taints = object::items(&nodes[2], &["spec", "taints"]);
    assert_eq!(taints.len(), 2, "{taints:?}");
    assert_eq!(running(simulation, "one:1"), 3);
    // Its pods stay until the node is known to be gone for good.
    assert!(simulation.items(kind("", "Pod")).len() > 3);
    simulation.delete(kind("", "Node"), "", "c", DeleteOptions::default());
    simulation.settle();
    assert_eq!(simulation.items(kind("", "Pod")).len(), 3);
}

fn cascades(simulation: &mut Simulation) {
    for name in ["back", "fore", "free"] {
        simulation.create(deployment(name, 2, "one:1"));
    }
    let mut old = deployment("old", 2, "old:1");
    old["apiVersion"] = "v1".into();
    old["kind"] = "ReplicationController".into();
    old["spec"]["selector"] = json!({"app": "old"});
    simulation.create(old);
    simulation.settle();
    assert_eq!(running(simulation, "old:1"), 2);
    let controllers = kind("", "ReplicationController");
    let larger = json!({"spec": {"replicas": 3}});
    simulation.patch(controllers, "shop", "old", larger);
    simulation.settle();
    assert_eq!(
        simulation.items(controllers)[0]["status"]["readyReplicas"],
        3
    );
    let options = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    simulation.delete(controllers, "shop", "old", options);
    let ways = [
        ("back", Propagation::Background),
        ("fore", Propagation::Foreground),
        ("free", Propagation::Orphan),
    ];
    for (name, propagation) in ways {
        let options = DeleteOptions {
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        simulation.delete(kind("apps", "Deployment"), "shop", name, options);
    }
    simulation.settle();
    assert_eq!(simulation.items(kind("apps", "Deployment")).len(), 0);
    let sets = simulation.items(kind("apps", "ReplicaSet"));
    assert_eq!(sets.len(), 1);
    assert!(object::name(&sets[0]).starts_with("free-"));
    assert_eq!(object::owner_references(&sets[0]).len(), 0);
    assert_eq!(running(simulation, "one:1"), 2);
    assert_eq!(running(simulation, "old:1"), 0);
}

fn namespace_deletion(simulation: &mut Simulation) {
    simulation.create(service("web"));
    simulation.create(deployment("web", 2, "one:1"));
    simulation.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "c"},
    }));
    // With addresses that somebody wrote by hand.
    let mut far = service("far");
    object::remove(&mut far, &["spec", "selector"]);
    simulation.create(far);
    simulation.create(json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"namespace": "shop", "name": "far"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
    }));
    simulation.settle();
    let slices = simulation.items(kind("discovery.k8s.io", "EndpointSlice"));
    assert_eq!(slices.len(), 2);
    let inside = |simulation: &Simulation| {
        let objects = simulation.api.objects();
        let inside = objects
            .iter()
            .filter(|(_, object)| object::namespace(object) == "shop");
        inside.count()
    };
    assert!(inside(simulation) > 6);
    simulation.delete(kind("", "Namespace"), "", "shop", DeleteOptions::default());
    simulation.settle();
    assert_eq!(inside(simulation), 0);
    assert_eq!(simulation.items(kind("", "Namespace")).len(), 2);
}

fn quotas(simulation: &mut Simulation) {
    let config_map = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "shop", "name": name},
        })
    };
    simulation.create(service("web"));
    simulation.create(deployment("web", 3, "one:1"));
    for name in ["one", "two"] {
        simulation.create(config_map(name));
    }
    simulation.settle();
    let hard = json!({
        "pods": "4", "count/deployments.apps": "5", "services": "3", "configmaps": "9",
    });
    simulation.create(json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "shop", "name": "q"},
        "spec": {"hard": hard},
    }));
    simulation.settle();
    let status =
        |simulation: &Simulation| simulation.items(kind("", "ResourceQuota"))[0]["status"].clone();
    // The root certificate has a config map, too.
    let used = json!({
        "pods": "3", "count/deployments.apps": "1", "services": "1", "configmaps": "3",
    });
    assert_eq!(status(simulation), json!({"hard": hard, "used": used}));
    let deployments = kind("apps", "Deployment");
    simulation.patch(deployments, "shop", "web", json!({"spec": {"replicas": 1}}));
    let config_maps = kind("", "ConfigMap");
    simulation.delete(config_maps, "shop", "two", DeleteOptions::default());
    simulation.settle();
    let used = json!({
        "pods": "1", "count/deployments.apps": "1", "services": "1", "configmaps": "2",
    });
    assert_eq!(status(simulation)["used"], used);
    let smaller = json!({"spec": {"hard": {"pods": "0", "services": null}}});
    simulation.patch(kind("", "ResourceQuota"), "shop", "q", smaller);
    simulation.delete(deployments, "shop", "web", DeleteOptions::default());
    simulation.settle();
    let used = json!({"pods": "0", "count/deployments.apps": "0", "configmaps": "2"});
    assert_eq!(status(simulation)["used"], used);
}

fn stateful_set(replicas: u32, image: &str) -> Value {
    let mut set = deployment("db", replicas, image);
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "db".into();
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}},
    }]);
    set
}

fn stateful(simulation: &mut Simulation) {
    let sets = kind("apps", "StatefulSet");
    let revisions = kind("apps", "ControllerRevision");
    let claims = kind("", "PersistentVolumeClaim");
    let set_image = |simulation: &Simulation, image: &str| {
        let containers = json!([{"name": "c", "image": image}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        simulation.patch(sets, "shop", "db", patch);
    };
    simulation.create(stateful_set(2, "one:1"));
    simulation.settle();
    assert_eq!(running(simulation, "one:1"), 2);
    simulation.patch(sets, "shop", "db", json!({"spec": {"replicas": 3}}));
    set_image(simulation, "two:1");
    simulation.settle();
    assert_eq!(running(simulation, "two:1"), 3);
    set_image(simulation, "one:1");
    simulation.settle();
    assert_eq!(running(simulation, "one:1"), 3);
    let history = simulation.items(revisions);
    let numbers = history.iter().map(|one| one["revision"].as_i64().unwrap());
    assert_eq!(
        numbers.collect::<std::collections::BTreeSet<_>>(),
        [2, 3].into()
    );
    assert_eq!(simulation.items(claims).len(), 3);
    simulation.patch(sets, "shop", "db", json!({"spec": {"replicas": 1}}));
    simulation.settle();
    assert_eq!(simulation.items(kind("", "Pod")).len(), 1);
    assert_eq!(simulation.items(claims).len(), 1);
    let options = DeleteOptions {
        propagation: Some(Propagation::Orphan),
        ..DeleteOptions::default()
    };
    simulation.delete(sets, "shop", "db", options);
    simulation.settle();
    let orphans = [kind("", "Pod"), revisions].map(|kind| simulation.items(kind));
    let mut orphans = orphans.iter().flatten();
    assert!(orphans.all(|orphan| object::owner_references(orphan).is_empty()));
    simulation.create(stateful_set(1, "two:1"));
    simulation.settle();
    assert_eq!(running(simulation, "two:1"), 1);
    assert_eq!(simulation.items(revisions).len(), 2);
    let status = &simulation.items(sets)[0]["status"];
    assert_eq!(status["availableReplicas"], 1);
    assert_eq!(status["currentRevision"], status["updateRevision"]);
}

fn daemons(simulation: &mut Simulation) {
    let sets = kind("apps", "DaemonSet");
    let nodes = kind("", "Node");
    let status = |simulation: &Simulation, field: &str| {
        simulation.items(sets)[0]["status"][field]
            .as_i64()
            .unwrap_or(0)
    };
    let mut daemon = deployment("agent", 0, "one:1");
    daemon["kind"] = "DaemonSet".into();
    object::remove(&mut daemon, &["spec", "replicas"]);
    simulation.create(daemon);
    simulation.settle();
    assert_eq!(running(simulation, "one:1"), 3);
    let containers = json!([{"name": "c", "image": "two:1"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    simulation.patch(sets, "shop", "agent", patch);
    simulation.settle();
    assert_eq!(
        (running(simulation, "one:1"), running(simulation, "two:1")),
        (0, 3)
    );
    assert_eq!(status(simulation, "updatedNumberScheduled"), 3);
    let revisions = simulation.items(kind("apps", "ControllerRevision"));
    let mut numbers: Vec<_> = revisions
        .iter()
        .map(|one| one["revision"].as_i64())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [Some(1), Some(2)]);
    // A new node gets a pod, one that is silent keeps it, and one that repels it loses it.
    simulation.add_node("d");
    simulation.kill_node("c");
    let wet = json!([{"key": "wet", "effect": "NoExecute"}]);
    simulation.patch(nodes, "", "b", json!({"spec": {"taints": wet}}));
    simulation.settle();
    assert_eq!(running(simulation, "two:1"), 3);
    // A silent node gets no new pods, so the one there counts as misplaced.
    assert_eq!(status(simulation, "desiredNumberScheduled"), 2);
    assert_eq!(status(simulation, "numberMisscheduled"), 1);
    assert_eq!(status(simulation, "numberReady"), 2);
    simulation.delete(nodes, "", "c", DeleteOptions::default());
    simulation.patch(nodes, "", "b", json!({"spec": {"taints": null}}));
    simulation.settle();
    assert_eq!(running(simulation, "two:1"), 3);
    assert_eq!(status(simulation, "numberAvailable"), 3);
    let options = DeleteOptions {
        propagation: Some(Propagation::Orphan),
        ..DeleteOptions::default()
    };
    simulation.delete(sets, "shop", "agent", options);
    simulation.settle();
    assert_eq!(running(simulation, "two:1"), 3);
    let revisions = simulation.items(kind("apps", "ControllerRevision"));
    let owned = revisions
        .iter()
        .filter(|one| !object::owner_references(one).is_empty());
    assert_eq!((revisions.len(), owned.count()), (2, 0));
}

fn job(name: &str, ends: &str, spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "shop", "name": name},
        "spec": {
            "selector": {"matchLabels": {"job": name}},
            "template": {
                "metadata": {"labels": {"job": name}, "annotations": {ENDS: ends}},
                "spec": {
                    "restartPolicy": "Never", "containers": [{"name": "c", "image": "one:1"}],
                },
            },
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

fn jobs(simulation: &mut Simulation) {
    let specs = [
        (
            "good",
            "Succeeded",
            json!({"completions": 3, "parallelism": 2}),
        ),
        ("bad", "Failed", json!({"backoffLimit": 1})),
        ("brief", "Succeeded", json!({"ttlSecondsAfterFinished": 5})),
        (
            "indexed",
            "Failed",
            json!({
                "completionMode": "Indexed", "completions": 2, "parallelism": 2,
                "backoffLimitPerIndex": 1,
            }),
        ),
    ];
    for (name, ends, spec) in specs {
        simulation.create(job(name, ends, spec));
    }
    simulation.settle();
    let jobs = simulation.items(kind("batch", "Job"));
    let told = jobs.iter().map(|job| {
        let conditions = object::items(job, &["status", "conditions"]);
        let count = |field: &str| job["status"][field].as_i64().unwrap_or(0);
        (
            object::name(job),
            object::text(conditions.last().unwrap(), &["reason"]),
            count("succeeded"),
            count("failed"),
        )
    });
    let expected = [
        ("bad", "BackoffLimitExceeded", 0, 2),
        ("good", "CompletionsReached", 3, 0),
        ("indexed", "FailedIndexes", 0, 4),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let pods = simulation.items(kind("", "Pod"));
    assert_eq!(pods.len(), 3 + 2 + 4);
    let held = pods
        .iter()
        .any(|pod| object::finalizers(pod).next().is_some());
    assert!(!held, "{pods:?}");
    let options = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    for name in ["bad", "good", "indexed"] {
        simulation.delete(kind("batch", "Job"), "shop", name, options.clone());
    }
    simulation.settle();
    assert_eq!(simulation.items(kind("", "Pod")).len(), 0);
}

fn volume(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
            "hostPath": {"path": "/data"},
        },
    })
}

fn claim(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "shop", "name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}},
        },
    })
}

fn volumes(simulation: &mut Simulation) {
    let (claims, volumes) = (
        kind("", "PersistentVolumeClaim"),
        kind("", "PersistentVolume"),
    );
    let bound = |simulation: &Simulation| -> String {
        let all = simulation.items(claims).into_iter();
        let bound = all.filter(|claim| claim["status"]["phase"] == "Bound");
        let pairs = bound.map(|claim| {
            let volume = object::text(&claim, &["spec", "volumeName"]);
            format!("{}={volume} ", object::name(&claim))
        });
        pairs.collect()
    };
    let phase = |simulation: &Simulation, name: &str| {
        let all = simulation.items(volumes);
        let volume = all.iter().find(|volume| object::name(volume) == name);
        object::text(volume.unwrap(), &["status", "phase"]).to_owned()
    };
    simulation.create(volume("small", "1Gi"));
    simulation.create(volume("large", "5Gi"));
    simulation.settle();
    for (name, size) in [("a", "1Gi"), ("b", "2Gi"), ("c", "9Gi"), ("d", "50Gi")] {
        simulation.create(claim(name, size));
    }
    simulation.settle();
    assert_eq!(bound(simulation), "a=small b=large ");
    simulation.create(volume("huge", "10Gi"));
    simulation.settle();
    assert_eq!(bound(simulation), "a=small b=large c=huge ");
    assert_eq!(phase(simulation, "huge"), "Bound");
    simulation.delete(claims, "shop", "a", DeleteOptions::default());
    simulation.settle();
    assert_eq!(phase(simulation, "small"), "Released");
    let free = json!({"spec": {"claimRef": null}});
    simulation.patch(volumes, "", "small", free);
    simulation.create(claim("e", "1Gi"));
    simulation.settle();
    assert_eq!(bound(simulation), "b=large c=huge e=small ");
    simulation.create(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": "made",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "example.com/maker",
    }));
    simulation.settle();
    let all = simulation.items(claims);
    let waiting = all.iter().find(|claim| object::name(claim) == "d").unwrap();
    assert_eq!(waiting["spec"]["storageClassName"], "made");
    let maker = object::annotation(waiting, "volume.kubernetes.io/storage-provisioner");
    assert_eq!(maker, Some("example.com/maker"));
    let mut made = volume("made", "50Gi");
    made["metadata"]["annotations"] =
        json!({"pv.kubernetes.io/provisioned-by": "example.com/maker"});
    made["spec"]["storageClassName"] = "made".into();
    made["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": "shop", "name": "d", "uid": object::uid(waiting),
    });
    simulation.create(made);
    simulation.settle();
    assert_eq!(bound(simulation), "b=large c=huge d=made e=small ");
}

fn devices(simulation: &mut Simulation) {
    let (claims, pods) = (kind("resource.k8s.io", "ResourceClaim"), kind("", "Pod"));
    simulation.create(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"namespace": "shop", "name": "chip"},
        "spec": {"spec": {"devices": {"requests": [
            {"name": "chip", "exactly": {"deviceClassName": "chip"}},
        ]}}},
    }));
    simulation.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "thinker"},
        "spec": {
            "resourceClaims": [
                {"name": "one", "resourceClaimTemplateName": "chip"},
                {"name": "two", "resourceClaimTemplateName": "chip"},
            ],
            "containers": [{"name": "c", "image": "one:1"}],
        },
    }));
    simulation.settle();
    let pod = simulation.items(pods).remove(0);
    let named = object::items(&pod, &["status", "resourceClaimStatuses"]);
    assert_eq!((named.len(), simulation.items(claims).len()), (2, 2));
    // What a scheduler does.
    for claim in simulation.items(claims) {
        let protected = json!({"metadata": {
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        }});
        simulation.patch(claims, "shop", object::name(&claim), protected);
    }
    for claim in simulation.items(claims) {
        let mut allocated = claim;
        allocated["status"] = json!({
            "allocation": {"devices": {"results": []}},
            "reservedFor": [
                {"resource": "pods", "name": "thinker", "uid": object::uid(&pod)},
            ],
        });
        simulation.user(Call::Update {
            kind: claims.clone(),
            subresource: "status",
            object: allocated,
        });
    }
    simulation.settle();
    assert_eq!(simulation.items(claims).len(), 2);
    simulation.delete(pods, "shop", "thinker", DeleteOptions::default());
    simulation.settle();
    assert_eq!(simulation.items(claims).len(), 0);
}
