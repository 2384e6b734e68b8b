//! `metadata.managedFields`: who owns which fields of an object.

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value};

use super::fields::Set;
use crate::object;

/// Upper bound of the entries for updates. Older ones are merged.
const UPDATES_MAX: usize = 10;
/// The manager of merged entries.
const ANCIENT: &str = "ancient-changes";

/// How a manager writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

/// Who wrote, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// The name that the client gives.
    pub name: String,
    /// How it writes.
    pub operation: Operation,
    /// The `apiVersion` of its updates. Empty for appliers: they keep one entry when they change
    /// the version.
    pub api_version: String,
    /// The subresource that it writes through; may be empty.
    pub subresource: String,
}

/// What a manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The fields.
    pub set: Set,
    /// The `apiVersion` that the names of the fields are from.
    pub api_version: String,
    /// When the manager last changed something; RFC 3339 in UTC with whole seconds.
    pub time: Option<String>,
}

/// The managers of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managers(pub BTreeMap<Manager, Owned>);

impl std::fmt::Display for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.name)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

impl Manager {
    /// A manager; an empty name becomes `unknown`.
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Manager {
        let name = if name.is_empty() { "unknown" } else { name };
        Manager {
            name: name.to_owned(),
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: subresource.to_owned(),
        }
    }
}

impl Managers {
    /// Reads the managers of an object.
    pub fn of(object: &Value) -> Result<Managers, String> {
        let mut managers = Managers::default();
        for (index, entry) in entries(object).iter().enumerate() {
            let (manager, owned) = read(index, entry)?;
            managers.0.insert(manager, owned);
        }
        Ok(managers)
    }

    /// The same; none if they cannot be read.
    pub(super) fn readable(object: &Value) -> Managers {
        Managers::of(object).unwrap_or_default()
    }

    /// Writes the managers into an object.
    pub fn write(&self, object: &mut Value) {
        if self.0.is_empty() {
            object::remove(object, &["metadata", "managedFields"]);
            return;
        }
        let mut all: Vec<(&Manager, &Owned)> = self.0.iter().collect();
        all.sort_by(|(a, of_a), (b, of_b)| {
            let key = |manager: &Manager| manager.operation;
            key(a)
                .cmp(&key(b))
                .then_with(|| of_a.time.cmp(&of_b.time))
                .then_with(|| a.name.cmp(&b.name))
                .then_with(|| of_a.api_version.cmp(&of_b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        let all: Vec<Value> = all
            .into_iter()
            .map(|(one, owned)| entry(one, owned))
            .collect();
        object::metadata_mut(object).insert("managedFields".into(), all.into());
    }

    /// Merges the oldest entries for updates, version by version, until there are few enough.
    pub(super) fn cap(&mut self) {
        let updates = self.0.iter();
        let updates = updates.filter(|(manager, _)| manager.operation == Operation::Update);
        let mut updates: Vec<(Option<String>, Manager)> = updates
            .map(|(manager, owned)| (owned.time.clone(), manager.clone()))
            .collect();
        updates.sort();
        let mut count = updates.len();
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for (_, manager) in updates {
            if count <= UPDATES_MAX {
                return;
            }
            let Some(owned) = self.0.get(&manager).cloned() else {
                continue;
            };
            let version = owned.api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, manager);
                continue;
            };
            let bucket = Manager::new(ANCIENT, Operation::Update, &version, "");
            if !self.0.contains_key(&bucket)
                && let Some(of_first) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), of_first);
            }
            let before = self.0.remove(&bucket).map(|owned| owned.set);
            self.0.remove(&manager);
            // Only what is added is copied: the bucket grows with each manager.
            let set = before.unwrap_or_default().union(&owned.set);
            self.0.insert(bucket, Owned { set, ..owned });
            count -= 1;
        }
    }

    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|_, owned| !owned.set.is_empty());
    }
}

/// True if an object asks to forget all managers: by an empty list, or by one empty entry.
pub(super) fn is_reset(object: &Value) -> bool {
    let given = object::at(object, &["metadata", "managedFields"]).and_then(Value::as_array);
    given.is_some_and(|given| match given.as_slice() {
        [] => true,
        [only] => only.as_object().is_some_and(Object::is_empty),
        _ => false,
    })
}

/// True if two objects are equal but for the times of their managers and `resourceVersion`.
pub fn equal_without_times(a: &Value, b: &Value) -> bool {
    let (Some(of_a), Some(of_b)) = (a.as_object(), b.as_object()) else {
        return a == b;
    };
    let (managers_a, managers_b) = (entries(a), entries(b));
    let same_managers = managers_a.len() == managers_b.len()
        && managers_a
            .iter()
            .zip(managers_b)
            .all(|(a, b)| equal_but(a, b, &["time"]));
    let same = |(key, value): (&String, &Value)| match (key.as_str(), of_b.get(key)) {
        ("metadata", Some(other)) => equal_but(value, other, &["managedFields", "resourceVersion"]),
        (_, other) => other == Some(value),
    };
    same_managers && of_a.len() == of_b.len() && of_a.iter().all(same)
}

/// True if two maps are equal but for some keys.
fn equal_but(a: &Value, b: &Value, keys: &[&str]) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return a == b;
    };
    let rest = |map: &Object<String, Value>| {
        let there = keys.iter().filter(|key| map.contains_key(**key)).count();
        map.len() - there
    };
    let same =
        |(key, value): (&String, &Value)| keys.contains(&key.as_str()) || b.get(key) == Some(value);
    rest(a) == rest(b) && a.iter().all(same)
}

pub(super) fn entries(object: &Value) -> &[Value] {
    object::items(object, &["metadata", "managedFields"])
}

fn read(index: usize, entry: &Value) -> Result<(Manager, Owned), String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".into()),
    };
    if text("apiVersion").is_empty() {
        return Err("apiVersion must not be empty".into());
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => {
            return Err(format!(
                "missing fieldsType in managed fields entry {index}"
            ));
        }
        other => {
            let why = format!("invalid fieldsType {other:?} in managed fields entry {index}");
            return Err(why);
        }
    }
    let manager = Manager {
        name: text("manager").to_owned(),
        operation,
        api_version: match operation {
            Operation::Apply => String::new(),
            Operation::Update => text("apiVersion").to_owned(),
        },
        subresource: text("subresource").to_owned(),
    };
    let fields = entry.get("fieldsV1");
    let set = fields.map(Set::from_fields_v1).transpose();
    let set = set.map_err(|why| format!("error decoding set: {why}"))?;
    let owned = Owned {
        set: set.unwrap_or_default(),
        api_version: text("apiVersion").to_owned(),
        time: Some(text("time").to_owned()).filter(|time| !time.is_empty()),
    };
    Ok((manager, owned))
}

fn entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = Object::new();
    let operation = match manager.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    for (key, text) in [
        ("manager", manager.name.as_str()),
        ("operation", operation),
        ("apiVersion", owned.api_version.as_str()),
        ("time", owned.time.as_deref().unwrap_or_default()),
        ("fieldsType", "FieldsV1"),
        ("subresource", manager.subresource.as_str()),
    ] {
        if !text.is_empty() {
            entry.insert(key.to_owned(), text.into());
        }
    }
    entry.insert("fieldsV1".to_owned(), owned.set.to_fields_v1());
    Value::Object(entry)
}
