//! The kinds that the apiserver serves, as its discovery lists them. They come and go while the
//! loops run.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use machinery::object::{self, Object};
use machinery::schema::{self, Kind, Names, Scope};
use serde_json::Value;

/// Verbs of a kind whose objects can be watched and deleted.
const COLLECTED: [&str; 3] = ["delete", "list", "watch"];

/// The served kinds. Those of the table are the table's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    /// By group, version and kind.
    named: HashMap<(String, String, String), Arc<Kind>>,
    /// Of each group and plural the preferred version that can be listed.
    preferred: BTreeMap<(String, String), Arc<Kind>>,
    /// Versions of groups whose kinds nobody knows: their servers were never reached.
    unseen: BTreeSet<String>,
    /// The versions of each group, the preferred one first.
    versions: BTreeMap<String, Vec<String>>,
}

impl Kinds {
    /// The kinds of the aggregated discovery documents of `/api` and `/apis`.
    pub(crate) fn read<'a>(documents: impl IntoIterator<Item = &'a Object>) -> Kinds {
        let mut kinds = Kinds::default();
        let groups = documents
            .into_iter()
            .flat_map(|one| object::items(one, &["items"]));
        for group in groups {
            let name = object::text(group, &["metadata", "name"]);
            for version in object::items(group, &["versions"]) {
                let number = object::text(version, &["version"]);
                let resources = object::items(version, &["resources"]);
                let versions = kinds.versions.entry(name.to_owned()).or_default();
                if !versions.iter().any(|one| one == number) {
                    versions.push(number.to_owned());
                }
                if resources.is_empty() && version["freshness"] == "Stale" {
                    kinds.unseen.insert(format!("{name}/{number}"));
                }
                for resource in resources {
                    kinds.add(kind(name, number, resource), resource);
                }
            }
        }
        kinds
    }

    /// Adds a kind; of two versions the first is preferred.
    fn add(&mut self, kind: Arc<Kind>, resource: &Value) {
        let text = |text: &str| text.to_owned();
        let name = (text(kind.group()), text(kind.version()), text(kind.kind()));
        let verbs = object::items(resource, &["verbs"]);
        if verbs.iter().any(|verb| verb == "list") {
            let place = (text(kind.group()), text(kind.plural()));
            self.preferred
                .entry(place)
                .or_insert_with(|| Arc::clone(&kind));
        }
        self.named.insert(name, kind);
    }

    /// The kind that an `apiVersion` and a `kind` name, if it is served.
    pub(crate) fn named(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        let (group, version) = schema::split_api_version(api_version);
        let name = (group.to_owned(), version.to_owned(), kind.to_owned());
        self.named.get(&name)
    }

    /// The kind of this name in a group, in the preferred version, if it can be listed.
    pub(crate) fn of_group(&self, group: &str, kind: &str) -> Option<&Arc<Kind>> {
        let mut kinds = self.preferred.values();
        kinds.find(|one| one.group() == group && one.kind() == kind)
    }

    /// The versions of a group, the preferred one first.
    pub(crate) fn versions(&self, group: &str) -> &[String] {
        self.versions.get(group).map_or(&[], Vec::as_slice)
    }

    /// The versions of groups, such as `metrics.k8s.io/v1`, whose kinds nobody knows.
    pub(crate) fn unseen(&self) -> &BTreeSet<String> {
        &self.unseen
    }

    /// The kinds that can own and be owned, so that the garbage collector must know them.
    pub(crate) fn collected(&self) -> impl Iterator<Item = &Arc<Kind>> {
        let kinds = self.preferred.values();
        kinds.filter(|kind| COLLECTED.iter().all(|verb| kind.has_verb(verb)) && !is_event(kind))
    }

    /// The kinds whose objects can be in a namespace, each once.
    pub(crate) fn in_namespaces(&self) -> impl Iterator<Item = &Arc<Kind>> {
        let kinds = self.preferred.values();
        kinds.filter(|kind| {
            // The newer events are the older ones once more.
            let doubled = kind.group() == "events.k8s.io" && is_event(kind);
            kind.namespaced() && kind.has_verb("deletecollection") && !doubled
        })
    }

    /// True if these documents list the same kinds of named groups.
    pub(crate) fn agree_with(&self, groups: &Object) -> bool {
        let Kinds {
            named: other,
            unseen,
            versions,
            ..
        } = Kinds::read([groups]);
        let own_versions = self.versions.iter().filter(|(group, _)| !group.is_empty());
        let mut own = self
            .named
            .iter()
            .filter(|((group, ..), _)| !group.is_empty());
        self.unseen == unseen
            && own_versions.eq(versions.iter())
            && own.clone().count() == other.len()
            && own.all(|(name, kind)| other.get(name) == Some(kind))
    }
}

/// Events are not watched: there are too many, and they expire by themselves.
pub(crate) fn is_event(kind: &Kind) -> bool {
    kind.kind() == "Event" && ["", "events.k8s.io"].contains(&kind.group())
}

/// The kind that discovery describes: the table's own if it has that.
fn kind(group: &str, version: &str, resource: &Value) -> Arc<Kind> {
    let text = |key: &str| object::text(resource, &[key]).to_owned();
    let plural = text("resource");
    if let Some(known) = schema::resource(group, version, &plural) {
        return Arc::clone(known);
    }
    let list = |key: &str| {
        let all = object::items(resource, &[key]).iter();
        let texts = all.filter_map(Value::as_str);
        texts.map(|text| text.to_owned().into()).collect()
    };
    let kind = object::text(resource, &["responseKind", "kind"]).to_owned();
    let names = Names {
        list_kind: format!("{kind}List").into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: text("singularResource").into(),
        short_names: list("shortNames"),
        categories: list("categories"),
    };
    let scope = match text("scope").as_str() {
        "Namespaced" => Scope::Namespaced,
        _ => Scope::Cluster,
    };
    let verbs = object::items(resource, &["verbs"]).iter();
    let verbs = verbs.filter_map(Value::as_str);
    Arc::new(Kind::custom(group.into(), version.into(), names, scope).with_verbs(verbs))
}
