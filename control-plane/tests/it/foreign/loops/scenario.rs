//! The steps of the scenario; after each step everything must settle.

use serde_json::Value;

use super::certificates;
use crate::foreign::swap::Step;
use crate::foreign::swap::world::World;

const NAMESPACE: &str = "loops";
const LIMITED: &str = "loops-limited";
/// The kinds that are compared in the namespaces of the scenario.
const WITHIN: &str = "jobs,cronjobs,daemonsets,statefulsets,controllerrevisions,\
     replicationcontrollers,deployments,replicasets,pods,horizontalpodautoscalers,resourcequotas,\
     poddisruptionbudgets,persistentvolumeclaims,services,endpoints,endpointslices,configmaps,\
     secrets,serviceaccounts,resourceclaims,resourceclaimtemplates,events";
/// The kinds that are compared outside of namespaces.
const GLOBAL: &str = "nodes,namespaces,persistentvolumes,storageclasses,volumeattachments,\
     volumeattributesclasses,certificatesigningrequests,servicecidrs,ipaddresses,deviceclasses,\
     resourceslices,validatingadmissionpolicies";

pub(super) const STEPS: &[Step] = &[
    ("a namespace", |world| {
        // A node's agent says so if it leaves it to the loop to attach volumes.
        let attach = "volumes.kubernetes.io/controller-managed-attach-detach=true";
        world.run(&["annotate", "node", "node-0", attach]);
        world.run(&["create", "namespace", NAMESPACE]);
    }),
    ("jobs, and replicas without metrics", |world| {
        create(world, include_str!("manifests/jobs.yaml"));
        create(world, include_str!("manifests/replicas.yaml"));
        // The loop looks every 15 seconds.
        for condition in ["hpa/old=ScalingActive", "hpa/nothing=AbleToScale"] {
            let (object, condition) = condition.split_once('=').unwrap();
            let condition = format!("--for=condition={condition}=False");
            within(world, &["wait", object, &condition, "--timeout=180s"]);
        }
    }),
    ("a job resumed, and one of a cron job", |world| {
        let resume = r#"{"spec": {"suspend": false}}"#;
        within(world, &["patch", "job/suspended", "--patch", resume]);
        within(
            world,
            &["create", "job", "by-hand", "--from=cronjob/nightly"],
        );
    }),
    ("the jobs gone", |world| {
        within(world, &["delete", "jobs,cronjobs", "--all"]);
    }),
    ("a daemon set", |world| {
        create(world, include_str!("manifests/daemons.yaml"));
    }),
    ("another image of the daemon set", |world| {
        within(world, &["set", "image", "daemonset/agent", "main=agent:2"]);
    }),
    ("volumes, and a stateful set on them", |world| {
        create(world, include_str!("manifests/volumes.yaml"));
    }),
    (
        "the stateful set with one replica of another image",
        |world| {
            let partition = r#"{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}}"#;
            within(world, &["patch", "statefulset/db", "--patch", partition]);
            within(world, &["set", "image", "statefulset/db", "main=db:2"]);
        },
    ),
    ("the stateful set larger", |world| {
        within(world, &["scale", "statefulset/db", "--replicas=3"]);
    }),
    ("the stateful set smaller", |world| {
        within(world, &["scale", "statefulset/db", "--replicas=1"]);
        // Their data may be used again.
        for volume in ["pv/manual-2", "pv/manual-3"] {
            let released = "--for=jsonpath={.status.phase}=Released";
            world.run(&["wait", volume, released, "--timeout=180s"]);
            world.run(&["patch", volume, "--type=json", "--patch", UNCLAIM]);
        }
    }),
    ("consumers of volumes", |world| {
        create(world, include_str!("manifests/consumers.yaml"));
    }),
    ("the consumers gone", |world| {
        within(world, &["delete", "pods", "late", "brief"]);
    }),
    ("a volume that is attached", |world| {
        create(world, include_str!("manifests/attached.yaml"));
        let attachments = ["get", "volumeattachments", "-o", "name"];
        let attachment = world.wait_for_text(&attachments);
        let attached = r#"{"status": {"attached": true}}"#;
        let patch = [
            "patch",
            attachment.trim(),
            "--subresource=status",
            "--type=merge",
        ];
        world.run(&[&patch[..], &["--patch", attached]].concat());
    }),
    (
        "the volume detached, its claim and its class gone",
        |world| {
            within(world, &["delete", "pod/disk", "pvc/disk"]);
            world.run(&["delete", "volumeattributesclass/fast"]);
        },
    ),
    ("a device for a pod", |world| {
        create(world, include_str!("manifests/devices.yaml"));
    }),
    ("the device broken", |world| {
        let tainted = include_str!("manifests/devices_tainted.yaml");
        world.run(&["replace", "-f", &world.file("tainted.yaml", tainted)]);
    }),
    (
        "roles that add up, a token in a secret, a wrong policy",
        |world| {
            create(world, include_str!("manifests/access.yaml"));
            let token = "jsonpath={.data.token}";
            let secret = ["-n", NAMESPACE, "get", "secret", "robot", "-o", token];
            let token = certificates::decoded(&world.wait_for_text(&secret));
            let whoami = world.whoami(&[&format!("--token={token}")]);
            assert_eq!(
                whoami,
                "system:serviceaccount:loops:robot system:serviceaccounts \
             system:serviceaccounts:loops system:authenticated"
            );
        },
    ),
    ("certificates", |world| {
        certificates::of_a_user(world);
        certificates::of_a_node(world);
    }),
    ("a second range for services", |world| {
        world.create(include_str!("manifests/network.yaml"));
        let ready = [
            "servicecidr/second",
            "--for=condition=Ready",
            "--timeout=180s",
        ];
        world.run(&[&["wait"], &ready[..]].concat());
    }),
    ("a service in it, and one with foreign endpoints", |world| {
        create(world, include_str!("manifests/services.yaml"));
    }),
    ("the range is needed", |world| {
        world.run(&["delete", "servicecidr/second", "--wait=false"]);
    }),
    ("the range is no longer needed", |world| {
        within(world, &["delete", "service", "far", "foreign"]);
    }),
    ("quotas", |world| {
        world.create(include_str!("manifests/limits.yaml"));
    }),
    ("objects that quotas count", |world| {
        world.create(include_str!("manifests/limited.yaml"));
        // A call later: its pods make the loop count everything, and what the loop has not seen
        // yet it counts as gone, on Kubernetes too, until something else changes.
        world.create(include_str!("manifests/few.yaml"));
    }),
    ("fewer objects that quotas count", |world| {
        world.run(&["-n", LIMITED, "delete", "job/still", "pvc/some"]);
        world.run(&["-n", LIMITED, "scale", "rc/few", "--replicas=1"]);
    }),
    ("replicas gone that may be on any node", |world| {
        let old = "statefulset/db,rc/old,hpa/old,hpa/nothing";
        for one in old.split(',') {
            within(world, &["delete", one]);
        }
        world.run(&["-n", LIMITED, "delete", "rc/few"]);
    }),
    // Before its pods: the loop has an Event for a budget without pods.
    ("a budget without pods", |world| {
        create(world, include_str!("manifests/budget.yaml"));
    }),
    ("a deployment on every node", |world| {
        create(world, include_str!("manifests/spread.yaml"));
    }),
    ("a node that repels pods", |world| {
        world.run(&["taint", "node", "node-0", "stele.test/wet=yes:NoExecute"]);
    }),
    ("a node that welcomes pods again", |world| {
        world.run(&["taint", "node", "node-0", "stele.test/wet-"]);
    }),
    ("the namespaces gone", |world| {
        world.run(&["delete", "namespace", NAMESPACE, LIMITED, "--timeout=180s"]);
    }),
];

/// The reasons of Events that depend on timing.
const WAITING: [&str; 1] = ["FailedScheduling"];

/// Frees a volume from the claim that it had.
const UNCLAIM: &str = r#"[{"op": "remove", "path": "/spec/claimRef"}]"#;

fn within(world: &World, args: &[&str]) {
    world.run(&[&["-n", NAMESPACE], args].concat());
}

fn create(world: &World, manifest: &str) {
    let manifest = world.file("manifest.yaml", manifest);
    within(world, &["create", "-f", &manifest]);
}

/// All objects that are compared.
pub(super) fn objects(world: &World) -> Vec<Value> {
    let mut objects = Vec::new();
    let parts = "-l=part=loops";
    for args in [
        &["get", GLOBAL][..],
        &["get", "clusterroles", parts],
        &["get", "-n", NAMESPACE, WITHIN],
        &["get", "-n", LIMITED, WITHIN],
        &["get", "-n", "kube-system", "serviceaccounts"],
    ] {
        let list = world.run(&[args, &["-o", "json"]].concat());
        let mut list: Value = serde_json::from_str(&list).unwrap();
        let items = list["items"].as_array_mut().map(std::mem::take);
        objects.extend(items.unwrap().into_iter().filter(is_compared));
    }
    objects
}

/// False for Events about what a pod or a loop waits for: how often they look depends on timing.
fn is_compared(object: &Value) -> bool {
    let reason = object["reason"].as_str().unwrap_or_default();
    object["kind"] != "Event" || !WAITING.contains(&reason)
}
