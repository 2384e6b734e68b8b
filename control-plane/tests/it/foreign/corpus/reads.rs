//! Requests that read a kind: one object, lists, watches, and what they are asked to be.

use machinery::object;

use super::bases::{Bases, LABEL};
use super::changed::stored_path;
use super::draw;
use super::request::Request;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const YAML: &str = "application/yaml";
/// What a watch must ask for to learn where the initial events end.
const INITIAL: &str = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&\
     resourceVersionMatch=NotOlderThan";

/// How one object is asked for: a name, a query, and a media type.
const OBJECT: [(&str, &str, &str); 14] = [
    ("", "", ""),
    ("as a table", "", TABLE),
    ("as a table with the object", "?includeObject=Object", TABLE),
    (
        "as a table without the object",
        "?includeObject=None",
        TABLE,
    ),
    ("as a table with nonsense", "?includeObject=Nope", TABLE),
    ("as metadata", "", METADATA),
    ("as a list of metadata", "", METADATA_LIST),
    ("as protobuf", "", PROTOBUF),
    ("as YAML", "", YAML),
    ("as HTML", "", "text/html"),
    (
        "as a table of v2",
        "",
        "application/json;as=Table;v=v2;g=meta.k8s.io",
    ),
    (
        "as a table or JSON",
        "",
        "application/json;as=Nope;v=v1;g=meta.k8s.io,application/json",
    ),
    ("at version 0", "?resourceVersion=0", ""),
    ("at version x", "?resourceVersion=x", ""),
];

/// How a list is asked for: a query, and a media type.
const LISTS: [(&str, &str); 34] = [
    ("", ""),
    ("limit=1", ""),
    ("limit=-1", ""),
    ("limit=x", ""),
    ("limit=500", TABLE),
    ("", TABLE),
    ("includeObject=None", TABLE),
    ("includeObject=Object", TABLE),
    ("", METADATA_LIST),
    ("", METADATA),
    ("", PROTOBUF),
    ("", "text/html"),
    ("fieldSelector=metadata.name=base", ""),
    ("fieldSelector=metadata.name!=base", ""),
    (
        "fieldSelector=metadata.name=base,metadata.namespace=nowhere",
        "",
    ),
    ("fieldSelector=spec.nope=x", ""),
    ("fieldSelector=metadata.name", ""),
    ("fieldSelector=status.phase=Running", ""),
    ("fieldSelector=spec.nodeName=n", ""),
    ("fieldSelector=type=Opaque", ""),
    ("fieldSelector=reason=R", ""),
    ("labelSelector=a+b", ""),
    ("labelSelector=app+in+(web,db)", ""),
    ("labelSelector=app+in+web", ""),
    ("labelSelector=-bad", ""),
    ("continue=bad", ""),
    ("continue=bad&resourceVersion=1", ""),
    ("resourceVersion=0", ""),
    ("resourceVersion=0&resourceVersionMatch=Exact", ""),
    ("resourceVersionMatch=NotOlderThan", ""),
    ("resourceVersion=1&resourceVersionMatch=Nope", ""),
    ("resourceVersion=x", ""),
    (
        "resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=1",
        "",
    ),
    ("timeoutSeconds=x", ""),
];

/// How a watch is asked for: a query without `watch`, and a media type. All of these are refused.
const REFUSED_WATCHES: [(&str, &str); 8] = [
    ("sendInitialEvents=true", ""),
    ("sendInitialEvents=true&resourceVersionMatch=Exact", ""),
    (
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=x",
        "",
    ),
    ("resourceVersionMatch=NotOlderThan", ""),
    ("resourceVersion=x", ""),
    ("fieldSelector=spec.nope=x", ""),
    ("labelSelector=-bad", ""),
    ("", "text/html"),
];

/// The lists that each kind is asked for; of the others, one in so many.
const USUAL: usize = 2;
const ONE_IN: u64 = 3;

pub(super) fn requests(bases: &Bases) -> Vec<Request> {
    let mut requests = objects(bases);
    requests.extend(lists(bases));
    requests.extend(watches(bases));
    requests
}

/// True if a request is drawn for this kind; all are for some kind.
pub(super) fn drawn(bases: &Bases, name: &str) -> bool {
    let all = ["pods", "configmaps", "nodes"].contains(&bases.kind.plural());
    all || draw::number(&[&bases.name(), name]).is_multiple_of(ONE_IN)
}

fn objects(bases: &Bases) -> Vec<Request> {
    let mut requests = Vec::new();
    for (index, (name, query, media_type)) in OBJECT.iter().enumerate() {
        let name = format!("GET {name}").trim_end().to_owned();
        if index < USUAL || drawn(bases, &name) {
            let request = Request::new(name, "GET", &stored_path(bases, query));
            requests.push(accepting(request, media_type));
        }
    }
    let missing = format!("{}/missing", bases.collection());
    requests.push(Request::new("GET missing", "GET", &missing));
    let nothing = stored_path(bases, "/nothing");
    requests.push(Request::new("GET of no subresource", "GET", &nothing));
    for one in bases.kind.subresources() {
        if one.verbs.contains(&"get") && ["status", "scale"].contains(&one.name) {
            let path = stored_path(bases, &format!("/{}", one.name));
            requests.push(Request::new(format!("GET {}", one.name), "GET", &path));
        }
    }
    if bases.kind.namespaced() {
        let name = object::name(&bases.base()).to_owned();
        let path = format!("{}/{name}", bases.collection_in("elsewhere"));
        requests.push(Request::new("GET in another namespace", "GET", &path));
    }
    requests
}

fn accepting(request: Request, media_type: &str) -> Request {
    if media_type.is_empty() {
        request
    } else {
        request.accept(media_type)
    }
}

/// A query for the objects of the corpus, and more.
fn selecting(bases: &Bases, query: &str) -> String {
    let path = bases.collection();
    if query.contains("labelSelector") {
        return format!("{path}?{query}");
    }
    format!("{path}?labelSelector={LABEL}={}&{query}", bases.label())
}

fn shown(query: &str, media_type: &str) -> String {
    let kinds = [
        (TABLE, "table"),
        (METADATA, "metadata"),
        (METADATA_LIST, "metadata list"),
        (PROTOBUF, "protobuf"),
    ];
    let kind = kinds.iter().find(|(full, _)| *full == media_type);
    let kind = kind.map_or(media_type, |(_, short)| *short);
    format!("{query} {kind}").trim().to_owned()
}

fn lists(bases: &Bases) -> Vec<Request> {
    let mut requests = Vec::new();
    for (index, (query, media_type)) in LISTS.iter().enumerate() {
        let name = format!("LIST {}", shown(query, media_type));
        let name = name.trim_end().to_owned();
        if index < USUAL || drawn(bases, &name) {
            let request = Request::new(name, "GET", &selecting(bases, query));
            requests.push(accepting(request, media_type));
        }
    }
    requests
}

fn watches(bases: &Bases) -> Vec<Request> {
    let mut requests = Vec::new();
    for (query, media_type) in REFUSED_WATCHES {
        let name = format!("WATCH {}", shown(query, media_type));
        let name = name.trim_end().to_owned();
        if drawn(bases, &name) {
            let path = selecting(bases, &format!("{query}&watch=1"));
            requests.push(accepting(Request::new(name, "GET", &path), media_type));
        }
    }
    for (name, media_type) in [("", ""), (" table", TABLE), (" metadata", METADATA)] {
        let path = selecting(bases, INITIAL);
        let request = Request::new(format!("WATCH initial{name}"), "GET", &path).watched();
        requests.push(accepting(request, media_type));
    }
    requests
}
