//! What calls cost: before there are values, here, and with values, in `actual`.

mod actual;

use super::argument::{Argument, size_at};
use super::range::{LIST_COST, MESSAGE_COST, REGEX_FACTOR, Range, TEXT_FACTOR};
use crate::custom::cel::syntax::ast::{ExprKind, Literal};
use crate::custom::cel::types::Type;
use crate::custom::cel::types::shape::Shape;

pub(crate) use actual::actual;

/// The longest pattern of a named format.
const FORMAT_REGEX_MAX: f64 = 128.0;
/// The cost of a decision about rights: an expression can ask for two.
const CHECK_COST: u64 = 350_000;
/// The requirements of a selector for each of its characters.
const SELECTOR_REQUIREMENTS: f64 = 0.5;
/// The cost of one requirement of a selector.
const REQUIREMENT_COST: f64 = (LIST_COST + MESSAGE_COST) as f64;
/// The longest name of a format.
const FORMAT_NAME_MAX: u64 = 64;

/// A call whose cost is asked for.
pub(crate) struct Call<'a> {
    pub(crate) function: &'a str,
    pub(crate) overload: &'a str,
    pub(crate) target: Option<&'a Argument<'a>>,
    pub(crate) arguments: &'a [Argument<'a>],
}

/// What a call of Kubernetes' libraries costs, and how large its result is; `None` for others.
pub(crate) fn estimate(call: &Call, root: Option<&Shape>) -> Option<(Range, Option<Range>)> {
    let size = |argument: &Argument| {
        let known = argument.size.or_else(|| size_at(root, &argument.path));
        known.unwrap_or(Range::UNKNOWN)
    };
    let target = call.target.map(size);
    let first = call.arguments.first().map(size);
    let one = Some((Range::of(1), None));
    if let Some(known) = estimate_list(call, target, first, &size) {
        return Some(known);
    }
    if let Some(cost) = authorization(call.function, || first.unwrap_or(Range::UNKNOWN)) {
        return Some((cost, None));
    }
    match call.function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            let (list, size) = (call.target?, target?);
            let Type::List(item) = list.found else {
                return Some((size.scaled(TEXT_FACTOR), None));
            };
            let mut each = Range::of(1);
            if matches!(**item, Type::String | Type::Bytes) {
                each = each.plus(item_size(list, root).scaled(TEXT_FACTOR));
            }
            Some((size.times(each), None))
        }
        "url" | "jsonpatch.escapeKey" => Some((first?.scaled(TEXT_FACTOR), first)),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            Some((target?.scaled(TEXT_FACTOR), target))
        }
        "replace" | "split" | "join" | "find" | "findAll" => {
            estimate_text(call, target, first, root)
        }
        "ip" if call.overload == "cidr_ip" => one,
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            Some((first?.scaled(TEXT_FACTOR), None))
        }
        "ip.isCanonical" => Some((first?.scaled(2.0 * TEXT_FACTOR), None)),
        "containsIP" | "containsCIDR" => {
            let address = Range { min: 4, max: 16 };
            let mut cost = address.plus(address).scaled(TEXT_FACTOR);
            if call.function == "containsCIDR" {
                cost = cost.plus(address.scaled(TEXT_FACTOR)).plus(Range::of(1));
            }
            if call.overload.ends_with("_string") {
                cost = cost.plus(first?.scaled(TEXT_FACTOR));
            }
            Some((cost, None))
        }
        "validate" => {
            let cost = first?.scaled(TEXT_FACTOR);
            Some((cost.scaled(FORMAT_REGEX_MAX * REGEX_FACTOR), None))
        }
        "_==_" => equal(call.arguments).map(|cost| (cost, None)),
        function if is_nominal(function) => one,
        _ => None,
    }
}

/// What functions cost that make new texts, or look for patterns.
fn estimate_text(
    call: &Call,
    target: Option<Range>,
    first: Option<Range>,
    root: Option<&Shape>,
) -> Option<(Range, Option<Range>)> {
    let size = |argument: &Argument| {
        let known = argument.size.or_else(|| size_at(root, &argument.path));
        known.unwrap_or(Range::UNKNOWN)
    };
    match call.function {
        "replace" => {
            let replaced = replaced(target?, first?, size(call.arguments.get(1)?));
            Some((target?.scaled(2.0 * TEXT_FACTOR), Some(replaced)))
        }
        "split" => {
            let mut max = target?.max;
            let limit = call.arguments.get(1).and_then(|limit| limit.expr);
            if let Some(ExprKind::Literal(Literal::Int(limit))) = limit.map(|limit| &limit.kind) {
                max = *limit as u64;
            }
            Some((
                target?.scaled(2.0 * TEXT_FACTOR),
                Some(Range { min: 0, max }),
            ))
        }
        "join" => {
            let list = target?;
            let mut joined = list.times(item_size(call.target?, root));
            if let Some(separator) = first {
                let separators = Range {
                    min: list.min.saturating_sub(1),
                    max: list.max.saturating_sub(1),
                };
                joined = joined.plus(separator.times(separators));
            }
            Some((joined.scaled(TEXT_FACTOR), Some(joined)))
        }
        "find" | "findAll" => {
            let text = target?.plus(Range::of(1)).scaled(TEXT_FACTOR);
            let found = Range {
                min: 0,
                max: target?.max,
            };
            Some((text.times(first?.scaled(REGEX_FACTOR)), Some(found)))
        }
        _ => None,
    }
}

/// What functions cost that make lists, and those on sets.
fn estimate_list(
    call: &Call,
    target: Option<Range>,
    first: Option<Range>,
    size: &dyn Fn(&Argument) -> Range,
) -> Option<(Range, Option<Range>)> {
    let made = |factor: f64, size: Range| {
        let cost = size.scaled(factor).plus(Range::of(1 + LIST_COST));
        Some((cost, Some(size)))
    };
    let whole = |at: usize, otherwise: u64| match call.arguments.get(at)?.expr.map(|one| &one.kind)
    {
        Some(ExprKind::Literal(Literal::Int(number))) => Some(u64::try_from(*number).unwrap_or(0)),
        _ => Some(otherwise),
    };
    match call.function {
        "slice" => {
            let (from, to) = (whole(0, 0)?, whole(1, target?.max)?);
            made(1.0, Range::of(to.wrapping_sub(from)))
        }
        "lists.range" => made(1.0, Range::of(whole(0, u64::MAX)?)),
        "reverse" if call.overload == "list_reverse" => made(1.0, target?),
        "flatten" => {
            let depth = whole(0, u64::MAX).unwrap_or(1);
            made(depth as f64, target?)
        }
        "distinct" => made(2.0, target?.times(target?)),
        "sort" | "@sortByAssociatedKeys" => {
            let keys = first.or(target)?;
            let is_text =
                call.overload.starts_with("list_string") || call.overload.starts_with("list_bytes");
            let factor = if is_text { 2.0 + TEXT_FACTOR } else { 2.0 };
            made(factor, keys.times(keys))
        }
        "sets.contains" | "sets.intersects" | "sets.equivalent" => {
            let factor = if call.function == "sets.equivalent" {
                2.0
            } else {
                1.0
            };
            let product = first?.times(size(call.arguments.get(1)?));
            Some((product.scaled(factor).plus(Range::of(1)), None))
        }
        _ => None,
    }
}

/// What the functions of the language itself cost.
pub(crate) fn estimate_standard(call: &Call, sizes: &[Range]) -> (Range, Option<Range>) {
    let target = call.target.map(|one| one.size.unwrap_or(Range::UNKNOWN));
    match (call.overload, target, sizes) {
        ("string_format", Some(target), _) => (target.scaled(TEXT_FACTOR), None),
        ("string_to_bytes", _, [size]) => {
            let bytes = Range {
                min: size.min,
                max: size.max.wrapping_mul(4),
            };
            (size.scaled(TEXT_FACTOR), Some(bytes))
        }
        ("bytes_to_string", _, [size]) => {
            let characters = Range {
                min: size.min / 4,
                max: size.max,
            };
            (size.scaled(TEXT_FACTOR), Some(characters))
        }
        ("strings_quote", _, [size]) => {
            let quoted = Range {
                min: size.min.saturating_add(2),
                max: size.max.wrapping_mul(2).wrapping_add(2),
            };
            (size.scaled(TEXT_FACTOR), Some(quoted))
        }
        ("starts_with_string" | "ends_with_string", _, [size]) => (size.scaled(TEXT_FACTOR), None),
        ("in_list", _, [_, list]) => (list.scaled(1.0), None),
        ("matches_string", Some(text), [pattern]) => {
            let text = text.plus(Range::of(1)).scaled(TEXT_FACTOR);
            (text.times(pattern.scaled(REGEX_FACTOR)), None)
        }
        ("contains_string", Some(text), [part]) => {
            let cost = text.scaled(TEXT_FACTOR).times(part.scaled(TEXT_FACTOR));
            (cost, None)
        }
        (overload, _, [left, right]) if is_comparison(overload) => {
            let max = left.max.min(right.max);
            let compared = Range {
                min: u64::from(max > 0),
                max,
            };
            (compared.scaled(TEXT_FACTOR), None)
        }
        _ => (Range::of(1), None),
    }
}

/// What functions about rights cost; `selector` is the size of a selector.
fn authorization(function: &str, selector: impl Fn() -> Range) -> Option<Range> {
    Some(match function {
        "check" => Range::of(CHECK_COST),
        "fieldSelector" | "labelSelector" => {
            let parsed = selector().scaled(TEXT_FACTOR);
            let requirements = selector().scaled(SELECTOR_REQUIREMENTS);
            let matched = requirements.scaled(REQUIREMENT_COST);
            Range::of(LIST_COST).plus(parsed).plus(matched)
        }
        "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name"
        | "allowed" | "reason" | "error" | "errored" => Range::of(1),
        _ => return None,
    })
}

/// Whether a function only reads a part of what a library made.
fn is_nominal(function: &str) -> bool {
    matches!(
        function,
        "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery"
    )
}

fn is_comparison(overload: &str) -> bool {
    matches!(
        overload,
        "equals"
            | "not_equals"
            | "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
    )
}

/// What it costs to compare values of the libraries; `None` for others.
fn equal(arguments: &[Argument]) -> Option<Range> {
    let [left, right] = arguments else {
        return None;
    };
    if left.found != right.found {
        return None;
    }
    match left.found {
        Type::Opaque(_) => Some(Range::of(1)),
        Type::Struct(name) => match &**name {
            "kubernetes.Quantity" | "kubernetes.Semver" => Some(Range::of(1)),
            name if name.starts_with("kubernetes.authorization.") => Some(Range::of(1)),
            "kubernetes.NamedFormat" => {
                let name = Range {
                    min: 1,
                    max: FORMAT_NAME_MAX,
                };
                Some(name.scaled(TEXT_FACTOR))
            }
            "kubernetes.URL" => {
                let max = right.size.map_or(1, |size| size.max);
                Some(Range { min: 1, max }.scaled(TEXT_FACTOR))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The size of the items of a list.
fn item_size(list: &Argument, root: Option<&Shape>) -> Range {
    let mut path = list.path.clone();
    if !path.is_empty() {
        path.push("@items".to_owned());
    }
    size_at(root, &path).unwrap_or(Range::UNKNOWN)
}

/// The size of a text in which some parts are replaced.
fn replaced(text: Range, part: Range, by: Range) -> Range {
    let (mut count, mut kept) = (Range::default(), Range::default());
    let pieces = |text: u64, part: u64| (text as f64 / part as f64).ceil() as u64;
    if part.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if by.max <= part.min {
        kept.max = text.max;
    } else {
        count.max = pieces(text.max, part.min);
    }
    if part.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if part.max <= by.min {
        kept.min = text.min;
    } else {
        count.min = pieces(text.min, part.max);
    }
    count.times(by).plus(kept)
}
