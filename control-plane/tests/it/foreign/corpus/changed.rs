//! Requests with one changed field: new objects, updates, status, and patches of all kinds.

use machinery::object;
use serde_json::{Value, json};

use super::bases::Bases;
use super::fields;
use super::mutation::Mutation;
use super::request::{APPLY, JSON_PATCH, Like, MERGE, Request, STRATEGIC};

/// How many requests of each sort are drawn for a kind.
struct Share {
    created: usize,
    updated: usize,
    status: usize,
    patched: usize,
}

/// Kinds that users meet most have a larger share.
fn share(bases: &Bases) -> Share {
    let (created, updated) = match (bases.kind.group(), bases.kind.plural()) {
        ("", "pods") => (620, 110),
        ("", "services") => (190, 110),
        ("apps" | "batch", "deployments" | "statefulsets" | "jobs") => (110, 60),
        ("apps" | "batch", _) => (70, 40),
        ("networking.k8s.io", "ingresses" | "networkpolicies") => (80, 30),
        ("", "persistentvolumeclaims" | "persistentvolumes" | "secrets") => (80, 50),
        ("autoscaling", _) => (80, 25),
        ("apiextensions.k8s.io", _) => (150, 50),
        ("rbac.authorization.k8s.io", _) => (25, 15),
        ("admissionregistration.k8s.io", _) => (55, 20),
        ("resource.k8s.io", _) => (55, 25),
        _ => (30, 18),
    };
    Share {
        created,
        updated,
        status: 10,
        patched: 8,
    }
}

/// Salts of the draws.
const PAIR: &str = "pair";
/// One in so many new objects has two changes: then causes have an order.
const PAIRS: usize = 12;

pub(super) fn requests(bases: &Bases) -> Vec<Request> {
    let share = share(bases);
    let mut requests = created(bases, share.created);
    if bases.kind.has_verb("update") {
        requests.extend(updated(bases, share.updated));
        requests.extend(status(bases, share.status));
        requests.extend(patched(bases, share.patched));
    }
    requests
}

/// Draws changes; returns them in the order of the fields.
fn draw(all: Vec<Mutation>, count: usize, salt: &str) -> Vec<Mutation> {
    let mut scored: Vec<(f64, usize)> = all
        .iter()
        .enumerate()
        .map(|(at, one)| (one.score(salt), at))
        .collect();
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut drawn: Vec<usize> = scored.into_iter().take(count).map(|(_, at)| at).collect();
    drawn.sort_unstable();
    drawn.into_iter().map(|at| all[at].clone()).collect()
}

/// The request that creates a valid object, without storing it.
pub(super) fn valid(bases: &Bases, name: &str) -> Request {
    create(bases, name, &bases.made(name), format!("POST {name}"))
}

fn create(bases: &Bases, of: &str, object: &Value, name: String) -> Request {
    let path = format!("{}?dryRun=All", bases.collection());
    let request = Request::new(name, "POST", &path).json(object);
    request.like(Like::Made(of.to_owned()))
}

fn created(bases: &Bases, count: usize) -> Vec<Request> {
    let mut requests = Vec::new();
    let objects = bases.objects.iter().filter(|(name, _)| name != "stored");
    let objects: Vec<(&String, Vec<Mutation>)> = objects
        .map(|(name, object)| {
            let message = bases.kind.message();
            (
                name,
                fields::changes(message, object, &["metadata", "status"]),
            )
        })
        .collect();
    // Richer objects get more.
    let total: usize = objects.iter().map(|(_, changes)| changes.len()).sum();
    for (of, changes) in objects {
        let count = (count * changes.len()).div_ceil(total.max(1));
        let salt = format!("create {} {of}", bases.name());
        let more = draw(changes.clone(), count / PAIRS, &format!("{PAIR} {salt}"));
        let drawn = draw(changes, count, &salt);
        for (at, one) in drawn.iter().enumerate() {
            let mut object = bases.made(of);
            one.apply(&mut object);
            let name = format!("POST {of} {}", one.name());
            requests.push(create(bases, of, &object, name));
            if at % PAIRS == 0
                && let Some(other) = more.get(at / PAIRS)
            {
                other.apply(&mut object);
                let name = format!("POST {of} {} {}", one.name(), other.name());
                requests.push(create(bases, of, &object, name));
            }
        }
    }
    requests
}

/// The path of the stored object, with a query.
pub(super) fn stored_path(bases: &Bases, rest: &str) -> String {
    let name = object::name(&bases.base()).to_owned();
    format!("{}/{name}{rest}", bases.collection())
}

fn updated(bases: &Bases, count: usize) -> Vec<Request> {
    let base = bases.current();
    let without: &[&str] = match bases.kind.subresource("status") {
        // The object's own path ignores the status.
        Some(_) => &["metadata", "status"],
        None => &["metadata"],
    };
    let changes = fields::changes(bases.kind.message(), &base, without);
    let salt = format!("update {}", bases.name());
    let path = stored_path(bases, "?dryRun=All");
    draw(changes, count, &salt)
        .into_iter()
        .map(|one| {
            let mut object = base.clone();
            one.apply(&mut object);
            Request::new(format!("PUT {}", one.name()), "PUT", &path).json(&object)
        })
        .collect()
}

/// Changes of the status, and of the spec, through the status' own path.
fn status(bases: &Bases, count: usize) -> Vec<Request> {
    if bases.kind.subresource("status").is_none() {
        return Vec::new();
    }
    let base = bases.current();
    let whole = fields::changes(bases.kind.message(), &base, &["metadata"]);
    let (of_status, others): (Vec<_>, Vec<_>) = whole
        .into_iter()
        .partition(|one| one.name().trim_start_matches('-').starts_with("status"));
    let salt = format!("status {}", bases.name());
    let mut drawn = draw(of_status, 2 * count, &salt);
    drawn.extend(draw(others, count / 4, &salt));
    let path = stored_path(bases, "/status?dryRun=All");
    drawn
        .into_iter()
        .map(|one| {
            let mut object = base.clone();
            one.apply(&mut object);
            Request::new(format!("PUT status {}", one.name()), "PUT", &path).json(&object)
        })
        .collect()
}

fn patched(bases: &Bases, count: usize) -> Vec<Request> {
    let base = bases.base();
    let all = fields::changes(bases.kind.message(), &base, &["metadata", "status"]);
    let path = stored_path(bases, "?dryRun=All");
    let patch = |name: String, media_type: &str, patch: &Value| {
        Request::new(name, "PATCH", &path).body(media_type, patch.to_string())
    };
    let salted = |salt: &str| format!("{salt} {}", bases.name());
    let reachable = |one: &Mutation| one.merge_patch().is_some();
    let merged: Vec<Mutation> = all.iter().filter(|one| reachable(one)).cloned().collect();
    let mut requests = Vec::new();
    for one in draw(merged.clone(), count, &salted("merge")) {
        let name = format!("PATCH merge {}", one.name());
        requests.push(patch(name, MERGE, &one.merge_patch().unwrap_or_default()));
    }
    for one in draw(merged.clone(), count, &salted("strategic")) {
        let name = format!("PATCH strategic {}", one.name());
        let body = one.merge_patch().unwrap_or_default();
        requests.push(patch(name, STRATEGIC, &body));
    }
    for one in draw(all, count, &salted("json")) {
        let name = format!("PATCH json {}", one.name());
        requests.push(patch(name, JSON_PATCH, &one.json_patch()));
    }
    let path = stored_path(bases, "?dryRun=All&fieldManager=corpus&force=true");
    let set = merged.into_iter().filter(|one| one.value.is_some());
    for one in draw(set.collect(), count, &salted("apply")) {
        let mut body = one.merge_patch().unwrap_or_default();
        object::set_type(&mut body, &bases.kind.api_version(), bases.kind.kind());
        object::set(&mut body, &["metadata", "name"], json!(object::name(&base)));
        let request = Request::new(format!("PATCH apply {}", one.name()), "PATCH", &path);
        requests.push(request.body(APPLY, body.to_string()));
    }
    requests
}
