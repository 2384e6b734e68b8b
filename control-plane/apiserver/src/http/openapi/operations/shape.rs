//! The operations of one kind: its paths, and what can be done at each.

mod streams;

use machinery::schema::{Kind, Subresource};

use super::action::Action::{
    self, Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch, WatchList,
};
use super::names::{group_of, tag_of, with_article};
use super::parameters::{self, Parameter};
use super::{DELETE_OPTIONS, Operation, Path, STATUS};
use crate::http::openapi::schemas;
use crate::http::openapi::{capital, path_of};

const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

/// A kind, as its paths show it.
pub(in crate::http::openapi) struct Shape<'a> {
    pub(in crate::http::openapi) kind: &'a Kind,
    /// The names of the schemas of objects and of lists.
    pub(in crate::http::openapi) schema: String,
    pub(in crate::http::openapi) list: String,
    /// A deletion is answered by the object.
    pub(in crate::http::openapi) returns_deleted_object: bool,
    /// What objects are answered in, and what bodies may be written in.
    pub(in crate::http::openapi) produces: &'static [&'static str],
    pub(in crate::http::openapi) consumes: &'static [&'static str],
    pub(in crate::http::openapi) patches: &'static [&'static str],
    /// A custom resource has no paths to watch and no streams.
    pub(in crate::http::openapi) custom: bool,
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
    pub(in crate::http::openapi) fn paths(&self) -> Vec<Path> {
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
                Patch => Some((schemas::PATCH.to_owned(), true)),
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
            Some(sub) => schemas::name_of(sub.message().name),
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
}
