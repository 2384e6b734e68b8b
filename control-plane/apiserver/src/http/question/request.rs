//! The target and the parameters of a request, from its method, path and query. It does not read
//! bodies.

mod info;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::Method;
use machinery::object;
use machinery::selector::{FieldRequirement, FieldSelector, LabelSelector};
use machinery::status::{Cause, Status};
use serde_json::{Value, json};

use crate::registry::options::{Validation, dry_run};
use crate::registry::strategy::{self, UnknownField};
use crate::resources::catalogue::{Catalogue, Resource};
use crate::resources::convert;
use crate::resources::fields;
use crate::storage::stored::Stored;

pub(crate) use info::Info;

/// The address of the client, in the extensions of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote(pub(crate) IpAddr);

/// The target of a request about objects.
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    /// Empty for cluster-scoped objects and for all namespaces.
    pub(crate) namespace: String,
    /// Empty for a collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
}

/// The options of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// True for a dry run: nothing is stored.
    pub(crate) dry: bool,
    pub(crate) validation: Validation,
    /// An applied configuration takes over fields of other managers.
    pub(crate) force: bool,
}

/// Upper bound of the name of a field manager, in bytes.
const MANAGER_BYTES_MAX: usize = 128;

/// Decodes the path of a request; `None` if it is invalid.
pub(crate) fn decoded(path: &str) -> Option<Cow<'_, str>> {
    percent_encoding::percent_decode_str(path)
        .decode_utf8()
        .ok()
}

/// Splits a decoded path: an escaped slash separates segments like any other.
pub(crate) fn segments(path: &str) -> Vec<String> {
    let path = path.trim_matches('/');
    match path {
        "" => Vec::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

/// Finds the target of a request about objects; `None` if no version of the group is served.
pub(crate) fn route(catalogue: &Catalogue, info: &Info) -> Result<Option<Target>, Status> {
    let asked = &info.attributes;
    if !catalogue.serves_version(&asked.api_group, &info.version) {
        return if catalogue.serves_group(&asked.api_group) {
            Err(Status::unknown_path())
        } else {
            Ok(None)
        };
    }
    let resource = catalogue
        .resource(&asked.api_group, &info.version, &asked.resource)
        .ok_or_else(Status::unknown_path)?;
    let namespaced = resource.kind.namespaced();
    let namespace = match (&*asked.api_group, &*asked.resource) {
        // Authorization treats a namespace as being in itself. No other namespace may precede its
        // name.
        ("", "namespaces") if asked.namespace == info.name => "",
        _ => &asked.namespace,
    };
    let fits = if namespaced {
        !namespace.is_empty() || info.name.is_empty()
    } else {
        namespace.is_empty()
    };
    let subresource = &asked.subresource;
    let known = subresource.is_empty() || resource.kind.subresource(subresource).is_some();
    // Any path may follow `proxy`.
    let deep = info.deeper == 0 || subresource == "proxy";
    if !fits || !known || !deep || info.watch_path && !subresource.is_empty() {
        return Err(Status::unknown_path());
    }
    Ok(Some(Target {
        resource: Arc::clone(resource),
        namespace: namespace.to_owned(),
        name: info.name.clone(),
        subresource: subresource.clone(),
    }))
}

/// True if the method allows the verb on the target.
pub(crate) fn takes(method: &Method, info: &Info, target: &Target) -> bool {
    let named = !target.name.is_empty();
    let everywhere = target.resource.kind.namespaced() && target.namespace.is_empty();
    match info.attributes.verb.as_str() {
        // Kubernetes routes built-in kinds by method, and custom ones by verb.
        "get" | "list" | "watch" => *method == Method::GET || target.resource.custom.is_some(),
        // Across all namespaces, only reads are allowed.
        _ if everywhere => false,
        "create" | "deletecollection" => true,
        "update" | "patch" | "delete" => named,
        _ => false,
    }
}

/// The parameters of a request.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `a=b&c=d`.
    pub(crate) fn parse(text: &str) -> Query {
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            percent_encoding::percent_decode_str(&text)
                .decode_utf8_lossy()
                .into_owned()
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Query(pairs.collect())
    }

    /// The same parameters for a list of the state at exactly this revision.
    pub(crate) fn at(&self, revision: i64) -> Query {
        let replaced = ["resourceVersion", "resourceVersionMatch"];
        let kept = self
            .0
            .iter()
            .filter(|(key, _)| !replaced.contains(&key.as_str()));
        let mut pairs: Vec<_> = kept.cloned().collect();
        pairs.push(("resourceVersion".into(), revision.to_string()));
        pairs.push(("resourceVersionMatch".into(), "Exact".into()));
        Query(pairs)
    }

    /// The first value of a parameter; empty if there is none.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.given(key).unwrap_or_default()
    }

    /// The first value of a parameter.
    pub(crate) fn given(&self, key: &str) -> Option<&str> {
        let mut all = self.0.iter();
        all.find(|(one, _)| one == key)
            .map(|(_, value)| value.as_str())
    }

    /// All parameters, in their order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.0.iter().filter(move |(one, _)| one == key);
        pairs.map(|(_, value)| value.as_str())
    }

    /// A boolean: like Go, it is true for anything except `false` and `0`, even for an empty value.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.given(key)
            .is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// A number.
    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.given(key).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let number = text.parse().map_err(|_| {
            let why = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
            Status::bad_request(why)
        })?;
        Ok(Some(number))
    }

    /// The options of a write; `kind` is Kubernetes' name for them. `applies` is true for a
    /// configuration to apply.
    pub(crate) fn options(&self, kind: &str, applies: bool) -> Result<Options, Status> {
        let mut causes = Vec::new();
        if applies && self.text("fieldManager").is_empty() {
            let why = "is required for apply patch";
            causes.push(Cause::required("fieldManager", why));
        }
        if kind == "PatchOptions" && !applies && self.given("force").is_some() {
            let why = "may not be specified for non-apply patch";
            causes.push(Cause::forbidden("force", why));
        }
        causes.extend(bad_manager(self.text("fieldManager")));
        let dry = dry_run(self.all("dryRun"), &mut causes);
        let validation = Validation::parse(self.text("fieldValidation"), &mut causes);
        if causes.is_empty() {
            let force = self.flag("force");
            Ok(Options {
                dry,
                validation,
                force,
            })
        } else {
            Err(Status::invalid("meta.k8s.io", kind, "", causes))
        }
    }

    /// The options of a write as an object, as admission sees them.
    pub(crate) fn options_object(&self, kind: &str) -> Value {
        let mut object = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        let dry: Vec<&str> = self.all("dryRun").collect();
        if !dry.is_empty() {
            object["dryRun"] = dry.into();
        }
        for key in ["fieldManager", "fieldValidation"] {
            if let Some(text) = self.given(key).filter(|text| !text.is_empty()) {
                object[key] = text.into();
            }
        }
        if self.given("force").is_some() {
            object["force"] = self.flag("force").into();
        }
        object
    }

    /// The field manager of a write: the one that the client names, or the name of its program.
    pub(crate) fn manager(&self, user_agent: &str) -> String {
        let named = self.text("fieldManager");
        if !named.is_empty() {
            return named.to_owned();
        }
        let mut manager = String::new();
        let program = user_agent.split('/').next().unwrap_or_default();
        for letter in program.chars().filter(|letter| !letter.is_control()) {
            if manager.len() + letter.len_utf8() > MANAGER_BYTES_MAX {
                break;
            }
            manager.push(letter);
        }
        manager
    }

    /// The selectors of lists, watches and deletions.
    pub(crate) fn selectors(&self, resource: &Resource) -> Result<Selectors, Status> {
        let labels = self.text("labelSelector");
        let labels =
            LabelSelector::parse(labels).map_err(|why| Status::bad_request(why.to_string()))?;
        let text = self.text("fieldSelector");
        let fields =
            FieldSelector::parse(text).map_err(|why| Status::bad_request(why.to_string()))?;
        for one in &fields.requirements {
            let known = match one.field.as_str() {
                "metadata.name" => true,
                // Kinds of the cluster that convert the names of fields do not know it.
                "metadata.namespace" => {
                    let converts = matches!(
                        strategy::of(resource).unknown_field,
                        UnknownField::NotSupported | UnknownField::OfKind(_)
                    );
                    resource.kind.namespaced() || !converts
                }
                field => fields::named(&resource.selectable, field).is_some(),
            };
            if !known {
                return Err(unknown_field(resource, &one.field));
            }
        }
        Ok(Selectors { labels, fields })
    }
}

/// The error in the name of a field manager, if any.
fn bad_manager(name: &str) -> Option<Cause> {
    if name.len() > MANAGER_BYTES_MAX {
        return Some(Cause::too_long("fieldManager", MANAGER_BYTES_MAX));
    }
    let (at, letter) = name.char_indices().find(|(_, c)| c.is_control())?;
    let code = u32::from(letter);
    let why = format!("invalid character U+{code:04X} (at position {at})");
    // Quoted as in Go, not as in JSON.
    let quoted: String = name
        .chars()
        .map(|c| match c {
            '\n' | '\t' | '\r' => c.escape_default().to_string(),
            c if c.is_control() => format!("\\x{:02x}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    Some(Cause {
        reason: "FieldValueInvalid",
        message: format!("Invalid value: \"{quoted}\": {why}"),
        field: "fieldManager".into(),
    })
}

fn unknown_field(resource: &Resource, field: &str) -> Status {
    let text = match strategy::of(resource).unknown_field {
        UnknownField::NotSupportedFor(kind) => {
            format!("field label {field:?} not supported for {kind}")
        }
        UnknownField::OfKind(kind) => {
            format!("field label not supported for {kind}: {field}")
        }
        UnknownField::MetadataAlone if resource.storage.is_some() => format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ),
        _ => format!("field label not supported: {field}"),
    };
    Status::bad_request(text)
}

/// Selects objects of a collection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selectors {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selectors {
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// True if they depend on more than name and namespace, which are the same in all versions.
    pub(crate) fn need_version(&self) -> bool {
        !self.labels.is_empty() || self.need_fields()
    }

    /// True if they depend on fields outside the metadata.
    pub(crate) fn need_fields(&self) -> bool {
        let inside = |one: &FieldRequirement| !one.field.starts_with("metadata.");
        self.fields.requirements.iter().any(inside)
    }

    /// Adds the condition that the object has this name, unless the name is empty.
    pub(crate) fn named(mut self, name: &str) -> Selectors {
        if !name.is_empty() {
            self.fields.requirements.push(FieldRequirement {
                field: "metadata.name".into(),
                value: name.into(),
                negated: false,
            });
        }
        self
    }

    /// True if an object is selected.
    pub(crate) fn matches(&self, resource: &Resource, stored: &Stored) -> bool {
        self.labels.matches_by(|key| stored.label(key))
            && (self.fields.is_empty() || self.fields_match(resource, stored))
    }

    fn fields_match(&self, resource: &Resource, stored: &Stored) -> bool {
        if convert::is_same(resource) {
            return self.fields.matches(|field| stored.field(field));
        }
        // The served version has other names for the fields.
        let Ok(object) = stored.decode() else {
            return false;
        };
        let object = convert::to_served(resource, &Arc::new(object));
        self.fields.matches(|field| {
            let value = |path: &[&str]| object::at(&object, path).cloned();
            fields::text(&resource.selectable, field, value)
        })
    }
}
