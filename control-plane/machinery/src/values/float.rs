//! Floats in JSON, as Go writes them.

use serde_json::{Number, Value};

/// Above this, not every whole number is exact.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A float as a JSON number: a whole one has no fraction.
pub(crate) fn value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

#[test]
fn whole_floats_have_no_fraction() {
    for (number, text) in [(65535.0, "65535"), (0.0, "0"), (-2.0, "-2"), (0.5, "0.5")] {
        assert_eq!(value(number).to_string(), text);
    }
}
