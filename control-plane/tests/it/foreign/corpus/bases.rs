//! The valid objects that all requests start from, by kind.

use std::sync::Arc;

use machinery::object;
use machinery::schema::{self, Kind};
use serde_json::{Map, Value, json};

/// Valid objects by kind and name; `objects/` has those that differ between kinds.
const FILES: [&str; 6] = [
    include_str!("objects/core.json"),
    include_str!("objects/apps.json"),
    include_str!("objects/batch.json"),
    include_str!("objects/autoscaling.json"),
    include_str!("objects/networking.json"),
    include_str!("objects/rest.json"),
];
/// The valid object with the least fields.
const MINIMAL: &str = "minimal";
/// The one with the most.
const FULL: &str = "full";
/// The one that is stored, if its name cannot be chosen.
const STORED: &str = "stored";
/// Stands for the namespace in the files.
const NAMESPACE: &str = "NAMESPACE";
/// The stored objects have this label, and their collection as its value.
pub(super) const LABEL: &str = "corpus";
/// Stands for the version of the stored object in bodies.
pub(super) const VERSION: &str = "VERSION";
/// The name of the object that is read and updated.
const BASE: &str = "base";
/// The name of the object that is there for lists.
const SECOND: &str = "second";

/// A kind and its objects.
pub(super) struct Bases {
    pub(super) kind: Arc<Kind>,
    /// Valid objects with their names, that are not stored.
    pub(super) objects: Vec<(String, Value)>,
}

/// All kinds with objects, in the order of discovery.
pub(super) fn all() -> Vec<Bases> {
    let mut known: Map<String, Value> = Map::new();
    for file in FILES {
        let file: Map<String, Value> = serde_json::from_str(file).unwrap();
        known.extend(file);
    }
    let of_kind = |kind: &Arc<Kind>| {
        let objects = known.get(&key(kind))?.as_object()?;
        let objects = objects.iter();
        Some(Bases {
            kind: kind.clone(),
            objects: objects
                .map(|(name, object)| {
                    let text = object.to_string().replace(NAMESPACE, &namespace(kind));
                    (name.clone(), serde_json::from_str(&text).unwrap())
                })
                .collect(),
        })
    };
    schema::kinds().iter().filter_map(of_kind).collect()
}

/// How the files call a kind: by its collection, and what else is needed to tell it from others.
fn key(kind: &Kind) -> String {
    match (kind.group(), kind.version(), kind.plural()) {
        ("autoscaling", version, plural) => format!("{version}/{plural}"),
        ("events.k8s.io", _, plural) => format!("events.k8s.io/{plural}"),
        (_, _, plural) => plural.to_owned(),
    }
}

/// The namespace for the objects of a kind, so that no quota or limit acts on those of another.
pub(super) fn namespace(kind: &Kind) -> String {
    let version = match kind.group() {
        "autoscaling" => kind.version(),
        "events.k8s.io" => "new",
        _ => "of",
    };
    format!("{version}-{}", kind.plural())
}

impl Bases {
    /// The name of the kind in golden files, and of the file.
    pub(super) fn name(&self) -> String {
        match self.kind.group() {
            "" => self.kind.plural().to_owned(),
            group => format!("{group}.{}.{}", self.kind.version(), self.kind.plural()),
        }
    }

    /// The path of the collection.
    pub(super) fn collection(&self) -> String {
        self.collection_in(&namespace(&self.kind))
    }

    pub(super) fn collection_in(&self, namespace: &str) -> String {
        let root = match self.kind.group() {
            "" => format!("/api/{}", self.kind.version()),
            group => format!("/apis/{group}/{}", self.kind.version()),
        };
        let plural = self.kind.plural();
        if self.kind.namespaced() {
            format!("{root}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}/{plural}")
        }
    }

    /// The value of the label of stored objects.
    pub(super) fn label(&self) -> String {
        namespace(&self.kind)
    }

    fn object(&self, name: &str) -> Option<&Value> {
        let mut objects = self.objects.iter();
        objects
            .find(|(one, _)| one == name)
            .map(|(_, object)| object)
    }

    /// A named object of the files as a client sends it.
    pub(super) fn made(&self, name: &str) -> Value {
        self.dressed(self.object(name).unwrap(), "made")
    }

    /// The object that is stored: the richest.
    pub(super) fn base(&self) -> Value {
        let object = self.object(STORED).or(self.object(FULL)).unwrap();
        let mut base = self.dressed(object, BASE);
        // Nobody would take the finalizers away.
        object::metadata_mut(&mut base).remove("finalizers");
        object::set(
            &mut base,
            &["metadata", "labels", LABEL],
            self.label().into(),
        );
        base
    }

    /// The stored object as a client sends it back.
    pub(super) fn current(&self) -> Value {
        let mut current = self.base();
        object::set(
            &mut current,
            &["metadata", "resourceVersion"],
            VERSION.into(),
        );
        current
    }

    /// A second object, for lists, if names can be chosen.
    pub(super) fn second(&self) -> Option<Value> {
        let object = self.object(MINIMAL).filter(|_| self.names_are_free())?;
        let mut second = self.dressed(object, SECOND);
        object::metadata_mut(&mut second).insert("labels".into(), json!({LABEL: self.label()}));
        Some(second)
    }

    /// True if an object may have any name.
    pub(super) fn names_are_free(&self) -> bool {
        self.object(STORED).is_none()
    }

    fn dressed(&self, object: &Value, name: &str) -> Value {
        let mut dressed = object.clone();
        object::set_type(&mut dressed, &self.kind.api_version(), self.kind.kind());
        let metadata = object::metadata_mut(&mut dressed);
        // Reviews are answered, not stored, and have no name.
        if self.kind.has_verb("get") || self.kind.plural() == "bindings" {
            metadata.entry("name").or_insert(name.into());
        }
        if self.kind.namespaced() {
            metadata.insert("namespace".into(), namespace(&self.kind).into());
        }
        dressed
    }
}
