//! The cells of a table row, encoded once: text with holes for the parts that depend on the time.

use machinery::time::{self, Timestamp};
use serde_json::Value;

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Does not depend on the time.
    Fixed(Value),
    /// Time since a moment, between two texts.
    Ago {
        before: String,
        then: Timestamp,
        after: &'static str,
    },
}

impl<T: Into<Value>> From<T> for Cell {
    fn from(value: T) -> Cell {
        Cell::Fixed(value.into())
    }
}

impl Cell {
    /// Time since a moment.
    pub(crate) fn ago(then: Timestamp) -> Cell {
        Cell::Ago {
            before: String::new(),
            then,
            after: "",
        }
    }

    /// The value of the cell at a time.
    pub(crate) fn at(&self, now: Timestamp) -> Value {
        match self {
            Cell::Fixed(value) => value.clone(),
            Cell::Ago {
                before,
                then,
                after,
            } => format!("{before}{}{after}", time::human(now.since(*then))).into(),
        }
    }
}

/// The cells of one object as a JSON list, and the fields behind them in their row.
pub(crate) struct Cells {
    text: Box<str>,
    /// Positions in the text where ages are inserted, in order.
    holes: Box<[(u32, Timestamp)]>,
}

impl Cells {
    /// `rest` is the text of the fields behind the cells, each with a comma before it.
    pub(crate) fn new(cells: &[Cell], rest: &str) -> Cells {
        let mut text = String::from("[");
        let mut holes = Vec::new();
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            match cell {
                Cell::Fixed(value) => text.push_str(&value.to_string()),
                Cell::Ago {
                    before,
                    then,
                    after,
                } => {
                    // An age consists of letters and digits and needs no escaping.
                    let around = Value::from(before.as_str()).to_string();
                    text.push_str(&around[..around.len() - 1]);
                    holes.push((u32::try_from(text.len()).unwrap_or(u32::MAX), *then));
                    let around = Value::from(*after).to_string();
                    text.push_str(&around[1..]);
                }
            }
        }
        text.push(']');
        text.push_str(rest);
        Cells {
            text: text.into(),
            holes: holes.into(),
        }
    }

    /// Writes the cells with the ages at a time.
    pub(crate) fn write(&self, out: &mut Vec<u8>, now: Timestamp) {
        let mut written = 0;
        for (at, then) in &self.holes {
            let at = *at as usize;
            out.extend_from_slice(&self.text.as_bytes()[written..at]);
            out.extend_from_slice(time::human(now.since(*then)).as_bytes());
            written = at;
        }
        out.extend_from_slice(&self.text.as_bytes()[written..]);
    }

    /// Size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Cells>() + self.text.len() + size_of_val(&*self.holes)
    }
}
