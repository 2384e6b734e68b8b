//! Values that are a number or a percentage, such as `maxSurge: 25%`.

use serde_json::Value;

/// The number, or the percentage of `total`, rounded up or down. `None` when it is neither.
pub fn scaled(value: &Value, total: i64, round_up: bool) -> Option<i64> {
    let Some(text) = value.as_str() else {
        return value.as_i64();
    };
    let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
    let product = percent.checked_mul(total)?;
    Some(if round_up {
        product.div_euclid(100) + i64::from(product.rem_euclid(100) != 0)
    } else {
        product.div_euclid(100)
    })
}

/// The number, when it is one.
pub fn number(value: &Value) -> Option<i64> {
    value.as_i64()
}
