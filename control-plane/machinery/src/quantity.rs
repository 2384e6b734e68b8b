//! Quantities of resources, such as `100m`, `1.5Gi` or `2e3`: read, written, compared, added.

/// A quantity: a decimal number of at most nine places, and the form it is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `m`, `k`, `M`.
    DecimalSi,
    /// `Ki`, `Mi`.
    BinarySi,
    /// `e3`.
    DecimalExponent,
}

/// A text that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub &'static str);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Error {}

impl Quantity {
    /// Reads a quantity.
    pub fn parse(_text: &str) -> Result<Quantity, Error> {
        unimplemented!()
    }

    /// A whole number.
    pub fn from_integer(value: i64, format: Format) -> Quantity {
        Quantity {
            nanos: i128::from(value) * 1_000_000_000,
            format,
        }
    }

    /// A number of thousandths.
    pub fn from_milli(value: i64) -> Quantity {
        Quantity {
            nanos: i128::from(value) * 1_000_000,
            format: Format::DecimalSi,
        }
    }

    /// The whole units, rounded up.
    pub fn value(self) -> i64 {
        unimplemented!()
    }

    /// The thousandths, rounded up.
    pub fn milli_value(self) -> i64 {
        unimplemented!()
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        unimplemented!()
    }
}
