//! Resources that the schema table does not have, as a CustomResourceDefinition describes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use machinery::name;
use machinery::schema::{Kind, Names, Scope};
use machinery::status::{Cause, Status};
use machinery::structural::Schema;
use serde_json::Value;

use super::catalogue::{Resource, Storage};
use super::convert::{Conversion, ConvertedVersion, Converter};
use super::fields::Field;
use super::json_path::JsonPath;

/// A custom resource in all its versions.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The API group, a domain name with at least one dot.
    pub group: String,
    /// What the kind and its collection are called.
    pub names: Names,
    /// Whether objects live in a namespace.
    pub scope: Scope,
    /// Its versions; exactly one of them is stored. All have the same fields.
    pub versions: Vec<Version>,
    /// Whether its objects are being deleted, so that there are no new ones.
    pub terminating: bool,
    /// The uid of the CustomResourceDefinition in the store; empty if there is none, and the
    /// resource is one of this process.
    pub uid: String,
}

/// One version of a custom resource.
#[derive(Debug, Clone, Default)]
pub struct Version {
    /// The version, such as `v1beta1`.
    pub name: String,
    /// Whether requests may name it.
    pub served: bool,
    /// Whether objects are stored in it.
    pub stored: bool,
    /// Whether the status is written through a path of its own.
    pub status: bool,
    /// Where the numbers of a Scale are; `None` for a resource without that subresource.
    pub scale: Option<Scale>,
    /// What tables show beside the name; `None` for the age.
    pub columns: Option<Vec<Column>>,
    /// Fields that selectors may name, such as `.spec.color`.
    pub selectable: Vec<String>,
    /// What the fields are, as the `openAPIV3Schema` of a definition says it.
    pub schema: Option<Value>,
    /// Why clients should use another version; a warning in each response.
    pub deprecated: Option<String>,
}

/// Where the numbers of a Scale are in an object, as paths such as `.spec.replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// How many replicas are asked for.
    pub spec_replicas: String,
    /// How many replicas there are.
    pub status_replicas: String,
    /// The selector of the replicas as text; may be empty.
    pub label_selector: String,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The title.
    pub name: String,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub kind: String,
    /// A hint of how to show it, such as `int32`; may be empty.
    pub format: String,
    /// What it says; may be empty.
    pub description: String,
    /// Columns above 0 are shown in wide output only.
    pub priority: i32,
    /// Where the value is in an object, such as `.status.phase`.
    pub json_path: String,
}

/// The schema of each version by its `apiVersion`; `None` for a version that keeps all fields.
pub(crate) type Schemas = BTreeMap<String, Option<Arc<Schema>>>;

/// What field managers need of each version, served or not, by its `apiVersion`.
pub(crate) type Versions = BTreeMap<String, OneVersion>;

/// What field managers need of a version.
#[derive(Debug)]
pub(crate) struct OneVersion {
    /// What the fields are; `None` for a version that keeps them all.
    pub(crate) schema: Option<Arc<Schema>>,
    /// It is served or stored, and the status is written through a path of its own.
    pub(crate) has_status: bool,
    /// Where the number of replicas is; `None` without the subresource `scale`.
    pub(crate) replicas: Option<Vec<String>>,
}

/// What is particular about a resource that the table does not have.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(crate) versions: Arc<Versions>,
    /// What the fields are; `None` for a resource that keeps them all.
    pub(crate) schema: Option<Arc<Schema>>,
    /// Converts the objects if versions have different fields.
    pub(crate) converted: Option<ConvertedVersion>,
    /// No objects may be created.
    pub(crate) terminating: bool,
    /// The uid of its definition; empty if the store has none.
    pub(crate) definition: String,
    /// A revision of its definition that takes new objects: that of the last look at it; 0 before.
    pub(crate) open_at: AtomicI64,
    pub(crate) scale: Option<ScalePaths>,
    /// The warning in each response.
    pub(crate) deprecated: Option<String>,
    /// Those beside the name; `None` for the age.
    pub(crate) columns: Option<Vec<(Column, JsonPath)>>,
}

/// The paths of a [`Scale`].
#[derive(Debug)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    /// Empty when no selector is shown.
    pub(crate) label_selector: Vec<String>,
}

/// What discovery lists while the objects are being deleted.
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
const COLUMN_TYPES: [&str; 5] = ["integer", "number", "string", "boolean", "date"];

impl Definition {
    /// Widgets in one version, for a test to change where it is about something else.
    #[cfg(test)]
    pub(crate) fn widgets() -> Definition {
        Definition {
            group: "example.com".into(),
            names: Names {
                kind: "Widget".into(),
                list_kind: "WidgetList".into(),
                plural: "widgets".into(),
                singular: "widget".into(),
                short_names: Vec::new(),
                categories: Vec::new(),
            },
            scope: Scope::Namespaced,
            versions: vec![Version {
                name: "v1".into(),
                served: true,
                stored: true,
                ..Version::default()
            }],
            terminating: false,
            uid: String::new(),
        }
    }

    /// The resources of the served versions, the preferred version first. They keep the collection
    /// that they had before, unless it cannot hold their objects or reads them by another schema;
    /// nothing else is changed yet.
    /// All versions have the same fields.
    pub(crate) fn resources(
        &self,
        before: Option<&Arc<Storage>>,
    ) -> Result<Vec<Arc<Resource>>, Status> {
        self.check()?;
        self.converted(before, &self.schemas()?, None)
    }

    /// The same with the schemas of [`Definition::schemas`], for objects that a converter converts.
    pub(crate) fn converted(
        &self,
        before: Option<&Arc<Storage>>,
        schemas: &Schemas,
        converter: Option<&Arc<dyn Converter>>,
    ) -> Result<Vec<Arc<Resource>>, Status> {
        self.check()?;
        let stored = self.stored()?;
        let keeps_version = converter.is_some();
        let fits = |before: &&Arc<Storage>| {
            self.fits(before, keeps_version) && (keeps_version || before.reads_like(schemas))
        };
        let new = if keeps_version {
            Storage::converted
        } else {
            Storage::custom
        };
        let storage = match before.filter(fits) {
            Some(before) => Arc::clone(before),
            None => Arc::new(new(self.kind(stored), selectable(stored), schemas.clone())),
        };
        let versions = Arc::new(self.known(schemas)?);
        let mut served: Vec<&Version> = self.versions.iter().filter(|one| one.served).collect();
        served.sort_by(|a, b| name::compare_versions(&b.name, &a.name));
        let resources = served.into_iter().map(|version| {
            let kind = self.kind(version);
            let is_stored = version.name == storage.kind.version();
            let custom = Custom {
                versions: Arc::clone(&versions),
                schema: schemas.get(&kind.api_version()).cloned().flatten(),
                converted: converter.map(|converter| ConvertedVersion {
                    converter: Arc::clone(converter),
                    view: Arc::new(Storage::custom(
                        Arc::clone(&kind),
                        selectable(version),
                        Schemas::new(),
                    )),
                }),
                terminating: self.terminating,
                definition: self.uid.clone(),
                open_at: AtomicI64::new(0),
                scale: self.scale(version)?,
                deprecated: version.deprecated.clone(),
                columns: self.columns(version)?,
            };
            Ok(Arc::new(Resource {
                kind,
                storage: Some(Arc::clone(&storage)),
                selectable: selectable(version),
                conversion: (!is_stored && converter.is_none()).then_some(Conversion::NONE),
                custom: Some(custom),
            }))
        });
        resources.collect()
    }

    /// The schema of each version by its `apiVersion`, of versions that are not served, too.
    pub(crate) fn schemas(&self) -> Result<Schemas, Status> {
        let all = self.versions.iter().map(|version| {
            let api_version = format!("{}/{}", self.group, version.name);
            Ok((api_version, self.schema(version)?.map(Arc::new)))
        });
        all.collect()
    }

    fn known(&self, schemas: &Schemas) -> Result<Versions, Status> {
        let all = self.versions.iter().map(|version| {
            let api_version = format!("{}/{}", self.group, version.name);
            let one = OneVersion {
                schema: schemas.get(&api_version).cloned().flatten(),
                has_status: version.status && (version.served || version.stored),
                replicas: self.scale(version)?.map(|scale| scale.spec_replicas),
            };
            Ok((api_version, one))
        });
        all.collect()
    }

    /// The `apiVersion` that objects are stored in.
    pub(crate) fn stored_in(&self) -> Result<String, Status> {
        Ok(format!("{}/{}", self.group, self.stored()?.name))
    }

    fn stored(&self) -> Result<&Version, Status> {
        let stored = self.versions.iter().find(|version| version.stored);
        stored.ok_or_else(|| self.invalid("spec.versions", "one must be stored"))
    }

    /// Whether a collection can hold the objects: its keys are the same, it keeps their versions or
    /// does not, and what its cache keeps of each object is what selectors ask for.
    fn fits(&self, storage: &Storage, keeps_version: bool) -> bool {
        let kind = &storage.kind;
        let same_keys = kind.scope() == self.scope
            && (kind.group(), kind.plural()) == (&self.group, &*self.names.plural);
        let stored = self.stored().ok();
        let same_fields = stored.is_some_and(|stored| storage.selectable == selectable(stored));
        let same_version = stored.is_some_and(|stored| stored.name == kind.version());
        let same_form = storage.keeps_version == keeps_version && (same_version || !keeps_version);
        same_keys && kind.kind() == self.names.kind && same_fields && same_form
    }

    fn kind(&self, version: &Version) -> Arc<Kind> {
        let (group, names) = (self.group.clone(), self.names.clone());
        let mut kind = Kind::custom(group, version.name.clone(), names, self.scope);
        if self.terminating {
            kind = kind.with_verbs(TERMINATING_VERBS.into_iter());
        }
        if version.status {
            kind = kind.with_status();
        }
        if version.scale.is_some() {
            kind = kind.with_scale();
        }
        Arc::new(kind)
    }

    fn scale(&self, version: &Version) -> Result<Option<ScalePaths>, Status> {
        let path = |text: &str| {
            simple_path(text).ok_or_else(|| self.invalid("spec.versions.subresources.scale", text))
        };
        let Some(scale) = &version.scale else {
            return Ok(None);
        };
        Ok(Some(ScalePaths {
            spec_replicas: path(&scale.spec_replicas)?,
            status_replicas: path(&scale.status_replicas)?,
            label_selector: match scale.label_selector.as_str() {
                "" => Vec::new(),
                selector => path(selector)?,
            },
        }))
    }

    fn columns(&self, version: &Version) -> Result<Option<Vec<(Column, JsonPath)>>, Status> {
        let read = |column: &Column| {
            let field = "spec.versions.additionalPrinterColumns";
            let path = JsonPath::parse(&column.json_path);
            let path = path.map_err(|why| self.invalid(field, &why))?;
            Ok((column.clone(), path))
        };
        let columns = version.columns.as_ref();
        let columns = columns.map(|all| all.iter().map(read).collect::<Result<Vec<_>, Status>>());
        columns.transpose()
    }

    fn schema(&self, version: &Version) -> Result<Option<Schema>, Status> {
        let schema = version.schema.as_ref().map(|document| {
            let field = format!("spec.versions[{}].schema.openAPIV3Schema", version.name);
            let kind = "CustomResourceDefinition";
            let name = format!("{}.{}", self.names.plural, self.group);
            Schema::parse_at(&field, document)
                .map_err(|causes| Status::invalid("apiextensions.k8s.io", kind, &name, causes))
        });
        schema.transpose()
    }

    /// What would make paths and keys ambiguous is refused.
    fn check(&self) -> Result<(), Status> {
        let wrong = |field: &str, wrong: Vec<String>| match wrong.first() {
            Some(why) => Err(self.invalid(field, why)),
            None => Ok(()),
        };
        wrong("spec.group", name::dns1123_subdomain(&self.group))?;
        if !self.group.contains('.') {
            return Err(self.invalid("spec.group", "should be a domain with at least one dot"));
        }
        for (field, text) in [
            ("spec.names.plural", &self.names.plural),
            ("spec.names.singular", &self.names.singular),
        ] {
            wrong(field, name::dns1035_label(text))?;
        }
        for version in &self.versions {
            wrong("spec.versions.name", name::dns1035_label(&version.name))?;
            let twice = self.versions.iter().filter(|one| one.name == version.name);
            if twice.count() > 1 {
                return Err(self.invalid("spec.versions", "must contain unique version names"));
            }
            let unknown = |column: &&Column| !COLUMN_TYPES.contains(&column.kind.as_str());
            if let Some(column) = version.columns.iter().flatten().find(unknown) {
                let field = "spec.versions.additionalPrinterColumns.type";
                return Err(self.invalid(field, &column.kind));
            }
            if version
                .selectable
                .iter()
                .any(|path| simple_path(path).is_none())
            {
                let why = "must be simple paths such as .spec.color";
                return Err(self.invalid("spec.versions.selectableFields", why));
            }
        }
        if self.versions.iter().filter(|one| one.stored).count() != 1 {
            let why = "must have exactly one version marked as storage version";
            return Err(self.invalid("spec.versions", why));
        }
        Ok(())
    }

    fn invalid(&self, field: &str, why: &str) -> Status {
        let name = format!("{}.{}", self.names.plural, self.group);
        let cause = Cause::invalid(field, &Value::Null, why);
        Status::invalid(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            &name,
            vec![cause],
        )
    }
}

fn selectable(version: &Version) -> Arc<[Field]> {
    let labels = version.selectable.iter();
    let labels = labels.map(|path| path.trim_start_matches('.').to_owned());
    labels.map(Field::new).collect()
}

/// The keys of a path such as `.spec.replicas`.
fn simple_path(text: &str) -> Option<Vec<String>> {
    let keys = text.strip_prefix('.')?.split('.').map(str::to_owned);
    let keys: Vec<String> = keys.collect();
    let is_key = |key: &String| {
        !key.is_empty()
            && key
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    keys.iter().all(is_key).then_some(keys)
}
