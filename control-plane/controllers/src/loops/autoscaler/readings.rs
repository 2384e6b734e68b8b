//! What the loop asks servers of metrics, and their answers: calls with their paths, and values.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use machinery::api::Call;
use machinery::object::{self, Object};
use machinery::quantity::{Error, Quantity, WRONG_FORM};
use machinery::schema::Kind;
use machinery::selector::LabelSelector;
use machinery::time::{self, Timestamp};
use serde_json::{Map, Value};

/// The group of metrics that an adapter has of objects.
pub(super) const CUSTOM: &str = "custom.metrics.k8s.io";
const RESOURCES: &str = "metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io";
/// The time over which a custom metric was taken if it does not say so.
const WINDOW: Duration = Duration::from_secs(60);

/// A value of a metric of one pod, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) value: i64,
    pub(super) at: Timestamp,
    /// The time before `at` over which it was taken.
    pub(super) window: Duration,
}

/// The values of a metric, by the names of the pods.
pub(super) type Readings = BTreeMap<String, Reading>;

impl Reading {
    /// A value that nobody read.
    pub(super) fn assumed(value: i64) -> Reading {
        Reading {
            value,
            at: Timestamp::default(),
            window: Duration::ZERO,
        }
    }
}

/// Reads the `scale` of an object.
pub(super) fn of_scale(kind: &Kind, namespace: &str, name: &str) -> Call {
    let root = match kind.group() {
        "" => "/api".to_owned(),
        group => format!("/apis/{group}"),
    };
    let (version, plural, at) = (kind.version(), kind.plural(), escaped(name));
    Call::Read {
        path: format!("{root}/{version}/namespaces/{namespace}/{plural}/{at}/scale"),
        what: format!("{plural} {name}"),
    }
}

/// Reads what the containers of pods use.
pub(super) fn of_usage(namespace: &str, pods: &LabelSelector) -> Call {
    let query = query(&[("labelSelector", pods.to_string())]);
    Call::Read {
        path: format!("/apis/{RESOURCES}/v1beta1/namespaces/{namespace}/pods{query}"),
        what: format!("pods.{RESOURCES}"),
    }
}

/// Reads a metric of objects that an adapter has. `resource` is theirs with its group, `name` is
/// `*` for all that `objects` selects.
pub(super) fn of_objects(
    (version, namespace): (&str, &str),
    (resource, name, objects): (&str, &str, &LabelSelector),
    (metric, series): (&str, &LabelSelector),
) -> Call {
    let query = query(&[
        ("labelSelector", objects.to_string()),
        ("metricLabelSelector", series.to_string()),
    ]);
    let at = match name {
        "*" => "*".to_owned(),
        name => escaped(name),
    };
    let root = format!("/apis/{CUSTOM}/{version}/namespaces/{namespace}");
    Call::Read {
        path: format!("{root}/{resource}/{at}/{}{query}", escaped(metric)),
        what: format!("{resource}.{CUSTOM} {name}"),
    }
}

/// Reads a metric of a namespace itself.
pub(super) fn of_namespace(
    (version, namespace): (&str, &str),
    (metric, series): (&str, &LabelSelector),
) -> Call {
    let query = query(&[("metricLabelSelector", series.to_string())]);
    let root = format!("/apis/{CUSTOM}/{version}/namespaces/{namespace}");
    Call::Read {
        path: format!("{root}/metrics/{}{query}", escaped(metric)),
        what: format!("metrics.{CUSTOM} {metric}"),
    }
}

/// Reads a metric of something outside the cluster.
pub(super) fn of_outside(namespace: &str, (metric, series): (&str, &LabelSelector)) -> Call {
    let query = query(&[("labelSelector", series.to_string())]);
    let root = format!("/apis/{EXTERNAL}/v1beta1/namespaces/{namespace}");
    Call::Read {
        path: format!("{root}/{}{query}", escaped(metric)),
        what: format!("{metric}.{EXTERNAL}"),
    }
}

/// Why an answer cannot be used, if a quantity in it is none. It must not count as zero: that would
/// take pods away.
pub(super) fn wrong(list: &Object) -> Option<&'static str> {
    let items = object::items(list, &["items"]).iter();
    let mut quantities = items.flat_map(|one| {
        let containers = object::items(one, &["containers"]).iter();
        let usage = containers.filter_map(|one| one.get("usage")?.as_object());
        let value = one.get("value").into_iter();
        value.chain(usage.flat_map(Map::values))
    });
    quantities.find_map(|value| amount(value).err().map(|Error(why)| why))
}

/// What pods use of a resource: all containers together or, if it is named, one of them. A pod of
/// which a value is missing is left out.
pub(super) fn usage(list: &Object, resource: &str, container: &str) -> Readings {
    let of_pod = |pod: &Value| {
        let all = object::items(pod, &["containers"]).iter();
        let wanted: Vec<&Value> = all
            .filter(|one| container.is_empty() || object::text(one, &["name"]) == container)
            .collect();
        let value = |one: &&Value| object::at(one, &["usage", resource]).and_then(number);
        let values: Option<Vec<i64>> = wanted.iter().map(value).collect();
        let values = values.filter(|values| !values.is_empty())?;
        let window = time::parse_go_duration(object::text(pod, &["window"]));
        let window = window.and_then(|nanos| u64::try_from(nanos).ok());
        let reading = Reading {
            value: values.into_iter().fold(0, i64::saturating_add),
            at: taken(pod),
            window: Duration::from_nanos(window.unwrap_or(0)),
        };
        Some((object::name(pod).to_owned(), reading))
    };
    let pods = object::items(list, &["items"]).iter();
    pods.filter_map(of_pod).collect()
}

/// The values of a metric of pods.
pub(super) fn by_pod(list: &Object) -> Readings {
    let of_pod = |one: &Value| {
        // The first version of the API has another name for it.
        let mut windows = ["windowSeconds", "window"].into_iter();
        let window = windows.find_map(|key| one[key].as_u64());
        let reading = Reading {
            value: number(&one["value"]).unwrap_or(0),
            at: taken(one),
            window: window.map_or(WINDOW, Duration::from_secs),
        };
        let name = object::text(one, &["describedObject", "name"]);
        (name.to_owned(), reading)
    };
    let pods = object::items(list, &["items"]).iter();
    pods.map(of_pod).collect()
}

/// The values in a list of metrics, in thousandths.
pub(super) fn values(list: &Object) -> Vec<i64> {
    let all = object::items(list, &["items"]).iter();
    all.map(|one| number(&one["value"]).unwrap_or(0)).collect()
}

/// A quantity in thousandths; one that is none counts as zero.
pub(super) fn milli(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, Quantity::milli_value)
}

/// A quantity in an answer, in thousandths.
fn number(value: &Value) -> Option<i64> {
    amount(value).ok().map(Quantity::milli_value)
}

/// A quantity in an answer: JSON has it as a text or as a number. As in Go, null is zero.
fn amount(value: &Value) -> Result<Quantity, Error> {
    match value {
        Value::Null => Ok(Quantity::ZERO),
        Value::String(text) => Quantity::parse(text.trim()),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => Err(WRONG_FORM),
    }
}

fn taken(one: &Value) -> Timestamp {
    Timestamp::parse(object::text(one, &["timestamp"])).unwrap_or_default()
}

/// A query with those parameters that have a value.
fn query(parameters: &[(&str, String)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let pairs = given.map(|(key, value)| format!("{key}={}", escaped(value)));
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() {
        return String::new();
    }
    format!("?{}", pairs.join("&"))
}

/// A text as one segment of a path, or one value of a query.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
