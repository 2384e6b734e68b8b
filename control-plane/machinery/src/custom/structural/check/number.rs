//! Checks of numbers, with Go's split into whole numbers of 64 bits and floats.

use std::cmp::Ordering;

use serde_json::Value;

use super::errors::{Outcome, Violation};
use crate::custom::structural::node::format::Format;
use crate::custom::structural::node::{Bound, Kind, Node};
use crate::custom::structural::path::Path;

/// Where Go begins to print floats with an exponent.
const PLAIN_MAX: f64 = 1e21;
const PLAIN_MIN: f64 = 1e-4;

/// A number as Go reads it from JSON.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Whole(i64),
    Float(f64),
}

impl Number {
    pub(super) fn read(value: &Value) -> Option<Number> {
        let whole = value.as_i64().map(Number::Whole);
        whole.or_else(|| value.as_f64().map(Number::Float))
    }

    /// Whether the number has no fraction and its value is exact.
    pub(super) fn is_whole(self) -> bool {
        match self {
            Number::Whole(_) => true,
            Number::Float(float) => float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_991.0,
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Number::Whole(whole) => whole as f64,
            Number::Float(float) => float,
        }
    }

    /// Whether the number fits its schema's type and format.
    fn fits(self, kind: Option<Kind>, format: Option<&Format>) -> bool {
        let format = format.map_or("", Format::name);
        match (kind, format) {
            (Some(Kind::Integer), "int32") => {
                self.whole().is_some_and(|it| i32::try_from(it).is_ok())
            }
            (Some(Kind::Integer), _) => self.whole().is_some(),
            (Some(Kind::Number), "float") => self.as_f64().abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }

    fn whole(self) -> Option<i64> {
        // 2^63, the first float above all i64.
        const END: f64 = 9_223_372_036_854_775_808.0;
        match self {
            Number::Whole(whole) => Some(whole),
            Number::Float(float) if float.fract() == 0.0 && (-END..END).contains(&float) => {
                Some(float as i64)
            }
            Number::Float(_) => None,
        }
    }
}

/// Checks a number against the limits of its schema.
pub(super) fn check(node: &Node, value: &Value, at: &Path, outcome: &mut Outcome) {
    let Some(number) = Number::read(value) else {
        return;
    };
    let checks = node.checks.as_deref();
    let format = checks.and_then(|checks| checks.format.as_ref());
    let fits = |number: Number, what, outcome: &mut Outcome| {
        let kind = node.kind;
        let kind = kind.filter(|kind| matches!(kind, Kind::Integer | Kind::Number));
        let fits = number.fits(kind, format);
        if !fits {
            outcome.tell(|| out_of_range(kind, format, what, at));
        }
        fits
    };
    fits(number, "Checked", outcome);
    let Some(checks) = checks else {
        return;
    };
    if let Some(factor) = checks.multiple_of {
        let fits = fits(Number::Float(factor), "MultipleOf", outcome);
        check_factor(in_type_of(number, fits), factor, value, at, outcome);
    }
    for (bound, side) in [(checks.minimum, Side::Least), (checks.maximum, Side::Most)] {
        let Some(bound) = bound else {
            continue;
        };
        let fits = fits(Number::Float(bound.limit), side.name(), outcome);
        if let Some(why) = side.exceeded(in_type_of(number, fits), bound) {
            outcome.tell(|| Violation::invalid(at, value, &why));
        }
    }
}

/// Whether two numbers are the same, whatever they are written like.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (Number::read(a), Number::read(b)) {
        (Some(Number::Whole(a)), Some(Number::Whole(b))) => a == b,
        (Some(a), Some(b)) => a.as_f64() == b.as_f64(),
        _ => false,
    }
}

/// The number as Go's JSON has it: without a fraction that is zero.
pub(super) fn plain(value: &Value) -> Value {
    match Number::read(value) {
        Some(Number::Float(float)) if float.fract() == 0.0 && float.abs() < PLAIN_MAX => {
            // The shortest digits of the float, filled up with zeros.
            let digits = float.to_string();
            let integer = digits.parse::<i64>().map(Value::from);
            integer
                .or_else(|_| digits.parse::<u64>().map(Value::from))
                .unwrap_or(Value::from(float))
        }
        _ => value.clone(),
    }
}

/// A float as Go prints it: the shortest text that reads back, with an exponent if it is very
/// large or small.
pub(super) fn shown(float: f64) -> String {
    let is_plain = float == 0.0 || (PLAIN_MIN..PLAIN_MAX).contains(&float.abs());
    if is_plain {
        return float.to_string();
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

/// Which end of the allowed numbers a limit is.
#[derive(Clone, Copy)]
enum Side {
    Least,
    Most,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Least => "Minimum boundary",
            Side::Most => "Maximum boundary",
        }
    }

    /// What the number should be instead; `None` if it is within the bound.
    fn exceeded(self, number: Number, bound: Bound) -> Option<String> {
        let limit = limit_for(number, bound.limit);
        let ordering = compare(number, limit);
        let (is_beyond, than) = match self {
            Side::Least => (ordering == Some(Ordering::Less), "greater than"),
            Side::Most => (ordering == Some(Ordering::Greater), "less than"),
        };
        let limit = text(limit);
        if bound.exclusive {
            let is_limit = ordering == Some(Ordering::Equal);
            (is_beyond || is_limit).then(|| format!("should be {than} {limit}"))
        } else {
            is_beyond.then(|| format!("should be {than} or equal to {limit}"))
        }
    }
}

/// A number that does not fit its schema's type and format.
fn out_of_range(kind: Option<Kind>, format: Option<&Format>, what: &str, at: &Path) -> Violation {
    let kind = kind.map_or("", Kind::word);
    let format = match format {
        Some(format) => format!("with format {}", format.name()),
        None => "(default format)".into(),
    };
    Violation::of_none(format!(
        "{what} value must be of type {kind} {format} in {at}"
    ))
}

/// A limit outside of the number's type makes the comparison one of floats.
fn in_type_of(number: Number, limit_fits: bool) -> Number {
    if limit_fits {
        number
    } else {
        Number::Float(number.as_f64())
    }
}

/// Go cuts the fraction off a limit that it compares with a whole number.
fn limit_for(number: Number, limit: f64) -> Number {
    match number {
        Number::Whole(_) => Number::Whole(limit as i64),
        Number::Float(_) => Number::Float(limit),
    }
}

fn compare(number: Number, limit: Number) -> Option<Ordering> {
    match (number, limit) {
        (Number::Whole(number), Number::Whole(limit)) => Some(number.cmp(&limit)),
        (number, limit) => number.as_f64().partial_cmp(&limit.as_f64()),
    }
}

fn check_factor(number: Number, factor: f64, value: &Value, at: &Path, outcome: &mut Outcome) {
    let factor_of_type = limit_for(number, factor);
    if factor_of_type.as_f64() <= 0.0 {
        let factor = text(factor_of_type);
        let why = || format!("factor MultipleOf declared for {at} must be positive: {factor}");
        let shown = match factor_of_type {
            Number::Whole(whole) => Value::from(whole),
            Number::Float(float) => Value::from(float),
        };
        return outcome.tell(|| Violation::plain(at, &shown, why()));
    }
    let is_multiple = match (number, factor_of_type) {
        (Number::Whole(number), Number::Whole(factor)) => number % factor == 0,
        // Dividing by a fraction would lose more than multiplying with its inverse.
        (number, _) if factor < 1.0 => Number::Float(1.0 / factor * number.as_f64()).is_whole(),
        (number, _) => Number::Float(number.as_f64() / factor).is_whole(),
    };
    if !is_multiple {
        let why = format!("should be a multiple of {}", text(factor_of_type));
        outcome.tell(|| Violation::invalid(at, value, &why));
    }
}

fn text(number: Number) -> String {
    match number {
        Number::Whole(whole) => whole.to_string(),
        Number::Float(float) => shown(float),
    }
}
