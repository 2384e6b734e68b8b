//! The paths of kinds in OpenAPI v2: collections and their objects.

use machinery::schema::Kind;
use serde_json::{Map, Value, json};

use super::OF_V2;
use crate::http::openapi::{custom, name_of, path_of};
use crate::http::question::patch;

/// The schema of patches.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const TEXTS: &[&str] = &["application/json", "application/yaml"];
const ALL: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
/// Query parameters of each action besides `pretty`, with their types.
const OF_LISTS: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const OF_WRITES: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const OF_PATCHES: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];
const OF_DELETIONS: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// What a verb is in the paths.
struct Action {
    verb: &'static str,
    method: &'static str,
    /// `x-kubernetes-action`.
    action: &'static str,
    /// The beginning of the operation's name.
    begins: &'static str,
    /// What precedes the kind in the operation's name.
    of: &'static str,
    parameters: &'static [(&'static str, &'static str)],
}

const OF_COLLECTIONS: [Action; 3] = [
    Action {
        verb: "list",
        method: "get",
        action: "list",
        begins: "list",
        of: "",
        parameters: OF_LISTS,
    },
    Action {
        verb: "create",
        method: "post",
        action: "post",
        begins: "create",
        of: "",
        parameters: OF_WRITES,
    },
    Action {
        verb: "deletecollection",
        method: "delete",
        action: "deletecollection",
        begins: "delete",
        of: "Collection",
        parameters: OF_DELETIONS,
    },
];
const OF_OBJECTS: [Action; 4] = [
    Action {
        verb: "get",
        method: "get",
        action: "get",
        begins: "read",
        of: "",
        parameters: &[],
    },
    Action {
        verb: "update",
        method: "put",
        action: "put",
        begins: "replace",
        of: "",
        parameters: OF_WRITES,
    },
    Action {
        verb: "patch",
        method: "patch",
        action: "patch",
        begins: "patch",
        of: "",
        parameters: OF_PATCHES,
    },
    Action {
        verb: "delete",
        method: "delete",
        action: "delete",
        begins: "delete",
        of: "",
        parameters: OF_DELETIONS,
    },
];

/// A kind, as its paths show it.
struct Shape<'a> {
    kind: &'a Kind,
    /// The names of the schemas of objects and of lists.
    schema: String,
    list: String,
    media_types: &'static [&'static str],
    patches: &'static [&'static str],
}

/// Adds the paths of a kind of the table.
pub(super) fn add_builtin(paths: &mut Map<String, Value>, kind: &Kind) {
    let schema = name_of(kind.message());
    let list = format!("{schema}List");
    let shape = Shape {
        kind,
        schema,
        list,
        media_types: ALL,
        patches: &patch::MEDIA_TYPES,
    };
    shape.add(paths);
}

/// Adds the paths of a custom resource.
pub(super) fn add_custom(paths: &mut Map<String, Value>, kind: &Kind) {
    let shape = Shape {
        kind,
        schema: custom::name_of(kind, kind.kind()),
        list: custom::name_of(kind, kind.list_kind()),
        media_types: TEXTS,
        patches: &patch::OF_CUSTOM,
    };
    shape.add(paths);
}

impl Shape<'_> {
    fn add(&self, paths: &mut Map<String, Value>) {
        let kind = self.kind;
        let base = format!("/{}", path_of(kind.group(), kind.version()));
        let collection = if kind.namespaced() {
            format!("{base}/namespaces/{{namespace}}/{}", kind.plural())
        } else {
            format!("{base}/{}", kind.plural())
        };
        let object = format!("{collection}/{{name}}");
        self.add_path(paths, collection, &OF_COLLECTIONS, false);
        self.add_path(paths, object, &OF_OBJECTS, true);
    }

    fn add_path(
        &self,
        paths: &mut Map<String, Value>,
        path: String,
        actions: &[Action],
        named: bool,
    ) {
        let served = actions.iter().filter(|one| self.kind.has_verb(one.verb));
        let mut item: Map<String, Value> = served
            .map(|action| (action.method.to_owned(), self.operation(action)))
            .collect();
        if item.is_empty() {
            return;
        }
        let in_path = |name: &str| json!({"name": name, "in": "path", "required": true, "type": "string", "uniqueItems": true});
        let mut parameters = Vec::new();
        if named {
            parameters.push(in_path("name"));
        }
        if self.kind.namespaced() {
            parameters.push(in_path("namespace"));
        }
        parameters.push(in_query("pretty", "string"));
        item.insert("parameters".into(), parameters.into());
        paths.insert(path, item.into());
    }

    fn operation(&self, action: &Action) -> Value {
        let kind = self.kind;
        let (group, version) = (group_of(kind), kind.version());
        let scope = if kind.namespaced() { "Namespaced" } else { "" };
        let id = [
            action.begins,
            &capital(&group),
            &capital(version),
            action.of,
            scope,
            kind.kind(),
        ];
        let mut parameters = Vec::new();
        parameters.extend(self.body(action));
        let queries = action.parameters.iter();
        parameters.extend(queries.map(|(name, kind)| in_query(name, kind)));
        let mut operation = json!({
            "operationId": id.concat(),
            "tags": [format!("{group}_{version}")],
            "schemes": ["https"],
            "consumes": match action.method {
                "patch" => json!(self.patches),
                "get" => json!(["*/*"]),
                _ => json!(self.media_types),
            },
            "produces": self.media_types,
            "responses": self.responses(action),
            "x-kubernetes-action": action.action,
            "x-kubernetes-group-version-kind":
                {"group": kind.group(), "version": version, "kind": kind.kind()},
        });
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        operation
    }

    /// The parameter for the body of the request, if it has one.
    fn body(&self, action: &Action) -> Option<Value> {
        let schema = match action.method {
            "post" | "put" => self.schema.as_str(),
            "patch" => PATCH,
            "delete" => DELETE_OPTIONS,
            _ => return None,
        };
        let mut body = json!({"name": "body", "in": "body", "schema": to(schema)});
        if action.method != "delete" {
            body["required"] = true.into();
        }
        Some(body)
    }

    fn responses(&self, action: &Action) -> Value {
        let schema = match action.action {
            "list" => self.list.as_str(),
            "delete" | "deletecollection" => STATUS,
            _ => self.schema.as_str(),
        };
        let codes: &[(&str, &str)] = match action.action {
            "post" => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
            "put" | "patch" => &[("200", "OK"), ("201", "Created")],
            "delete" => &[("200", "OK"), ("202", "Accepted")],
            _ => &[("200", "OK")],
        };
        let good = codes.iter().map(|(code, description)| {
            let response = json!({"description": description, "schema": to(schema)});
            ((*code).to_owned(), response)
        });
        let mut all: Map<String, Value> = good.collect();
        all.insert("401".into(), json!({"description": "Unauthorized"}));
        all.into()
    }
}

fn in_query(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "type": kind, "uniqueItems": true})
}

fn to(schema: &str) -> Value {
    json!({"$ref": format!("{OF_V2}{schema}")})
}

/// A group as the names of operations have it: `rbac.authorization.k8s.io` is `rbacAuthorization`.
fn group_of(kind: &Kind) -> String {
    if kind.group().is_empty() {
        return "core".to_owned();
    }
    let group = kind.group().trim_end_matches(".k8s.io");
    let words = group.split('.').enumerate();
    let words = words.map(|(at, word)| {
        if at == 0 {
            word.to_owned()
        } else {
            capital(word)
        }
    });
    words.collect()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
