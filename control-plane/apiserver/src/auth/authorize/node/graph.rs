//! Which objects belong to which node:
//!
//! ```text
//! pod, volume attachment, resource slice             -> node
//! secret, config map, claim, service account,
//! resource claim                             -> pod  -> node
//! volume                            -> claim -> pod  -> node
//! secret                  -> volume -> claim -> pod  -> node
//! ```
//!
//! A pod counts from its binding to its deletion. An object belongs to a node as soon as a pod
//! there names it, even if it does not exist yet.

use std::collections::{BTreeSet, HashMap};

use machinery::object::{self, MIRROR_POD};
use serde_json::Value;

use super::references;
use crate::auth::follow::View;

/// The sort of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Sort {
    Attachment,
    Claim,
    ConfigMap,
    Pod,
    ResourceClaim,
    ResourceSlice,
    Secret,
    ServiceAccount,
    Volume,
}

/// An object, which need not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Vertex {
    sort: Sort,
    namespace: Box<str>,
    name: Box<str>,
}

/// The relations between objects and nodes.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// What each object that names others contributes.
    sources: HashMap<Vertex, Vec<Edge>>,
    /// The nodes of an object, with the number of edges to each.
    nodes: HashMap<Vertex, HashMap<Box<str>, usize>>,
    /// The objects that use an object: volumes of a secret, the claim of a volume. They have no
    /// cycles: no claim uses anything.
    users: HashMap<Vertex, BTreeSet<Vertex>>,
}

#[derive(Debug)]
enum Edge {
    /// From an object to a node.
    Node(Vertex, Box<str>),
    /// From an object to one that uses it.
    User(Vertex, Vertex),
}

impl Vertex {
    pub(super) fn new(sort: Sort, namespace: &str, name: &str) -> Vertex {
        Vertex {
            sort,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl Graph {
    /// True if an object belongs to a node.
    pub(super) fn belongs_to(&self, object: &Vertex, node: &str) -> bool {
        let nodes = self.nodes.get(object);
        let users = self.users.get(object).into_iter().flatten();
        nodes.is_some_and(|nodes| nodes.contains_key(node))
            || users.into_iter().any(|user| self.belongs_to(user, node))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.nodes.is_empty() && self.users.is_empty()
    }

    fn replace(&mut self, source: Vertex, edges: Vec<Edge>) {
        self.forget(&source);
        for edge in &edges {
            match edge {
                Edge::Node(object, node) => {
                    let nodes = self.nodes.entry(object.clone()).or_default();
                    *nodes.entry(node.clone()).or_default() += 1;
                }
                Edge::User(object, user) => {
                    let users = self.users.entry(object.clone()).or_default();
                    users.insert(user.clone());
                }
            }
        }
        if !edges.is_empty() {
            self.sources.insert(source, edges);
        }
    }

    fn forget(&mut self, source: &Vertex) {
        for edge in self.sources.remove(source).unwrap_or_default() {
            match edge {
                Edge::Node(object, node) => {
                    let Some(nodes) = self.nodes.get_mut(&object) else {
                        continue;
                    };
                    if let Some(count) = nodes.get_mut(&node) {
                        *count -= 1;
                    }
                    nodes.retain(|_, count| *count > 0);
                    if nodes.is_empty() {
                        self.nodes.remove(&object);
                    }
                }
                Edge::User(object, user) => {
                    // Only a volume is a user, of its secrets, or has one: it has all these edges.
                    if let Some(users) = self.users.get_mut(&object) {
                        users.remove(&user);
                        if users.is_empty() {
                            self.users.remove(&object);
                        }
                    }
                }
            }
        }
    }
}

impl View for Graph {
    const COLLECTIONS: &'static [[&'static str; 3]] = &[
        ["", "v1", "pods"],
        ["", "v1", "persistentvolumes"],
        ["storage.k8s.io", "v1", "volumeattachments"],
        ["resource.k8s.io", "v1", "resourceslices"],
    ];

    fn put(&mut self, kind: &str, object: &Value) {
        let (namespace, name) = (object::namespace(object), object::name(object));
        let Some(source) = source(kind, namespace, name) else {
            return;
        };
        let node = object::text(object, &["spec", "nodeName"]);
        let edges = match source.sort {
            Sort::Volume => of_volume(&source, object),
            // It is not bound yet.
            _ if node.is_empty() => Vec::new(),
            Sort::Pod => of_pod(&source, object, node),
            _ => vec![Edge::Node(source.clone(), node.into())],
        };
        self.replace(source, edges);
    }

    fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        if let Some(source) = source(kind, namespace, name) {
            self.forget(&source);
        }
    }
}

fn source(kind: &str, namespace: &str, name: &str) -> Option<Vertex> {
    let sort = match kind {
        "Pod" => Sort::Pod,
        "PersistentVolume" => Sort::Volume,
        "VolumeAttachment" => Sort::Attachment,
        "ResourceSlice" => Sort::ResourceSlice,
        _ => return None,
    };
    Some(Vertex::new(sort, namespace, name))
}

fn of_pod(source: &Vertex, pod: &Value, node: &str) -> Vec<Edge> {
    let mut used = vec![source.clone()];
    // A mirror pod is written by the node itself. It must not open anything to it.
    if object::annotation(pod, MIRROR_POD).is_none() {
        let mut uses = |sort, name: &str| {
            if !name.is_empty() {
                used.push(Vertex::new(sort, &source.namespace, name));
            }
        };
        let account = object::text(pod, &["spec", "serviceAccountName"]);
        uses(Sort::ServiceAccount, account);
        for secret in references::secrets(pod) {
            uses(Sort::Secret, secret);
        }
        for map in references::config_maps(pod) {
            uses(Sort::ConfigMap, map);
        }
        for claim in references::claims(pod) {
            uses(Sort::Claim, &claim);
        }
        for claim in references::resource_claims(pod) {
            uses(Sort::ResourceClaim, claim);
        }
    }
    used.sort();
    used.dedup();
    let edges = used.into_iter();
    edges.map(|used| Edge::Node(used, node.into())).collect()
}

fn of_volume(source: &Vertex, volume: &Value) -> Vec<Edge> {
    let claim = |key| object::text(volume, &["spec", "claimRef", key]);
    if claim("name").is_empty() {
        return Vec::new();
    }
    let claim = Vertex::new(Sort::Claim, claim("namespace"), claim("name"));
    let secrets = references::secrets_of_volume(volume).into_iter();
    let secrets = secrets.map(|(namespace, name)| {
        Edge::User(Vertex::new(Sort::Secret, namespace, name), source.clone())
    });
    let mut edges: Vec<_> = secrets.collect();
    edges.push(Edge::User(source.clone(), claim));
    edges
}
