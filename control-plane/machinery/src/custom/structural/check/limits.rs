//! Checks of numbers against the limits of their schema, as Go makes them.

use std::cmp::Ordering;

use serde_json::Value;

use super::errors::{Outcome, Violation};
use super::number::{Number, shown};
use crate::custom::structural::node::format::Format;
use crate::custom::structural::node::{Bound, Kind, Node};
use crate::custom::structural::path::Path;

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
