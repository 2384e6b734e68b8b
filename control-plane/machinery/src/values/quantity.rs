//! Quantities of resources, such as `100m`, `1.5Gi` or `2e3`: parsing, printing, arithmetic.
//!
//! A quantity is a whole number of billionths; smaller fractions are rounded away from zero, as in
//! Go. Go switches to arbitrary precision for large numbers; here values saturate at about 10²⁹.
//!
//! Quantities are compared by their amount: `1Ki` equals `1024`. Where the notation matters, their
//! texts are compared.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

const NANO: i128 = 1_000_000_000;

/// A quantity: a decimal number with at most nine decimal places, and its format.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The notation of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `m`, `k`, `M`.
    DecimalSi,
    /// `Ki`, `Mi`.
    BinarySi,
    /// `e3`.
    DecimalExponent,
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub &'static str);

/// The text does not have the form of a quantity.
pub const WRONG_FORM: Error = Error(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
);
/// The suffix is not a known unit.
pub const WRONG_SUFFIX: Error = Error("unable to parse quantity's suffix");

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Error {}

impl Quantity {
    /// Zero.
    pub const ZERO: Quantity = Quantity {
        nanos: 0,
        format: Format::DecimalSi,
    };

    /// Parses a quantity.
    pub fn parse(text: &str) -> Result<Quantity, Error> {
        if text.is_empty() {
            return Err(WRONG_FORM);
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
        let exponent = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(WRONG_FORM);
        }
        let (unit, format) = unit(suffix).ok_or(WRONG_SUFFIX)?;
        let nanos = scale(whole, fraction, unit);
        // With a binary unit, Go saturates at the largest 64-bit integer.
        let limit = if format == Format::BinarySi {
            i128::from(i64::MAX) * NANO
        } else {
            i128::MAX
        };
        let nanos = nanos.min(limit);
        Ok(Quantity {
            nanos: if negative { -nanos } else { nanos },
            format,
        })
    }

    /// A quantity of a whole number.
    pub fn from_integer(value: i64, format: Format) -> Quantity {
        Quantity {
            nanos: i128::from(value) * NANO,
            format,
        }
    }

    /// A quantity in thousandths.
    pub fn from_milli(value: i64) -> Quantity {
        Quantity {
            nanos: i128::from(value) * 1_000_000,
            format: Format::DecimalSi,
        }
    }

    /// The value in whole units, rounded away from zero, saturated to 64 bits.
    pub fn value(self) -> i64 {
        fit(away_from_zero(self.nanos, NANO))
    }

    /// The value in thousandths, rounded away from zero, saturated to 64 bits.
    pub fn milli_value(self) -> i64 {
        fit(away_from_zero(self.nanos, 1_000_000))
    }

    /// The value in whole units; `None` if it has a fraction or does not fit 64 bits.
    pub fn as_integer(self) -> Option<i64> {
        if self.nanos % NANO != 0 {
            return None;
        }
        i64::try_from(self.nanos / NANO).ok()
    }

    /// The value as a float.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// True if the value is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The notation it is written in.
    pub fn format(self) -> Format {
        self.format
    }

    /// The sum, in the format of the first operand that is not zero.
    #[must_use]
    pub fn plus(self, other: Quantity) -> Quantity {
        self.combined(other, i128::saturating_add)
    }

    /// The difference, in the format of the first operand that is not zero.
    #[must_use]
    pub fn minus(self, other: Quantity) -> Quantity {
        self.combined(other, i128::saturating_sub)
    }

    fn combined(self, other: Quantity, combine: fn(i128, i128) -> i128) -> Quantity {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Quantity {
            nanos: combine(self.nanos, other.nanos),
            format,
        }
    }
}

impl Default for Quantity {
    fn default() -> Quantity {
        Quantity::ZERO
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

/// Writes the canonical form: no fraction, and the largest unit that allows it.
impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, exact) = (self.nanos / NANO, self.nanos % NANO == 0);
        if self.format == Format::BinarySi && exact && whole.abs() >= 1024 {
            let (mut mantissa, mut power) = (whole, 0);
            while mantissa % 1024 == 0 && power < 6 {
                mantissa /= 1024;
                power += 1;
            }
            return write!(
                f,
                "{mantissa}{}",
                ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]
            );
        }
        let (mut mantissa, mut exponent) = (self.nanos, -9);
        if mantissa == 0 {
            return f.write_str("0");
        }
        let highest = if self.format == Format::DecimalExponent {
            30
        } else {
            18
        };
        while mantissa % 1000 == 0 && exponent < highest {
            mantissa /= 1000;
            exponent += 3;
        }
        match (self.format, exponent) {
            (_, 0) => write!(f, "{mantissa}"),
            (Format::DecimalExponent, exponent) => write!(f, "{mantissa}e{exponent}"),
            (_, exponent) => {
                let letter = b"num kMGTPE"[(exponent / 3 + 3) as usize];
                write!(f, "{mantissa}{}", char::from(letter))
            }
        }
    }
}

/// A unit: a power of two or of ten.
enum Unit {
    Two(u32),
    Ten(i64),
}

fn unit(suffix: &str) -> Option<(Unit, Format)> {
    let decimal = |power| Some((Unit::Ten(power), Format::DecimalSi));
    let binary = |power| Some((Unit::Two(power), Format::BinarySi));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let power = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((Unit::Ten(power), Format::DecimalExponent))
        }
    }
}

/// Billionths in `whole.fraction` units. Reads digit by digit so that no number of digits
/// overflows: a large sum saturates, and digits that are too small only decide the rounding.
fn scale(whole: &str, fraction: &str, unit: Unit) -> i128 {
    let (factor, ten) = match unit {
        Unit::Two(power) => (1_i128 << power, 0),
        Unit::Ten(power) => (1, power),
    };
    let places = ten.saturating_add(9).saturating_sub(fraction.len() as i64);
    let mut mantissa: i128 = 0;
    let mut cut: i64 = 0;
    let mut rest = false;
    for digit in whole.bytes().chain(fraction.bytes()) {
        // 18 more digits than nanos and Ei need keep the product exact.
        if mantissa < i128::MAX / factor / 100 {
            mantissa = mantissa * 10 + i128::from(digit - b'0');
        } else {
            cut += 1;
            rest |= digit != b'0';
        }
    }
    let mut places = places.saturating_add(cut);
    let mut nanos = mantissa.saturating_mul(factor);
    while places > 0 && nanos != 0 && nanos != i128::MAX {
        nanos = nanos.saturating_mul(10);
        places -= 1;
    }
    while places < 0 && nanos != 0 {
        rest |= nanos % 10 != 0;
        nanos /= 10;
        places += 1;
        if nanos == 0 {
            rest = true;
        }
    }
    nanos.saturating_add(i128::from(rest))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

fn away_from_zero(nanos: i128, unit: i128) -> i128 {
    nanos / unit + (nanos % unit).signum()
}

fn fit(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}
