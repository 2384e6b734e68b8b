//! The parameters of operations. Kubernetes' texts about them are in none of the libraries used here,
//! so most texts are our own.

use machinery::schema::{self, Message, Type};
use serde_json::{Value, json};

use super::DELETE_OPTIONS;
use crate::http::openapi::texts::Texts;

/// A parameter in the path or in the query.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::http::openapi) struct Parameter {
    pub(in crate::http::openapi) name: &'static str,
    /// True if it is in the path, and so has to be given.
    pub(in crate::http::openapi) in_path: bool,
    pub(in crate::http::openapi) kind: &'static str,
    /// What it is; empty if that is what the options of a deletion say of it.
    text: String,
}

impl Parameter {
    pub(super) fn in_path(name: &'static str, text: String) -> Parameter {
        Parameter {
            name,
            in_path: true,
            kind: "string",
            text,
        }
    }

    fn in_query(name: &'static str, kind: &'static str, text: &str) -> Parameter {
        Parameter {
            name,
            in_path: false,
            kind,
            text: text.to_owned(),
        }
    }

    pub(super) fn pretty() -> Parameter {
        let text = "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget).";
        Parameter::in_query("pretty", "string", text)
    }

    /// The order in which parameters are written.
    pub(super) fn order(&self) -> (&'static str, bool) {
        (self.name, !self.in_path)
    }

    /// What both versions of OpenAPI write of it.
    pub(in crate::http::openapi) fn written(&self, texts: &Texts) -> Value {
        let place = if self.in_path { "path" } else { "query" };
        let mut written = json!({"name": self.name, "in": place});
        if self.in_path {
            written["required"] = true.into();
        }
        let text = match self.text.as_str() {
            "" => texts.plain(DELETE_OPTIONS, self.name),
            text => Some(text),
        };
        if let Some(text) = text {
            written["description"] = text.into();
        }
        written
    }
}

/// The parameters of lists and watches, and of deletions of what would be listed.
pub(super) fn of_lists(watch: bool) -> Vec<Parameter> {
    let text = |name, text| Parameter::in_query(name, "string", text);
    let number = |name, text| Parameter::in_query(name, "integer", text);
    let flag = |name, text| Parameter::in_query(name, "boolean", text);
    let mut all = vec![
        text(
            "continue",
            "The place where the next page of a list begins, from the metadata of the page before.",
        ),
        text("fieldSelector", "Only objects whose fields match."),
        text("labelSelector", "Only objects whose labels match."),
        number("limit", "The largest number of objects in one page."),
        resource_version(),
        text(
            "resourceVersionMatch",
            "How the list must relate to resourceVersion: Exact or NotOlderThan.",
        ),
        flag(
            "sendInitialEvents",
            "A watch begins with the present objects, then a bookmark says that they are complete.",
        ),
        text(
            "shardSelector",
            "Only objects whose hash is in these ranges.",
        ),
        number(
            "timeoutSeconds",
            "The request ends after this time, whatever happens.",
        ),
    ];
    if watch {
        all.push(flag(
            "allowWatchBookmarks",
            "A watch may report versions without a change, as bookmarks.",
        ));
        all.push(flag(
            "watch",
            "Changes are reported as they happen, instead of a list.",
        ));
    }
    all
}

pub(super) fn resource_version() -> Parameter {
    Parameter::in_query(
        "resourceVersion",
        "string",
        "The version that is read, or that a watch begins after.",
    )
}

/// The parameters of writes.
pub(super) fn of_writes(patch: bool) -> Vec<Parameter> {
    let text = |name, text| Parameter::in_query(name, "string", text);
    let mut all = vec![
        // A deletion has the same.
        text("dryRun", ""),
        text(
            "fieldManager",
            "Who owns the fields that this request sets. It must be given to apply.",
        ),
        text(
            "fieldValidation",
            "What becomes of unknown and duplicate fields: Ignore, Warn or Strict.",
        ),
    ];
    if patch {
        all.push(Parameter::in_query(
            "force",
            "boolean",
            "An apply takes fields over that others own.",
        ));
    }
    all
}

/// The parameters of deletions.
pub(super) fn of_deletions() -> Vec<Parameter> {
    of_options("meta/v1.DeleteOptions")
}

/// The fields of a message that is given in the query.
pub(super) fn of_options(message: &str) -> Vec<Parameter> {
    let fields = schema::message(message).map(|message: &Message| &message.fields);
    let fields = fields.into_iter().flatten();
    let parameters =
        fields.filter_map(|field| Some(Parameter::in_query(field.name, type_of(&field.kind)?, "")));
    parameters.collect()
}

/// The type of a parameter; `None` for what cannot be written in a query.
fn type_of(kind: &Type) -> Option<&'static str> {
    match kind {
        Type::String(_) => Some("string"),
        Type::Bool => Some("boolean"),
        Type::Int32 | Type::Int64 => Some("integer"),
        Type::List(item) => type_of(item),
        _ => None,
    }
}
