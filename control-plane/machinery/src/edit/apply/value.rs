//! Values as server-side apply compares, sorts and shows them: numbers by what they are worth, not
//! by how they are written.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// True if two values are equal.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(key, value)| b.get(key).is_some_and(|other| equal(value, other));
            a.len() == b.len() && a.iter().all(same)
        }
        (a, b) => a == b,
    }
}

/// An order of all values: by type, then by value.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let mut orders = a.iter().zip(b).map(|(a, b)| compare(a, b));
            let first = orders.find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let mut orders = a
                .iter()
                .zip(b)
                .map(|((key, one), (of_b, other))| key.cmp(of_b).then_with(|| compare(one, other)));
            let first = orders.find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

/// A value as messages about paths show it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(key, value)| format!("{key}={}", shown(value)))
                .collect()
        }
        plain => plain.to_string(),
    }
}

/// A value as Go prints it when a message calls it wrong.
pub(super) fn in_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(in_go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(key, value)| format!("{key}:{}", in_go(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        plain => plain.to_string(),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Numbers are compared by their exact values, also an integer with a floating-point number: rounded,
/// two integers could equal the same third number, and a sort by such an order may panic.
fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_with_whole(b, a).reverse(),
        (None, Some(b)) => compare_with_whole(a, b),
        // JSON has no number that is not comparable.
        (None, None) => a
            .as_f64()
            .partial_cmp(&b.as_f64())
            .unwrap_or(Ordering::Equal),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

fn compare_with_whole(float: &Number, whole: i128) -> Ordering {
    let float = float.as_f64().unwrap_or_default();
    // Every i64 and u64 is far below the ends of i128, where the conversion saturates.
    let rest = if float.fract() == 0.0 {
        Ordering::Equal
    } else {
        Ordering::Greater
    };
    (float.floor() as i128).cmp(&whole).then(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_order_however_they_are_written() {
        let texts = [
            "-9007199254740993",
            "-9007199254740992.0",
            "-2.5",
            "-2",
            "0",
            "1",
            "1.5",
            "9007199254740992.0",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "1e300",
        ];
        let numbers = texts.map(|text| serde_json::from_str::<Value>(text).unwrap());
        for (at, one) in numbers.iter().enumerate() {
            for (other_at, other) in numbers.iter().enumerate() {
                assert_eq!(compare(one, other), at.cmp(&other_at), "{one} {other}");
            }
        }
        for (one, other) in [
            ("1", "1.0"),
            ("-0.0", "0"),
            ("9007199254740992", "9007199254740992.0"),
        ] {
            let [one, other] =
                [one, other].map(|text| serde_json::from_str::<Value>(text).unwrap());
            assert!(equal(&one, &other), "{one} {other}");
        }
    }
}
