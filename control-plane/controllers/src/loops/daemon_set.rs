//! Daemon sets: a pod on each node that should have one; a rollout replaces pods node by node.
//!
//! Each decision first sees to the history of the template, then to nodes with too few or too many
//! pods, then to pods of earlier templates. The responses to its writes wake the loop for the next
//! step.

mod history;
mod manage;
mod placement;
mod rollout;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, DaemonSetSpec, RollingUpdateDaemonSet,
};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use machinery::intstr;

use crate::cache::{Caches, Changed, Diff, REVISION_HASH};
use crate::decision::{Decision, controller_key};
use crate::known::{Key, Known, Shared};
use crate::loops::{Context, Loop};
use crate::{meta, pods};
use placement::{Fit, Placement, target};

/// Annotation: counts the templates of a daemon set. A pod has it as a label.
const GENERATION: &str = "deprecated.daemonset.template.generation";
const GENERATION_LABEL: &str = "pod-template-generation";

pub(crate) struct DaemonSets;

impl Loop for DaemonSets {
    fn name(&self) -> &'static str {
        "daemonset"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::DaemonSet(Diff { old, new }) => {
                let set = new.as_ref().or(old.as_ref());
                set.into_iter()
                    .for_each(|set| wake(meta::key(&set.metadata)));
            }
            Changed::Pod(diff) => owners_of(caches, diff, wake),
            Changed::ControllerRevision(diff) => owners_of(caches, diff, wake),
            Changed::Node(Diff {
                old,
                new: Some(node),
            }) if old.as_ref().is_none_or(|old| places_anew(old, node)) => {
                concerned(caches, node).for_each(wake);
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let set = caches.daemon_sets.at(key);
        let set = set.filter(|set| !meta::is_deleting(&set.metadata));
        let Some((set, spec)) = set.and_then(|set| Some((set, set.spec.as_ref()?))) else {
            return Decision::nothing();
        };
        let Some(selector) = meta::selector(&spec.selector) else {
            return Decision::nothing();
        };
        let (claimed, claims) = pods::claim(set.as_ref(), &caches.pods, &selector);
        let mut decision = Decision::nothing();
        for call in claims {
            decision.push(call);
        }
        if !decision.steps.is_empty() {
            return decision;
        }
        let history = history::keep_up(context, set, &selector, &claimed, &mut decision);
        let Some(history) = history else {
            return decision;
        };
        let view = View::of(context, set, spec, &claimed, history);
        view.decide(&claimed, &mut decision);
        decision
    }
}

/// Wakes the daemon sets that own an object, or may adopt it.
fn owners_of<T: Known>(caches: &Caches, diff: &Diff<T>, wake: &mut dyn FnMut(Key)) {
    let selector = |set: &DaemonSet| meta::selector(&set.spec.as_ref()?.selector);
    pods::wake_owners(&caches.daemon_sets, selector, diff, wake);
}

/// True if a node changed in what decides where pods go.
fn places_anew(old: &Node, new: &Node) -> bool {
    let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
    old.metadata.labels != new.metadata.labels || taints(old) != taints(new)
}

/// The daemon sets that lack a pod on a node, have one there that should go, or count one there
/// that was misplaced.
fn concerned<'a>(caches: &'a Caches, node: &'a Node) -> impl Iterator<Item = Key> + 'a {
    caches.daemon_sets.all().filter_map(|set| {
        let spec = set.spec.as_ref()?.template.spec.as_ref()?;
        let fit = Placement::of(spec).fit(node);
        let key = meta::key(&set.metadata);
        let mut there = caches.pods.placed_at(meta::name(&node.metadata));
        let has = there.any(|pod| controller_key::<DaemonSet, Pod>(pod).as_ref() == Some(&key));
        let misplaced = set
            .status
            .as_ref()
            .is_some_and(|s| s.number_misscheduled > 0);
        let wakes = match fit {
            Fit::Runs if !has => true,
            Fit::Leaves if has => true,
            _ => has && misplaced,
        };
        wakes.then_some(key)
    })
}

/// The revisions of a daemon set's template.
struct History {
    /// The hash of the current one.
    hash: String,
    /// The earlier ones, oldest first.
    old: Vec<Shared<ControllerRevision>>,
}

/// A daemon set, its nodes and its pods, as one decision sees them.
struct View<'a> {
    context: &'a Context<'a>,
    set: &'a Shared<DaemonSet>,
    spec: &'a DaemonSetSpec,
    history: History,
    nodes: BTreeMap<&'a str, Fit>,
    /// The pods on each node or tied to it, the one that counts first.
    pods: BTreeMap<&'a str, Vec<&'a Shared<Pod>>>,
}

impl<'a> View<'a> {
    fn of(
        context: &'a Context<'a>,
        set: &'a Shared<DaemonSet>,
        spec: &'a DaemonSetSpec,
        claimed: &'a [Shared<Pod>],
        history: History,
    ) -> View<'a> {
        let bare = PodSpec::default();
        let placement = Placement::of(spec.template.spec.as_ref().unwrap_or(&bare));
        let nodes = context.caches.nodes.all();
        let nodes = nodes.map(|node| (meta::name(&node.metadata), placement.fit(node)));
        let mut by_node: BTreeMap<&str, Vec<&Shared<Pod>>> = BTreeMap::new();
        // Nothing is left to do for a pod that has ended and is being deleted.
        let ends = |pod: &Pod| meta::is_deleting(&pod.metadata) && pods::is_finished(pod);
        for pod in claimed.iter().filter(|pod| !ends(pod)) {
            if let Some(node) = target(pod) {
                by_node.entry(node).or_default().push(pod);
            }
        }
        for pods in by_node.values_mut() {
            pods.sort_by_key(|pod: &&'a Shared<Pod>| {
                let pod: &'a Pod = pod;
                let unbound = pods::node(pod).is_empty();
                let metadata = &pod.metadata;
                (unbound, meta::created(metadata), meta::name(metadata))
            });
        }
        View {
            context,
            set,
            spec,
            history,
            nodes: nodes.collect(),
            pods: by_node,
        }
    }

    fn decide(&self, claimed: &[Shared<Pod>], into: &mut Decision) {
        // First, because a failing call stops the rest.
        status::tell(self, into);
        let told = into.steps.len();
        manage::mend(self, into);
        if into.steps.len() == told {
            rollout::roll(self, into);
        }
        history::clean_up(self, claimed, into);
    }

    /// What `RollingUpdate` says; `None` for `OnDelete`.
    fn rolling(&self) -> Option<&RollingUpdateDaemonSet> {
        let strategy = self.spec.update_strategy.as_ref()?;
        let rolls = strategy.type_.as_deref() == Some("RollingUpdate");
        strategy.rolling_update.as_ref().filter(|_| rolls)
    }

    /// On how many of these nodes an old and a new pod may be at once.
    fn surge(&self, nodes: usize) -> usize {
        let most = self
            .rolling()
            .and_then(|rolling| rolling.max_surge.as_ref());
        most.map_or(0, |most| part(most, nodes))
    }

    /// On how many of these nodes a rollout may leave no available pod.
    fn unavailable(&self, nodes: usize) -> usize {
        let most = self
            .rolling()
            .and_then(|rolling| rolling.max_unavailable.as_ref());
        let most = most.map_or(0, |most| part(most, nodes));
        // With neither the rollout could never make a step.
        if most == 0 && self.surge(nodes) == 0 {
            1
        } else {
            most
        }
    }

    fn on(&self, node: &str) -> &[&'a Shared<Pod>] {
        self.pods.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// True if a pod was made from the current template.
    fn is_new(&self, pod: &Pod) -> bool {
        let label = |key| meta::label(&pod.metadata, key);
        let generation = generation(self.set);
        label(REVISION_HASH) == Some(&self.history.hash)
            || generation.is_some() && label(GENERATION_LABEL).map(str::to_owned) == generation
    }

    /// True if a pod has been ready for long enough. Looks again when it will have been.
    fn is_available(&self, pod: &Pod, into: &mut Decision) -> bool {
        let min_ready = meta::seconds(self.spec.min_ready_seconds.unwrap_or(0));
        match pods::available(pod, min_ready, self.context.now) {
            Ok(()) => true,
            Err(left) => {
                into.again_if(left);
                false
            }
        }
    }
}

/// A number of nodes, or a percentage of them rounded up.
fn part(value: &IntOrString, nodes: usize) -> usize {
    let value = serde_json::to_value(value).unwrap_or_default();
    let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
    let part = intstr::scaled(&value, nodes, true).unwrap_or(0);
    usize::try_from(part).unwrap_or(0)
}

/// The number of the template in older versions of Kubernetes, which pods get as a label.
fn generation(set: &DaemonSet) -> Option<String> {
    let text = meta::annotation(&set.metadata, GENERATION)?;
    text.parse::<i64>().ok().map(|number| number.to_string())
}
