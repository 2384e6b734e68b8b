//! What schemas say in words, and the values of enumerations.

use std::collections::BTreeMap;

use descriptions::Descriptions;
use machinery::schema::Type;
use machinery::structural::CommonTexts;

/// Kinds of which objects and lists of all kinds have the texts of their common fields.
pub(super) const POD: &str = "io.k8s.api.core.v1.Pod";
/// The types of text that are enumerations, with their values.
const ENUMS: &str = include_str!("enums.txt");
/// Fields whose texts end with an empty line before the values. The library cuts it off.
const SPACED: [(&str, &str); 9] = [
    ("DeviceAllocationConfiguration", "source"),
    ("DeviceSubRequest", "allocationMode"),
    ("DeviceTaint", "effect"),
    ("DeviceToleration", "effect"),
    ("DeviceToleration", "operator"),
    ("ExactDeviceRequest", "allocationMode"),
    ("Mutation", "patchType"),
    ("NamedRuleWithOperations", "scope"),
    ("RuleWithOperations", "scope"),
];

/// The texts while documents are made.
pub(super) struct Texts {
    descriptions: Descriptions,
    enums: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Texts {
    /// Unpacks them.
    pub(super) fn unpack() -> Texts {
        let lines = ENUMS.lines().filter(|line| !line.starts_with('#'));
        let enums = lines.filter_map(|line| {
            let (name, values) = line.split_once('|')?;
            Some((name, values.split('|').collect()))
        });
        Texts {
            descriptions: Descriptions::unpack(),
            enums: enums.collect(),
        }
    }

    /// What is said of a schema.
    pub(super) fn of_type(&self, schema: &str) -> Option<&str> {
        self.descriptions.of_type(schema)
    }

    /// What is said of a field of a schema, and then the values that it may have.
    pub(super) fn of_field(&self, schema: &str, field: &str, kind: &Type) -> Option<String> {
        let text = self.descriptions.of_field(schema, field)?;
        let Some(values) = self.values(kind) else {
            return Some(text.to_owned());
        };
        // Kubernetes also says what each value means. The library has no such texts.
        let values = values.iter().map(|value| format!("\n - `\"{value}\"`"));
        let values: String = values.collect();
        let (_, name) = schema.rsplit_once('.')?;
        let end = if SPACED.contains(&(name, field)) {
            "\n"
        } else {
            ""
        };
        Some(format!("{text}{end}\n\nPossible enum values:{values}"))
    }

    /// The text as the library has it.
    pub(super) fn plain(&self, schema: &str, field: &str) -> Option<&str> {
        self.descriptions.of_field(schema, field)
    }

    /// What is said of the fields that objects of all kinds have.
    pub(super) fn common(&self) -> CommonTexts<'_> {
        let text = |field| self.plain(POD, field).unwrap_or_default();
        CommonTexts {
            api_version: text("apiVersion"),
            kind: text("kind"),
            metadata: text("metadata"),
        }
    }

    /// The values of a type of text, if it is an enumeration.
    pub(super) fn values(&self, kind: &Type) -> Option<&[&'static str]> {
        match kind {
            Type::String(Some(name)) => Some(self.enums.get(name)?),
            _ => None,
        }
    }
}
