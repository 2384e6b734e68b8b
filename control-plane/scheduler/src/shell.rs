//! The shell of the scheduler: informers, a clock, and calls that carry decisions out.

mod grants;
mod outbox;
mod preempt;
mod report;
#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashSet};
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use api_client::{Client, Informer, LostLease, Mandate, Notice, now};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use machinery::api::{Api, Call, PatchForm};
use machinery::object::{self, Object};
use machinery::schema;
use machinery::status::Status;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::affinity::Labels;
use crate::claims::{self, Binding, Failed, Grant, Plan, Selection};
use crate::core::{Core, Decision, Room};
use crate::pod::{DEFAULT_SCHEDULER, PodInfo};
use crate::refusal::Unfit;
use outbox::Outbox;
use report::Reporter;

/// Maximum number of decisions that are carried out. While there are so many, no pod is decided.
const CALLS_AT_ONCE: usize = 64;
const LEASE_NAMESPACE: &str = "kube-system";
const LEASE: &str = "kube-scheduler";
/// The field selector for pods. Finished pods use no resources, so they are not watched.
const PODS_NOT_OVER: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The configuration of the scheduler.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name in `spec.schedulerName`.
    pub name: String,
    /// Breaks ties between equally good nodes.
    pub seed: u64,
    /// This process's identity in the leader election; `None` to run without election.
    pub elect: Option<String>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: DEFAULT_SCHEDULER.to_owned(),
            seed: RandomState::new().build_hasher().finish(),
            elect: None,
        }
    }
}

/// Schedules pods until `stop` completes or the lease is lost.
pub async fn run(
    kube: kube::Client,
    config: Config,
    stop: impl Future<Output = ()>,
) -> Result<(), LostLease> {
    let client = Client::new(kube);
    let mut stop = std::pin::pin!(stop);
    let identity = config.elect.as_deref();
    let mandate = Mandate::win(&client, LEASE_NAMESPACE, LEASE, identity, &mut stop).await;
    let Some(mandate) = mandate else {
        return Ok(());
    };
    let work = async {
        tokio::select! {
            () = schedule(client, &config) => {}
            () = stop => {}
        }
    };
    mandate.hold(work).await
}

/// The result of a call.
enum Outcome {
    Bound {
        uid: String,
        result: Result<Object, Status>,
        pod: Arc<PodInfo>,
        node: String,
        grants: Vec<Grant>,
        /// The versions of the claims that the pod got: of all, or of the first.
        got: Vec<String>,
    },
    /// The pod says why it waits.
    Reported,
    /// Pods were deleted to make room for one; the failure if not all could be.
    Preempted {
        pod: Arc<PodInfo>,
        node: String,
        gone: Vec<Arc<PodInfo>>,
        failure: Option<Status>,
    },
    /// What the claims of a pod need was asked for.
    Claimed { uid: String, failed: Failed },
}

/// The informers that have listed. No pod is decided before all have.
#[derive(Debug, Default)]
struct Known {
    pods: bool,
    nodes: bool,
    namespaces: bool,
    budgets: bool,
    services: bool,
    /// The kinds of [`claims::KINDS`] that have.
    claims: BTreeSet<&'static str>,
}

impl Known {
    fn all(&self) -> bool {
        let claims = self.claims.len() == claims::KINDS.len();
        let others = self.namespaces && self.budgets && self.services;
        self.pods && self.nodes && others && claims
    }
}

/// A notice from one of the informers.
enum Heard {
    Pods(Notice),
    Nodes(Notice),
    Namespaces(Notice),
    Budgets(Notice),
    Services(Notice),
    /// About a kind of [`claims::KINDS`].
    Claims(&'static str, Notice),
}

async fn schedule(client: Client, config: &Config) {
    let mut core = Core::new(&config.name, config.seed);
    let mut reporter = Reporter::new(&config.name);
    let mut events = Outbox::new(client.clone());
    let mut heard = informers(&client);
    let mut calls: FuturesUnordered<BoxFuture<'static, Outcome>> = FuturesUnordered::new();
    let start = Instant::now();
    let mut known = Known::default();
    loop {
        while known.all()
            && calls.len() < CALLS_AT_ONCE
            && let Some(decision) = core.next(start.elapsed())
        {
            match decision {
                Decision::Refuse { pod, why, room } => {
                    tracing::debug!(pod = pod.full_name(), %why, "no node takes the pod");
                    let report = reporter.refused(&pod, &why.to_string(), &room, now());
                    calls.push(tell(client.clone(), events.add_of(report)));
                    if let Unfit::Refused {
                        freed: Some(freed), ..
                    } = &why
                    {
                        calls.push(tell(client.clone(), vec![grants::free(&pod, freed)]));
                    }
                    if let Room::Made(preemption) = room {
                        calls.push(preempt::preempt(client.clone(), pod, preemption));
                    }
                }
                Decision::Bind { pod, node, grants } => {
                    calls.push(bind(client.clone(), pod, node, grants));
                }
                Decision::Claim { pod, node, plan } => {
                    calls.push(ask(client.clone(), &pod, &node, plan));
                }
                Decision::TimedOut { pod } => {
                    tracing::info!(pod = pod.full_name(), "its volumes were not bound in time");
                    let report = reporter.timed_out(&pod, now());
                    calls.push(tell(client.clone(), events.add_of(report)));
                }
            }
        }
        let free = known.all() && calls.len() < CALLS_AT_ONCE;
        let wake_at = core.wake_at().filter(|_| free).map(|at| start + at);
        tokio::select! {
            Some(one) = heard.next() => hear(&mut core, &mut known, one, start.elapsed()),
            Some(outcome) = calls.next() => {
                let report = done(&mut core, &mut reporter, outcome, start.elapsed());
                if !report.is_empty() {
                    calls.push(tell(client.clone(), events.add_of(report)));
                }
            }
            Some(()) = events.next() => {}
            () = api_client::until(wake_at) => {}
        }
    }
}

/// Tells the core what came of a call; returns the calls that report it.
fn done(
    core: &mut Core,
    reporter: &mut Reporter,
    outcome: Outcome,
    elapsed: Duration,
) -> Vec<Call> {
    match outcome {
        Outcome::Reported => Vec::new(),
        Outcome::Claimed { uid, failed } => {
            core.claimed(&uid, &failed, elapsed);
            Vec::new()
        }
        Outcome::Preempted {
            pod,
            node,
            gone,
            failure,
        } => {
            if let Some(status) = &failure {
                tracing::info!(pod = pod.full_name(), %status, "not all were preempted");
            }
            core.preempted(&pod.uid, failure.is_none(), elapsed);
            let victims = gone.iter();
            victims
                .map(|victim| reporter.preempted(victim, &pod, &node, now()))
                .collect()
        }
        Outcome::Bound {
            uid,
            result,
            pod,
            node,
            grants,
            got,
        } => {
            core.granted(&pod.namespace, &grants, &got, elapsed);
            match result {
                Ok(_) => {
                    core.bound(&uid);
                    reporter.scheduled(&pod, &node, now())
                }
                Err(status) => {
                    tracing::info!(pod = pod.full_name(), %status, "not bound");
                    core.not_bound(&uid, elapsed);
                    reporter.not_bound(&pod, &status, now())
                }
            }
        }
    }
}

fn informers(client: &Client) -> impl Stream<Item = Heard> + Unpin + use<> {
    let of_group = |group, version, kind| {
        let kind = schema::kind(group, version, kind);
        Informer::of(kind.expect("the table has it").clone())
    };
    let of = |kind| of_group("", "v1", kind);
    let pods = of("Pod")
        .with_fields(PODS_NOT_OVER)
        .run(client)
        .map(Heard::Pods);
    let nodes = of("Node").run(client).map(Heard::Nodes);
    let namespaces = of("Namespace").run(client).map(Heard::Namespaces);
    let claims = claims::KINDS.into_iter().map(|(group, version, kind)| {
        let notices = of_group(group, version, kind).run(client);
        notices.map(move |one| Heard::Claims(kind, one)).boxed()
    });
    let budgets = of_group("policy", "v1", "PodDisruptionBudget");
    let budgets = budgets.run(client).map(Heard::Budgets).boxed();
    let services = of("Service").run(client).map(Heard::Services).boxed();
    let others = [pods.boxed(), nodes.boxed(), namespaces.boxed(), budgets];
    let others = others.into_iter().chain([services]);
    futures_util::stream::select_all(others.chain(claims))
}

/// Passes a notice to the core.
fn hear(core: &mut Core, known: &mut Known, heard: Heard, now: Duration) {
    match heard {
        Heard::Pods(Notice::Applied(pod)) => apply_pod(core, pod, now),
        Heard::Pods(Notice::Deleted(pod)) => core.pod_gone(object::uid(&pod), now),
        Heard::Pods(Notice::Replaced(all)) => {
            let there: HashSet<String> =
                all.iter().map(|pod| object::uid(pod).to_owned()).collect();
            core.only_pods(&there, now);
            all.into_iter().for_each(|pod| apply_pod(core, pod, now));
            known.pods = true;
        }
        Heard::Nodes(Notice::Applied(node)) => apply_node(core, node, now),
        Heard::Nodes(Notice::Deleted(node)) => core.node_gone(object::name(&node), now),
        Heard::Nodes(Notice::Replaced(all)) => {
            let names = all.iter().map(|node| object::name(node).to_owned());
            core.only_nodes(&names.collect(), now);
            all.into_iter().for_each(|node| apply_node(core, node, now));
            known.nodes = true;
        }
        Heard::Namespaces(Notice::Applied(one)) => apply_namespace(core, &one, now),
        Heard::Namespaces(Notice::Deleted(one)) => core.namespace_gone(object::name(&one)),
        Heard::Namespaces(Notice::Replaced(all)) => {
            core.only_namespaces(&all.iter().map(object::name).collect());
            all.iter().for_each(|one| apply_namespace(core, one, now));
            known.namespaces = true;
        }
        Heard::Budgets(Notice::Applied(one)) => apply_budget(core, one),
        Heard::Budgets(Notice::Deleted(one)) => {
            let (namespace, name) = (object::namespace(&one), object::name(&one));
            core.budgets().remove(namespace, name);
        }
        Heard::Budgets(Notice::Replaced(all)) => {
            core.budgets().clear();
            all.into_iter().for_each(|one| apply_budget(core, one));
            known.budgets = true;
        }
        Heard::Services(Notice::Applied(one)) => apply_service(core, &one),
        Heard::Services(Notice::Deleted(one)) => {
            let (namespace, name) = (object::namespace(&one), object::name(&one));
            core.services().remove(namespace, name);
        }
        Heard::Services(Notice::Replaced(all)) => {
            core.services().clear();
            all.iter().for_each(|one| apply_service(core, one));
            known.services = true;
        }
        Heard::Claims(kind, Notice::Applied(one)) => {
            core.claims(now, |claims| claims.set(kind, &one));
        }
        Heard::Claims(kind, Notice::Deleted(one)) => {
            core.claims(now, |claims| claims.remove(kind, &one));
        }
        Heard::Claims(kind, Notice::Replaced(all)) => {
            core.claims(now, |claims| {
                claims.clear(kind);
                all.iter().for_each(|one| claims.set(kind, one));
            });
            known.claims.insert(kind);
        }
    }
}

fn apply_pod(core: &mut Core, object: Object, now: Duration) {
    let name = object::name(&object).to_owned();
    match serde_json::from_value::<Pod>(object) {
        Ok(mut pod) => {
            pod.metadata.managed_fields = None;
            core.pod(Arc::new(pod), now);
        }
        Err(error) => tracing::warn!(%name, %error, "a pod that cannot be read is left alone"),
    }
}

fn apply_node(core: &mut Core, object: Object, now: Duration) {
    let name = object::name(&object).to_owned();
    match serde_json::from_value::<Node>(object) {
        Ok(node) => core.node(&node, now),
        Err(error) => tracing::warn!(%name, %error, "a node that cannot be read is left alone"),
    }
}

fn apply_budget(core: &mut Core, object: Object) {
    let name = object::name(&object).to_owned();
    match serde_json::from_value(object) {
        Ok(budget) => core.budgets().set(&budget),
        Err(error) => tracing::warn!(%name, %error, "a budget that cannot be read is left alone"),
    }
}

fn apply_namespace(core: &mut Core, object: &Object, now: Duration) {
    core.namespace(object::name(object), labels(object::labels(object)), now);
}

fn apply_service(core: &mut Core, object: &Object) {
    let selector = object::at(object, &["spec", "selector"]);
    let selector = labels(selector.and_then(Value::as_object));
    let (namespace, name) = (object::namespace(object), object::name(object));
    core.services().set(namespace, name, selector);
}

fn labels(of: Option<&Map<String, Value>>) -> Labels {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = of.into_iter().flatten();
    all.map(|(key, value)| (key.clone(), text(value))).collect()
}

/// Gives claims for devices to a pod, and then binds it to a node.
fn bind(
    client: Client,
    pod: Arc<PodInfo>,
    node: String,
    grants: Vec<Grant>,
) -> BoxFuture<'static, Outcome> {
    let call = Call::Bind {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        node: node.clone(),
    };
    async move {
        let (got, given) = grants::give(&client, &pod, &grants).await;
        let result = match given {
            Ok(()) => client.call(call).await,
            Err(status) => Err(status),
        };
        // Without a clear answer the pod may be bound, and use them. Else it is tried again.
        let is_refused = |status: &Status| !grants::is_unclear(status);
        if result.as_ref().is_err_and(is_refused) {
            grants::take_back(&client, &pod, &grants[..got.len()]).await;
        }
        let uid = pod.uid.clone();
        Outcome::Bound {
            uid,
            result,
            pod,
            node,
            grants,
            got,
        }
    }
    .boxed()
}

/// Asks for the volumes of a pod's claims on a node.
fn ask(client: Client, pod: &PodInfo, node: &str, plan: Plan) -> BoxFuture<'static, Outcome> {
    let bindings = plan.bind.into_iter();
    let bindings = bindings.map(|one| (one.volume.clone(), bind_volume(pod, one)));
    let bindings: Vec<(String, Call)> = bindings.collect();
    let select = |one: Selection| {
        let name = (pod.namespace.clone(), one.claim.clone());
        (name, select_node(pod, one, node))
    };
    let selections: Vec<(claims::Name, Call)> = plan.provision.into_iter().map(select).collect();
    let uid = pod.uid.clone();
    async move {
        let mut failed = Failed::default();
        for (volume, call) in bindings {
            if let Err(status) = client.call(call).await {
                tracing::info!(volume, %status, "not bound");
                failed.volumes.push(volume);
            }
        }
        for (claim, call) in selections {
            if let Err(status) = client.call(call).await {
                tracing::debug!(claim = claim.1, %status, "nobody was told");
                failed.claims.push(claim);
            }
        }
        Outcome::Claimed { uid, failed }
    }
    .boxed()
}

/// Makes a volume name a claim of a pod, as long as neither has changed. The controller of volumes
/// does the rest.
fn bind_volume(pod: &PodInfo, binding: Binding) -> Call {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": pod.namespace,
        "name": binding.claim, "uid": binding.uid, "resourceVersion": binding.claim_version,
    });
    let mut patch = json!({"metadata": {"resourceVersion": binding.version},
        "spec": {"claimRef": claim}});
    if !binding.is_prebound {
        patch["metadata"]["annotations"] = json!({claims::BOUND_BY_CONTROLLER: "yes"});
    }
    let kind = schema::kind("", "v1", "PersistentVolume");
    Call::Patch {
        kind: kind.expect("the table has it").clone(),
        namespace: String::new(),
        name: binding.volume,
        subresource: "",
        form: PatchForm::Merge,
        patch,
    }
}

/// Asks for the volume of a claim on a node, as long as the claim has not changed. One that took
/// its name, or got a node from an earlier scheduler, would get a volume where its pod may not go.
fn select_node(pod: &PodInfo, selection: Selection, node: &str) -> Call {
    let kind = schema::kind("", "v1", "PersistentVolumeClaim");
    Call::Patch {
        kind: kind.expect("the table has it").clone(),
        namespace: pod.namespace.clone(),
        name: selection.claim,
        subresource: "",
        form: PatchForm::Merge,
        patch: json!({"metadata": {
            "resourceVersion": selection.version,
            "annotations": {claims::SELECTED_NODE: node},
        }}),
    }
}

/// Makes the calls of a report that are no Events. A failed one is not retried.
fn tell(client: Client, calls: Vec<Call>) -> BoxFuture<'static, Outcome> {
    async move {
        for call in calls {
            if let Err(status) = client.call(call).await {
                tracing::debug!(%status, "nobody was told");
            }
        }
        Outcome::Reported
    }
    .boxed()
}

/// `stele-kube up` spawns all parts in one process, so the future must be `Send`.
#[cfg(test)]
#[test]
fn it_can_be_spawned() {
    fn spawnable<F: Future + Send>(_: fn(kube::Client) -> F) {}
    spawnable(|kube| run(kube, Config::default(), std::future::ready(())));
}
