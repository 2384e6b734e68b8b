//! What the columns of tables mean, in Kubernetes' words. Most of them are what the documentation
//! says of a field; `columns.txt` names these fields and has the other texts.

use std::collections::HashMap;
use std::sync::LazyLock;

use descriptions::Descriptions;
use machinery::schema::Kind;

const COLUMNS: &str = include_str!("columns.txt");
const METADATA: &str = "apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// Columns that mean the same of every resource, and the field of the metadata that they show.
const COMMON: [(&str, &str); 3] = [
    ("Name", "name"),
    ("Age", "creationTimestamp"),
    ("Created At", "creationTimestamp"),
];

/// The texts by resource and column; those of every resource are under an empty one.
type Texts = HashMap<&'static str, HashMap<&'static str, String>>;

static TEXTS: LazyLock<Texts> = LazyLock::new(read);

/// What a column of a kind means; empty if Kubernetes does not say.
pub(crate) fn of(kind: &Kind, column: &str) -> &'static str {
    let resource = match kind.group() {
        "" => kind.plural().to_owned(),
        group => format!("{group}/{}", kind.plural()),
    };
    of_resource(&resource, column)
}

/// The same by the name that `columns.txt` has for a resource.
pub(crate) fn of_resource(resource: &str, column: &str) -> &'static str {
    let text = |resource: &str| TEXTS.get(resource)?.get(column);
    text(resource)
        .or_else(|| text(""))
        .map_or("", String::as_str)
}

/// Reads the texts: lines of resources, below each its columns.
fn read() -> Texts {
    let all = Descriptions::unpack();
    let field = |path: &str| {
        let (message, field) = path.rsplit_once('.')?;
        all.of_field(&format!("io.k8s.{message}"), field)
    };
    let mut texts = Texts::new();
    for (column, name) in COMMON {
        let text = field(&format!("{METADATA}.{name}"));
        let common = texts.entry("").or_default();
        common.insert(column, text.unwrap_or_default().to_owned());
    }
    let mut resource = "";
    for line in COLUMNS.lines() {
        let Some((column, text)) = line
            .strip_prefix("  ")
            .and_then(|line| line.split_once(": "))
        else {
            resource = line;
            continue;
        };
        let text = match text.strip_prefix('@') {
            Some(path) => field(path).unwrap_or_default().to_owned(),
            None => text.replace("\\n", "\n"),
        };
        texts.entry(resource).or_default().insert(column, text);
    }
    texts
}

#[test]
fn every_field_that_is_named_has_a_text() {
    for (resource, columns) in TEXTS.iter() {
        let mut empty = columns.iter().filter(|(_, text)| text.is_empty());
        assert_eq!(empty.next(), None, "{resource}");
    }
}
