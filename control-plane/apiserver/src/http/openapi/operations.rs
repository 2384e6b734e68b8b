//! The operations of kinds: which paths there are, and what each takes and gives. OpenAPI v2 and v3
//! write the same operations differently.

mod action;
mod parameters;
pub(super) mod v2;
pub(super) mod v3;

use std::borrow::Cow;

use machinery::schema::{Kind, Subresource};
use serde_json::{Map, Value, json};

use self::action::Action::{
    self, Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch, WatchList,
};
use self::parameters::Parameter;
use super::texts::Texts;
use super::{TYPE, capital, path_of};

pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
/// What plain answers and bodies may be written in.
const ANY: &[&str] = &["*/*"];

/// A path and what can be done there.
pub(super) struct Path {
    pub(super) path: String,
    pub(super) operations: Vec<Operation>,
}

pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) description: String,
    pub(super) id: String,
    pub(super) tag: String,
    /// `x-kubernetes-action`; empty if it is about no kind.
    pub(super) action: &'static str,
    /// The group, version and kind that it is about.
    pub(super) of: Option<(String, String, String)>,
    pub(super) parameters: Vec<Parameter>,
    /// The schema of the body, and whether there must be one.
    pub(super) body: Option<(String, bool)>,
    pub(super) consumes: &'static [&'static str],
    pub(super) produces: Vec<&'static str>,
    /// The codes and what they mean.
    pub(super) codes: &'static [(&'static str, &'static str)],
    /// The schema of a good answer; without one it is text.
    pub(super) answer: Option<String>,
}

/// What each version of OpenAPI writes in its own way: an operation with its own parameters, and a
/// parameter.
pub(super) struct Form {
    operation: fn(&Operation, &[Parameter], &Texts) -> Value,
    parameter: fn(&Parameter, &Texts) -> Value,
}

/// The paths of a document, each made when it is written.
pub(super) fn paths<'a>(
    all: &'a [Path],
    texts: &'a Texts,
    form: Form,
) -> impl Iterator<Item = (String, Value)> + 'a {
    all.iter().map(move |path| {
        let common = path.common();
        let operations = path.operations.iter().map(|operation| {
            let written = (form.operation)(operation, &operation.own(&common), texts);
            (operation.method.to_owned(), written)
        });
        let mut item: Map<String, Value> = operations.collect();
        if !common.is_empty() {
            let common = common.iter().map(|one| (form.parameter)(one, texts));
            item.insert("parameters".into(), common.collect());
        }
        (path.path.clone(), item.into())
    })
}

impl Path {
    /// The parameters of all operations, which are written once, in order.
    fn common(&self) -> Vec<Parameter> {
        let Some((first, others)) = self.operations.split_first() else {
            return Vec::new();
        };
        let everywhere =
            |one: &&Parameter| others.iter().all(|other| other.parameters.contains(one));
        let mut common: Vec<Parameter> = first
            .parameters
            .iter()
            .filter(everywhere)
            .cloned()
            .collect();
        common.sort_by_key(Parameter::order);
        common
    }
}

impl Operation {
    /// The parameters besides the common ones, in order.
    fn own(&self, common: &[Parameter]) -> Vec<Parameter> {
        let own = self.parameters.iter().filter(|one| !common.contains(one));
        let mut own: Vec<Parameter> = own.cloned().collect();
        own.sort_by_key(Parameter::order);
        own
    }

    /// Adds what is done, and with which kind.
    fn add_subject(&self, written: &mut Value) {
        if let Some((group, version, kind)) = &self.of {
            written["x-kubernetes-action"] = self.action.into();
            written[TYPE] = json!({"group": group, "version": version, "kind": kind});
        }
    }

    /// Its responses. `good` writes one that is no error, with its description and schema.
    fn responses(
        &self,
        reference_to: fn(&str) -> Value,
        good: impl Fn(&str, &Value) -> Value,
    ) -> Value {
        let schema = match &self.answer {
            Some(schema) => reference_to(schema),
            None => json!({"type": "string"}),
        };
        let codes = self.codes.iter();
        let responses =
            codes.map(|(code, description)| ((*code).to_owned(), good(description, &schema)));
        let mut all: Map<String, Value> = responses.collect();
        all.insert("401".into(), json!({"description": "Unauthorized"}));
        all.into()
    }
}

/// A kind, as its paths show it.
pub(super) struct Shape<'a> {
    pub(super) kind: &'a Kind,
    /// The names of the schemas of objects and of lists.
    pub(super) schema: String,
    pub(super) list: String,
    /// A deletion is answered by the object.
    pub(super) returns_deleted_object: bool,
    /// What objects are answered in, and what bodies may be written in.
    pub(super) produces: &'static [&'static str],
    pub(super) consumes: &'static [&'static str],
    pub(super) patches: &'static [&'static str],
    /// A custom resource has no paths to watch and no streams.
    pub(super) custom: bool,
}

/// A path of a kind: where it is, and what of.
struct Place<'a> {
    namespaced: bool,
    named: bool,
    /// All namespaces at once.
    all: bool,
    sub: Option<&'a Subresource>,
}

impl Shape<'_> {
    /// All paths of the kind.
    pub(super) fn paths(&self) -> Vec<Path> {
        let kind = self.kind;
        let base = format!("/{}", path_of(kind.group(), kind.version()));
        let plural = kind.plural();
        let scoped = if kind.namespaced() {
            format!("namespaces/{{namespace}}/{plural}")
        } else {
            plural.to_owned()
        };
        let collection = Place {
            namespaced: kind.namespaced(),
            named: false,
            all: false,
            sub: None,
        };
        let object = Place {
            named: true,
            ..collection
        };
        let all = Place {
            namespaced: false,
            all: true,
            ..collection
        };
        let mut paths = Vec::new();
        let mut add = |path: String, place: &Place<'_>, actions: &[Action]| {
            let operations = self.operations(place, actions);
            paths.extend((!operations.is_empty()).then_some(Path { path, operations }));
        };
        add(
            format!("{base}/{scoped}"),
            &collection,
            &[List, Create, DeleteCollection],
        );
        add(
            format!("{base}/{scoped}/{{name}}"),
            &object,
            &[Get, Update, Patch, Delete],
        );
        if kind.namespaced() {
            add(format!("{base}/{plural}"), &all, &[List]);
        }
        if !self.custom {
            add(format!("{base}/watch/{scoped}"), &collection, &[WatchList]);
            add(format!("{base}/watch/{scoped}/{{name}}"), &object, &[Watch]);
            if kind.namespaced() {
                add(format!("{base}/watch/{plural}"), &all, &[WatchList]);
            }
        }
        for sub in kind.subresources() {
            let path = format!("{base}/{scoped}/{{name}}/{}", sub.name);
            if sub.kind().ends_with("Options") {
                paths.extend(self.streams(sub, path));
                continue;
            }
            let place = Place {
                sub: Some(sub),
                ..object
            };
            let operations = self.operations(&place, &[Create, Get, Update, Patch]);
            paths.push(Path { path, operations });
        }
        paths
    }

    fn operations(&self, place: &Place<'_>, actions: &[Action]) -> Vec<Operation> {
        let has = |action: &&Action| match place.sub {
            Some(sub) => sub.verbs.contains(&action.verb()),
            None => self.kind.has_verb(action.verb()),
        };
        let served = actions.iter().filter(has);
        served
            .map(|action| self.operation(place, *action))
            .collect()
    }

    fn operation(&self, place: &Place<'_>, action: Action) -> Operation {
        let sub = place.sub;
        let name = match (sub, action) {
            (Some(sub), _) => capital(sub.name),
            (None, WatchList) => "List".to_owned(),
            (None, _) => String::new(),
        };
        let all = if place.all { "ForAllNamespaces" } else { "" };
        let of = if action == DeleteCollection {
            "Collection"
        } else {
            ""
        };
        let mut parameters = self.in_path(place);
        parameters.push(Parameter::pretty());
        parameters.extend(self.in_query(sub, action));
        // What is read of a container's log is text.
        let is_log = sub.is_some_and(|sub| sub.name == "log");
        Operation {
            method: action.method(),
            description: self.description(sub, action),
            id: self.id(action.begins(), of, place.namespaced, &[&name, all]),
            tag: tag_of(self.kind),
            action: action.name(),
            of: Some(self.of(sub)),
            parameters,
            body: match action {
                Create | Update => Some((self.schema_of(sub), true)),
                Patch => Some((super::schemas::PATCH.to_owned(), true)),
                DeleteCollection if self.custom => None,
                Delete | DeleteCollection => Some((DELETE_OPTIONS.to_owned(), false)),
                _ => None,
            },
            consumes: match action {
                Patch => self.patches,
                _ => self.consumes,
            },
            produces: self.produced(action, is_log),
            codes: match action {
                // The builder of custom resources has no more codes for these.
                Patch if self.custom => &[("200", "OK")],
                action => action.codes(),
            },
            answer: (!is_log).then(|| match action {
                List => self.list.clone(),
                WatchList | Watch => WATCH_EVENT.to_owned(),
                Delete if self.returns_deleted_object => self.schema_of(sub),
                Delete | DeleteCollection => STATUS.to_owned(),
                _ => self.schema_of(sub),
            }),
        }
    }

    /// The name of an operation.
    fn id(&self, begins: &str, of: &str, namespaced: bool, ends: &[&str]) -> String {
        let group = capital(&group_of(self.kind));
        let version = capital(self.kind.version());
        let scope = if namespaced { "Namespaced" } else { "" };
        let kind = self.kind.kind();
        format!("{begins}{group}{version}{of}{scope}{kind}{}", ends.concat())
    }

    fn of(&self, sub: Option<&Subresource>) -> (String, String, String) {
        let (group, version, kind) = match sub {
            Some(sub) if !self.custom => (sub.group(), sub.version(), sub.kind()),
            _ => (self.kind.group(), self.kind.version(), self.kind.kind()),
        };
        (group.to_owned(), version.to_owned(), kind.to_owned())
    }

    /// The schema of an object or of what its subresource reads and writes.
    fn schema_of(&self, sub: Option<&Subresource>) -> String {
        let own = |sub: &&Subresource| sub.kind() != self.kind.kind();
        match sub.filter(own) {
            Some(sub) => super::schemas::name_of(sub.message().name),
            None => self.schema.clone(),
        }
    }

    fn produced(&self, action: Action, is_log: bool) -> Vec<&'static str> {
        let streams: &[&str] = match action {
            List | WatchList | Watch if !self.custom => &[
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ],
            _ => &[],
        };
        let text: &[&str] = if is_log { &["text/plain"] } else { &[] };
        [text, self.produces, streams].concat()
    }

    fn in_path(&self, place: &Place<'_>) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        if place.named {
            let (_, _, kind) = self.of(place.sub);
            parameters.push(Parameter::in_path("name", format!("name of the {kind}")));
        }
        if place.namespaced {
            let text = "object name and auth scope, such as for teams and projects";
            parameters.push(Parameter::in_path("namespace", text.to_owned()));
        }
        parameters
    }

    fn in_query(&self, sub: Option<&Subresource>, action: Action) -> Vec<Parameter> {
        match action {
            List | WatchList | Watch => parameters::of_lists(true),
            DeleteCollection if self.custom => parameters::of_lists(true),
            DeleteCollection => [parameters::of_lists(false), parameters::of_deletions()].concat(),
            Create | Update => parameters::of_writes(false),
            Patch => parameters::of_writes(true),
            Delete => parameters::of_deletions(),
            Get if sub.is_some_and(|sub| sub.name == "log") => {
                parameters::of_options("core/v1.PodLogOptions")
            }
            Get if self.custom => vec![parameters::resource_version()],
            Get => Vec::new(),
        }
    }

    fn description(&self, sub: Option<&Subresource>, action: Action) -> String {
        let kind = self.kind.kind();
        let one = with_article(kind);
        let specified = match sub {
            Some(sub) => format!("{} of the specified {kind}", sub.name),
            None => format!("the specified {kind}"),
        };
        match action {
            List if self.kind.has_verb("watch") && !self.custom => {
                format!("list or watch objects of kind {kind}")
            }
            List => format!("list objects of kind {kind}"),
            Create => match sub {
                Some(sub) => format!("create {} of {one}", sub.name),
                None => format!("create {one}"),
            },
            DeleteCollection => format!("delete collection of {kind}"),
            Get => format!("read {specified}"),
            Update => format!("replace {specified}"),
            Patch => format!("partially update {specified}"),
            Delete => format!("delete {one}"),
            WatchList => format!(
                "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter with a list operation instead."
            ),
            Watch => format!(
                "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
            ),
        }
    }

    /// The paths of a subresource that is a stream, such as `exec`, or what it is asked with.
    fn streams(&self, sub: &Subresource, path: String) -> Vec<Path> {
        let methods: &[&str] = if sub.verbs.contains(&"delete") {
            &["delete", "get", "head", "options", "patch", "post", "put"]
        } else {
            &["get", "post"]
        };
        let mut paths = Vec::new();
        let mut add = |path: String, rest: bool| {
            let operations = methods.iter();
            let operations = operations
                .map(|method| self.stream(sub, method, rest))
                .collect();
            paths.push(Path { path, operations });
        };
        if sub.name == "proxy" {
            add(format!("{path}/{{path}}"), true);
        }
        add(path, false);
        paths
    }

    fn stream(&self, sub: &Subresource, method: &'static str, rest: bool) -> Operation {
        let kind = self.kind;
        let place = Place {
            namespaced: kind.namespaced(),
            named: true,
            all: false,
            sub: Some(sub),
        };
        let mut parameters = self.in_path(&place);
        if rest {
            parameters.push(Parameter::in_path(
                "path",
                "path to the resource".to_owned(),
            ));
        }
        parameters.extend(parameters::of_options(sub.message().name));
        let with = if rest { "WithPath" } else { "" };
        let ends = [&capital(sub.name), with];
        Operation {
            method,
            description: format!(
                "connect {} requests to {} of {}",
                method.to_uppercase(),
                sub.name,
                kind.kind()
            ),
            id: self.id("connect", &capital(method), kind.namespaced(), &ends),
            tag: tag_of(kind),
            action: "connect",
            of: Some(self.of(Some(sub))),
            parameters,
            body: None,
            consumes: ANY,
            produces: ANY.to_vec(),
            codes: &[("200", "OK")],
            answer: None,
        }
    }
}

fn tag_of(kind: &Kind) -> String {
    format!("{}_{}", group_of(kind), kind.version())
}

/// A group as the names of operations have it: `rbac.authorization.k8s.io` is `rbacAuthorization`.
pub(super) fn group_of(kind: &Kind) -> String {
    named_group(kind.group())
}

/// The same by the group's name.
pub(super) fn named_group(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let words = group.trim_end_matches(".k8s.io").split('.').enumerate();
    let words = words.map(|(at, word)| match at {
        0 => Cow::Borrowed(word),
        _ => Cow::Owned(capital(word)),
    });
    words.collect()
}

/// A kind with its indefinite article. Plurals, such as `Endpoints`, have none.
fn with_article(kind: &str) -> String {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return kind.to_owned();
    }
    let first = kind.to_ascii_lowercase();
    if first.starts_with(['a', 'e', 'i', 'o', 'u']) {
        format!("an {kind}")
    } else {
        format!("a {kind}")
    }
}
