//! Numbers, with Go's split into whole numbers of 64 bits and floats, and their texts.

use serde_json::Value;

use crate::custom::structural::node::Kind;
use crate::custom::structural::node::format::Format;

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

    pub(super) fn as_f64(self) -> f64 {
        match self {
            Number::Whole(whole) => whole as f64,
            Number::Float(float) => float,
        }
    }

    /// Whether the number fits its schema's type and format.
    pub(super) fn fits(self, kind: Option<Kind>, format: Option<&Format>) -> bool {
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
