//! How many of the placed pods are on each node, counted for all pods at once that selectors and rules
//! cannot tell apart. Ten thousand pods of one Deployment are one entry, so a rule that looks at all
//! pods does not look at each of them for each new pod.

use std::collections::HashMap;
use std::hash::Hash;

use crate::affinity::{Labels, PodTerm};
use crate::pod::{PodInfo, Who};

/// The number of pods on each node, by the name of the node. Invariant: none is 0.
pub type Places = HashMap<String, i64>;

/// Wishes of pods about the pods near them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wishes {
    pub affinity: Vec<PodTerm>,
    /// With weights; negative weights are anti-affinity.
    pub preferences: Vec<(i64, PodTerm)>,
}

/// The placed pods, in groups.
#[derive(Debug, Default)]
pub struct Index {
    /// By namespace and labels.
    groups: HashMap<String, HashMap<Labels, Group>>,
    /// The pods of a controller that are not being deleted, by namespace and uid of the controller.
    owned: HashMap<(String, String), Places>,
    anti_affinity: HashMap<Vec<PodTerm>, Places>,
    wishes: HashMap<Wishes, Places>,
    /// How often pods use each claim for a volume, by namespace and name. Invariant: none is 0.
    claimed: HashMap<(String, String), i64>,
}

/// Pods with the same labels.
#[derive(Debug, Default)]
struct Group {
    all: Places,
    /// Those that are not being deleted.
    staying: Places,
}

/// The pods that count for a spread, by node.
#[derive(Debug)]
pub enum Counted<'a> {
    None,
    Group(&'a Places),
    Groups(HashMap<&'a str, i64>),
}

impl Counted<'_> {
    /// The number of pods on a node.
    pub fn on(&self, node: &str) -> i64 {
        let found = match self {
            Counted::None => None,
            Counted::Group(places) => places.get(node),
            Counted::Groups(sums) => sums.get(node),
        };
        found.copied().unwrap_or(0)
    }
}

impl Index {
    /// Counts a pod on a node.
    pub fn add(&mut self, node: &str, pod: &PodInfo) {
        self.change(node, pod, 1);
    }

    /// Counts it no longer.
    pub fn remove(&mut self, node: &str, pod: &PodInfo) {
        self.change(node, pod, -1);
    }

    /// The pods of a namespace that count for a spread. A selector of everything counts nothing, as in
    /// Go.
    pub fn counted(&self, namespace: &str, who: &Who) -> Counted<'_> {
        let selector = match who {
            Who::OwnedBy(owner) => {
                let owned = self.owned.get(&(namespace.to_owned(), owner.clone()));
                return owned.map_or(Counted::None, Counted::Group);
            }
            Who::Selected(selector) if selector.is_everything() => return Counted::None,
            Who::Selected(selector) => selector,
        };
        let groups = self.groups.get(namespace).into_iter().flatten();
        let mut selected = groups.filter(|(labels, _)| selector.matches(labels));
        let Some((_, first)) = selected.next() else {
            return Counted::None;
        };
        let Some((_, second)) = selected.next() else {
            return Counted::Group(&first.staying);
        };
        let mut sums = HashMap::new();
        let groups = [first, second].into_iter();
        for group in groups.chain(selected.map(|(_, group)| group)) {
            for (node, count) in &group.staying {
                *sums.entry(node.as_str()).or_default() += count;
            }
        }
        Counted::Groups(sums)
    }

    /// All pods: namespace and labels, and where they are.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &Labels, &Places)> {
        self.groups.iter().flat_map(|(namespace, groups)| {
            let groups = groups.iter();
            groups.map(move |(labels, group)| (namespace.as_str(), labels, &group.all))
        })
    }

    /// Required anti-affinity, and where the pods are that have it.
    pub fn anti_affinity(&self) -> impl Iterator<Item = (&[PodTerm], &Places)> {
        let all = self.anti_affinity.iter();
        all.map(|(terms, places)| (terms.as_slice(), places))
    }

    /// Wishes about later pods, and where the pods are that have them.
    pub fn wishes(&self) -> impl Iterator<Item = (&Wishes, &Places)> {
        self.wishes.iter()
    }

    /// True if a pod uses one of these claims for volumes, by namespace and name.
    pub fn has_claimed(&self, claims: &[(String, String)]) -> bool {
        claims.iter().any(|claim| self.claimed.contains_key(claim))
    }

    fn change(&mut self, node: &str, pod: &PodInfo, by: i64) {
        let namespace = || pod.namespace.clone();
        let groups = self.groups.entry(namespace()).or_default();
        let group = groups.entry(pod.labels.clone()).or_default();
        change(&mut group.all, node, by);
        if !pod.ending {
            change(&mut group.staying, node, by);
        }
        if group.all.is_empty() {
            groups.remove(&pod.labels);
        }
        if groups.is_empty() {
            self.groups.remove(&pod.namespace);
        }
        if let Some(owner) = pod.owner.clone().filter(|_| !pod.ending) {
            change_in(&mut self.owned, (namespace(), owner), node, by);
        }
        if !pod.anti_affinity.is_empty() {
            let terms = pod.anti_affinity.clone();
            change_in(&mut self.anti_affinity, terms, node, by);
        }
        for volume in pod.volume_claims.iter().filter(|one| !one.ephemeral) {
            let claim = (namespace(), volume.claim.clone());
            let uses = self.claimed.entry(claim.clone()).or_default();
            *uses += by;
            if *uses == 0 {
                self.claimed.remove(&claim);
            }
        }
        if !pod.affinity.is_empty() || !pod.pod_preferences.is_empty() {
            let wishes = Wishes {
                affinity: pod.affinity.clone(),
                preferences: pod.pod_preferences.clone(),
            };
            change_in(&mut self.wishes, wishes, node, by);
        }
    }
}

fn change_in<K: Eq + Hash + Clone>(all: &mut HashMap<K, Places>, key: K, node: &str, by: i64) {
    let places = all.entry(key.clone()).or_default();
    change(places, node, by);
    if places.is_empty() {
        all.remove(&key);
    }
}

fn change(places: &mut Places, node: &str, by: i64) {
    match places.get_mut(node) {
        Some(count) => {
            *count += by;
            if *count == 0 {
                places.remove(node);
            }
        }
        None => drop(places.insert(node.to_owned(), by)),
    }
}
