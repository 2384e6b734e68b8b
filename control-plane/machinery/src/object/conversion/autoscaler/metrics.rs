//! Metrics of both versions: their targets, and what they are now.
//!
//! v1 keeps a metric in one flat map and v2 in maps within it, so that a metric is a table of the
//! places of its fields.

use serde_json::{Map, Value, json};

use super::text::Form;
use crate::object;
use crate::values::quantity::Quantity;

/// A kind of metric: its field, and its fields.
type Kind = (&'static str, &'static [Row]);

/// One field of a metric: its name in v1, its path in v2, and its form.
type Row = (&'static str, &'static [&'static str], Form);

const TARGET_VALUE: &[&str] = &["target", "value"];
const TARGET_AVERAGE: &[&str] = &["target", "averageValue"];
const TARGET_UTILIZATION: &[&str] = &["target", "averageUtilization"];
const CURRENT_VALUE: &[&str] = &["current", "value"];
const CURRENT_AVERAGE: &[&str] = &["current", "averageValue"];
const CURRENT_UTILIZATION: &[&str] = &["current", "averageUtilization"];

const OBJECT: Row = ("target", &["describedObject"], Form::Reference);
const METRIC: Row = ("metricName", &["metric", "name"], Form::Text);
const SELECTOR: Row = ("selector", &["metric", "selector"], Form::Selector);
const METRIC_SELECTOR: Row = ("metricSelector", &["metric", "selector"], Form::Selector);
const NAME: Row = ("name", &["name"], Form::Text);
const CONTAINER: Row = ("container", &["container"], Form::Text);
const AVERAGE: Row = ("targetAverageValue", TARGET_AVERAGE, Form::Quantity);
const USED: Row = ("currentAverageValue", CURRENT_AVERAGE, Form::QuantityOrZero);
const UTILIZATION: Row = (
    "targetAverageUtilization",
    TARGET_UTILIZATION,
    Form::Integer,
);
const USED_UTILIZATION: Row = (
    "currentAverageUtilization",
    CURRENT_UTILIZATION,
    Form::Integer,
);

/// What metrics should be.
pub(super) const SOURCES: [Kind; 5] = [
    (
        "object",
        &[
            OBJECT,
            METRIC,
            ("targetValue", TARGET_VALUE, Form::QuantityOrZero),
            SELECTOR,
            ("averageValue", TARGET_AVERAGE, Form::Quantity),
        ],
    ),
    (
        "pods",
        &[
            METRIC,
            ("targetAverageValue", TARGET_AVERAGE, Form::QuantityOrZero),
            SELECTOR,
        ],
    ),
    ("resource", &[NAME, UTILIZATION, AVERAGE]),
    (
        "containerResource",
        &[NAME, UTILIZATION, AVERAGE, CONTAINER],
    ),
    (
        "external",
        &[
            METRIC,
            METRIC_SELECTOR,
            ("targetValue", TARGET_VALUE, Form::Quantity),
            AVERAGE,
        ],
    ),
];

/// What metrics are.
pub(super) const STATUSES: [Kind; 5] = [
    (
        "object",
        &[
            OBJECT,
            METRIC,
            ("currentValue", CURRENT_VALUE, Form::QuantityOrZero),
            SELECTOR,
            ("averageValue", CURRENT_AVERAGE, Form::Quantity),
        ],
    ),
    ("pods", &[METRIC, USED, SELECTOR]),
    ("resource", &[NAME, USED_UTILIZATION, USED]),
    (
        "containerResource",
        &[NAME, USED_UTILIZATION, USED, CONTAINER],
    ),
    (
        "external",
        &[
            METRIC,
            METRIC_SELECTOR,
            ("currentValue", CURRENT_VALUE, Form::QuantityOrZero),
            ("currentAverageValue", CURRENT_AVERAGE, Form::Quantity),
        ],
    ),
];

/// A metric of v2 as v1 has it.
pub(super) fn to_v1(metric: &Value, kinds: &[Kind]) -> Value {
    let mut flat = Map::new();
    flat.insert("type".into(), object::text(metric, &["type"]).into());
    for (kind, rows) in kinds {
        let Some(fields) = metric.get(*kind).filter(|one| one.is_object()) else {
            continue;
        };
        let mut one = Map::new();
        for (name, path, form) in *rows {
            let value = object::at(fields, path).filter(|value| !value.is_null());
            if let Some(value) = value.cloned().or_else(|| form.zero()) {
                one.insert((*name).to_owned(), value);
            }
        }
        flat.insert((*kind).to_owned(), one.into());
    }
    flat.into()
}

/// The metrics of an annotation as v2 has them; `None` if Go could not decode them.
pub(super) fn to_v2(metrics: &Value, kinds: &[Kind]) -> Option<Vec<Value>> {
    let items = match metrics {
        Value::Null => &[][..],
        Value::Array(items) => items,
        _ => return None,
    };
    items.iter().map(|one| nested(one, kinds)).collect()
}

fn nested(flat: &Value, kinds: &[Kind]) -> Option<Value> {
    let none = Map::new();
    let flat = match flat {
        Value::Null => &none,
        flat => flat.as_object()?,
    };
    let mut metric = json!({"type": Form::Text.read(flat.get("type"))?});
    for (kind, rows) in kinds {
        let Some(fields) = flat.get(*kind).filter(|one| !one.is_null()) else {
            continue;
        };
        let fields = fields.as_object()?;
        let mut one = json!({});
        for (name, path, form) in *rows {
            if let Some(value) = form.read(fields.get(*name))? {
                object::set(&mut one, path, value);
            }
        }
        if rows.iter().any(|(_, path, _)| path[0] == "target") {
            set_type(kind, &mut one);
        }
        object::set(&mut metric, &[kind], one);
    }
    Some(metric)
}

/// Says what a target is: v1 leaves that to the fields that there are.
fn set_type(kind: &str, metric: &mut Value) {
    let has = |path: &[&str]| object::at(metric, path).is_some();
    let name = match kind {
        "object" if !has(TARGET_AVERAGE) => "Value",
        "external" if has(TARGET_VALUE) => "Value",
        _ if has(TARGET_UTILIZATION) => "Utilization",
        _ => "AverageValue",
    };
    // v1 cannot leave the value out, and an average has none.
    let value = object::text(metric, TARGET_VALUE);
    let is_zero = Quantity::parse(value).is_ok_and(Quantity::is_zero);
    if kind == "object" && name == "AverageValue" && is_zero {
        object::remove(metric, TARGET_VALUE);
    }
    object::set(metric, &["target", "type"], name.into());
}
