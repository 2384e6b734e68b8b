//! What calls cost with values.

use super::{authorization, is_comparison, is_nominal};
use crate::custom::cel::cost::range::{LIST_COST, REGEX_FACTOR, Range, TEXT_FACTOR, scaled};
use crate::custom::cel::value::Value;

/// What a call with these arguments costs. `overload` is empty if it was not known beforehand.
pub(crate) fn actual(
    function: &str,
    overload: &str,
    arguments: &[Value],
    result: Option<&Value>,
) -> u64 {
    let size = |at: usize| arguments.get(at).map_or(1, Value::size);
    let text = |at: usize| scaled(size(at), TEXT_FACTOR);
    let regex = || {
        let text = ((1.0 + size(0) as f64) * TEXT_FACTOR).ceil() as u64;
        text.saturating_mul(scaled(size(1), REGEX_FACTOR))
    };
    if let Some(known) = actual_list(function, arguments, result) {
        return known;
    }
    if let Some(cost) = authorization(function, || Range::of(size(1))) {
        return cost.max;
    }
    match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            arguments.first().map_or(0, Value::traversal_cost)
        }
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "jsonpatch.escapeKey" => {
            text(0)
        }
        "replace" | "split" | "ip.isCanonical" => scaled(size(0), 2.0 * TEXT_FACTOR),
        "join" => scaled(result.map_or(1, Value::size), 2.0 * TEXT_FACTOR),
        "find" | "findAll" => regex(),
        "ip" if overload == "cidr_ip" => 1,
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            text(0)
        }
        "containsIP" | "containsCIDR" => {
            let mut cost = scaled(size(0) * 2, TEXT_FACTOR);
            if function == "containsCIDR" {
                cost += text(0) + 1;
            }
            if overload.ends_with("_string") {
                cost += text(1);
            }
            cost
        }
        "validate" => match arguments.first() {
            Some(Value::Format(format)) => {
                let text = ((1.0 + size(1) as f64) * TEXT_FACTOR).ceil() as u64;
                text.saturating_mul(scaled(format.regex_size, REGEX_FACTOR))
            }
            _ => 1,
        },
        "_==_" if arguments.first().is_some_and(Value::is_of_library) => 1,
        function if is_nominal(function) => 1,
        _ => match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => text(0),
            "in_list" => size(1),
            "add_string" | "add_bytes" => scaled(size(0).saturating_add(size(1)), TEXT_FACTOR),
            "matches_string" => regex(),
            "contains_string" => text(0).saturating_mul(text(1)),
            overload if is_comparison(overload) => scaled(least_size(arguments), TEXT_FACTOR),
            _ => 1,
        },
    }
}

/// The smaller of two sizes. A text is not counted for it that is longer in any case: it may be as
/// long as a request, and be compared with each item of a list.
fn least_size(arguments: &[Value]) -> u64 {
    if let [one @ Value::String(text), other @ Value::String(other_text)] = arguments {
        // A character takes four bytes at most.
        if text.len() <= other_text.len() / 4 {
            return one.size();
        }
        if other_text.len() <= text.len() / 4 {
            return other.size();
        }
    }
    let sizes = arguments.iter().take(2).map(Value::size);
    sizes.fold(u64::MAX, u64::min)
}

/// What functions cost that make lists, and those on sets, with these values.
fn actual_list(function: &str, arguments: &[Value], result: Option<&Value>) -> Option<u64> {
    let size = |at: usize| arguments.get(at).map_or(1, Value::size);
    let made = |factor: f64, size: u64| Some((size as f64 * factor) as u64 + 1 + LIST_COST);
    let is_list = matches!(arguments.first(), Some(Value::List(_)));
    match function {
        "slice" | "lists.range" => made(1.0, result.map_or(1, Value::size)),
        "reverse" if is_list => made(1.0, result.map_or(1, Value::size)),
        "flatten" => match arguments.get(1) {
            Some(Value::Int(depth)) => made(*depth as f64, size(0)),
            _ => made(1.0, size(0)),
        },
        "distinct" | "sort" | "@sortByAssociatedKeys" => {
            let Some(Value::List(keys)) = arguments.last() else {
                return None;
            };
            let is_text = matches!(keys.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
            let factor = if is_text { 2.0 + TEXT_FACTOR } else { 2.0 };
            let count = keys.len() as u64;
            made(factor, count.saturating_mul(count))
        }
        "sets.contains" | "sets.intersects" => Some(1 + size(0).saturating_mul(size(1))),
        "sets.equivalent" => Some(1 + 2 * size(0).saturating_mul(size(1))),
        _ => None,
    }
}
