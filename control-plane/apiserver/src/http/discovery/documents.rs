//! The documents of discovery. The order of the fields is Kubernetes'.

use bytes::Bytes;
use machinery::schema::{Kind, Scope, Subresource};
use machinery::status::Status;
use machinery::{object, protobuf, schema};
use serde::Serialize;

use crate::http::answer::reply;
use crate::http::media::Encoding;

/// `GET /api` in the old form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CoreVersions {
    pub(super) kind: &'static str,
    pub(super) versions: [&'static str; 1],
    #[serde(rename = "serverAddressByClientCIDRs")]
    pub(super) addresses: [Address; 1],
}

/// The address at which clients reach the server.
#[derive(Serialize)]
pub(crate) struct Address {
    #[serde(rename = "clientCIDR")]
    pub(super) clients: &'static str,
    #[serde(rename = "serverAddress")]
    pub(super) server: String,
}

/// `GET /apis` in the old form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupList {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) groups: Vec<Group>,
}

/// `GET /apis/{group}`, and an entry of a [`GroupList`], which has no type.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) api_version: Option<&'static str>,
    pub(super) name: String,
    pub(super) versions: Vec<GroupVersion>,
    pub(super) preferred_version: GroupVersion,
}

/// A version of a group.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupVersion {
    pub(super) group_version: String,
    pub(super) version: String,
}

/// `GET /api/v1` and `/apis/{group}/{version}`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceList {
    pub(super) kind: &'static str,
    /// Kubernetes leaves it out of the list of the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) api_version: Option<&'static str>,
    pub(super) group_version: String,
    pub(super) resources: Vec<Resource>,
}

/// A resource, or a subresource by the name `plural/name`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    pub(super) name: String,
    pub(super) singular_name: String,
    pub(super) namespaced: bool,
    /// The group of its objects, if that is not the one in which it is listed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) categories: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) storage_version_hash: String,
}

/// `GET /api` and `/apis` in the new form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AllGroups {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    #[serde(flatten)]
    pub(super) content: Groups,
}

/// All that is in a document of the new form besides its type. Its ETag is of this text.
#[derive(Serialize)]
pub(crate) struct Groups {
    pub(super) metadata: Empty,
    pub(super) items: Vec<WholeGroup>,
}

/// Nothing.
#[derive(Serialize)]
pub(crate) struct Empty {}

/// A group with everything in it.
#[derive(Serialize)]
pub(crate) struct WholeGroup {
    pub(super) metadata: Named,
    pub(super) versions: Vec<WholeVersion>,
}

/// A name; the core group has none.
#[derive(Serialize)]
pub(crate) struct Named {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
}

/// A version with everything in it.
#[derive(Serialize)]
pub(crate) struct WholeVersion {
    pub(super) version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<WholeResource>,
    pub(super) freshness: &'static str,
}

/// A resource with its subresources.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WholeResource {
    pub(super) resource: String,
    pub(super) response_kind: ResponseKind,
    pub(super) scope: &'static str,
    pub(super) singular_resource: String,
    pub(super) verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) subresources: Vec<Part>,
}

/// A subresource.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Part {
    pub(super) subresource: String,
    pub(super) response_kind: ResponseKind,
    pub(super) verbs: Vec<String>,
}

/// The kind of what a resource answers.
#[derive(Serialize)]
pub(crate) struct ResponseKind {
    /// May be empty, as the version, where both are those in which the resource is listed.
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

impl GroupVersion {
    pub(super) fn new(group: &str, version: &str) -> GroupVersion {
        GroupVersion {
            group_version: format!("{group}/{version}"),
            version: version.to_owned(),
        }
    }
}

impl Group {
    /// A group, whose first version is preferred.
    pub(super) fn new(name: &str, preferred: GroupVersion) -> Group {
        Group {
            kind: None,
            api_version: None,
            name: name.to_owned(),
            versions: vec![preferred.clone()],
            preferred_version: preferred,
        }
    }

    /// The group as a document.
    pub(super) fn alone(self) -> Group {
        Group {
            kind: Some("APIGroup"),
            api_version: Some("v1"),
            ..self
        }
    }
}

impl Resource {
    pub(super) fn of(kind: &Kind, storage_version_hash: String) -> Resource {
        Resource {
            name: kind.plural().to_owned(),
            singular_name: kind.singular().to_owned(),
            namespaced: kind.namespaced(),
            group: String::new(),
            version: String::new(),
            kind: kind.kind().to_owned(),
            verbs: owned(kind.verbs()),
            short_names: owned(kind.short_names()),
            categories: owned(kind.categories()),
            storage_version_hash,
        }
    }

    pub(super) fn of_part(kind: &Kind, part: &Subresource) -> Resource {
        let here = (part.group(), part.version()) == (kind.group(), kind.version());
        let (group, version) = if here {
            ("", "")
        } else {
            (part.group(), part.version())
        };
        Resource {
            name: format!("{}/{}", kind.plural(), part.name),
            singular_name: String::new(),
            namespaced: kind.namespaced(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: part.kind().to_owned(),
            verbs: owned(&part.verbs),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: String::new(),
        }
    }
}

impl WholeGroup {
    pub(super) fn new(name: &str, versions: Vec<WholeVersion>) -> WholeGroup {
        let name = name.to_owned();
        WholeGroup {
            metadata: Named { name },
            versions,
        }
    }
}

impl WholeResource {
    /// A built-in kind leaves out group and version where they are those of the list.
    pub(super) fn of(kind: &Kind, is_custom: bool) -> WholeResource {
        let response = |group: &str, version: &str, name: &str| {
            let here = (group, version) == (kind.group(), kind.version());
            let (group, version) = if here && !is_custom {
                ("", "")
            } else {
                (group, version)
            };
            ResponseKind {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: name.to_owned(),
            }
        };
        let part = |part: &Subresource| Part {
            subresource: part.name.to_owned(),
            response_kind: response(part.group(), part.version(), part.kind()),
            verbs: owned(&part.verbs),
        };
        WholeResource {
            resource: kind.plural().to_owned(),
            response_kind: response(kind.group(), kind.version(), kind.kind()),
            scope: match kind.scope() {
                Scope::Namespaced => "Namespaced",
                Scope::Cluster => "Cluster",
            },
            singular_resource: kind.singular().to_owned(),
            verbs: owned(kind.verbs()),
            short_names: owned(kind.short_names()),
            categories: owned(kind.categories()),
            subresources: kind.subresources().iter().map(part).collect(),
        }
    }
}

/// The text of a document. JSON keeps the order of the fields.
pub(super) fn written(document: &impl Serialize, encoding: Encoding) -> Result<Bytes, Status> {
    if encoding == Encoding::Json {
        return Ok(serde_json::to_vec(document).map_err(internal)?.into());
    }
    let value = serde_json::to_value(document).map_err(internal)?;
    if encoding == Encoding::Yaml {
        return reply::encode(&value, encoding);
    }
    let version = match object::api_version(&value) {
        "" => "v1",
        version => version,
    };
    let (group, version) = schema::split_api_version(version);
    let message = schema::body(group, version, object::kind(&value));
    let message =
        message.ok_or_else(|| internal("a document of discovery has no protobuf form"))?;
    Ok(protobuf::encode_as(&value, message)
        .map_err(internal)?
        .into())
}

pub(super) fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(&error.to_string())
}

fn owned(texts: &[impl AsRef<str>]) -> Vec<String> {
    texts.iter().map(|one| one.as_ref().to_owned()).collect()
}
