//! The documents that are about no kind: lists of versions, groups and kinds, the version, and the keys
//! of tokens.

use std::collections::BTreeSet;

use machinery::schema;

use super::operations::{Operation, Path, named_group};
use super::schemas::VERSION;
use super::{MEDIA_TYPES, capital, path_of};

const JSON: &[&str] = &["application/json"];
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A document about no kind: its place, its path and the kind in its answer.
pub(super) struct Other {
    pub(super) place: String,
    pub(super) path: Path,
    /// The kind of discovery that it answers.
    pub(super) kind: Option<&'static str>,
}

/// The path that lists the kinds of a group and version.
pub(super) fn of_version(group: &str, version: &str) -> Path {
    let tag = format!("{}_{version}", named_group(group));
    let id = format!(
        "get{}{}APIResources",
        capital(&named_group(group)),
        capital(version)
    );
    let path = format!("/{}/", path_of(group, version));
    reading(
        path,
        "get available resources",
        id,
        tag,
        Some("APIResourceList"),
    )
}

/// All documents of this sort.
pub(super) fn others() -> Vec<Other> {
    let kinds = schema::kinds().iter();
    let groups: BTreeSet<&str> = kinds.map(|kind| kind.group()).collect();
    let named = groups.into_iter().filter(|group| !group.is_empty());
    let mut all: Vec<Other> = named.map(of_group).collect();
    let versions = "get available API versions";
    all.push(listing(
        "api",
        versions,
        "getCoreAPIVersions",
        "core",
        "APIVersions",
    ));
    all.push(listing(
        "apis",
        versions,
        "getAPIVersions",
        "apis",
        "APIGroupList",
    ));
    all.push(version());
    all.push(keys(
        ".well-known/openid-configuration",
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        ("getServiceAccountIssuerOpenIDConfiguration", "WellKnown"),
        JSON,
    ));
    all.push(keys(
        "openid/v1/jwks",
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        ("getServiceAccountIssuerOpenIDKeyset", "openid"),
        &["application/jwk-set+json"],
    ));
    all
}

fn of_group(group: &str) -> Other {
    let tag = named_group(group);
    let id = format!("get{}APIGroup", capital(&tag));
    let place = format!("apis/{group}");
    listing(&place, "get information of a group", &id, &tag, "APIGroup")
}

fn listing(place: &str, description: &str, id: &str, tag: &str, kind: &'static str) -> Other {
    let path = reading(
        format!("/{place}/"),
        description,
        id.to_owned(),
        tag.to_owned(),
        Some(kind),
    );
    Other {
        place: place.to_owned(),
        path,
        kind: Some(kind),
    }
}

fn version() -> Other {
    let description = "get the version information for this server";
    let mut path = reading(
        "/version/".to_owned(),
        description,
        "getCodeVersion".to_owned(),
        "version".to_owned(),
        None,
    );
    for operation in &mut path.operations {
        operation.answer = Some(VERSION.to_owned());
        operation.consumes = JSON;
        operation.produces = JSON.to_vec();
    }
    Other {
        place: "version".to_owned(),
        path,
        kind: None,
    }
}

fn keys(
    place: &str,
    description: &str,
    (id, tag): (&str, &str),
    produces: &'static [&'static str],
) -> Other {
    let path = format!("/{place}/");
    let mut path = reading(path, description, id.to_owned(), tag.to_owned(), None);
    for operation in &mut path.operations {
        operation.consumes = &[];
        operation.produces = produces.to_vec();
    }
    Other {
        place: place.to_owned(),
        path,
        kind: None,
    }
}

fn reading(path: String, description: &str, id: String, tag: String, kind: Option<&str>) -> Path {
    let operation = Operation {
        method: "get",
        description: description.to_owned(),
        id,
        tag,
        action: "",
        of: None,
        parameters: Vec::new(),
        body: None,
        consumes: MEDIA_TYPES,
        produces: MEDIA_TYPES.to_vec(),
        codes: &[("200", "OK")],
        answer: kind.map(|kind| format!("{META}.{kind}")),
    };
    Path {
        path,
        operations: vec![operation],
    }
}
