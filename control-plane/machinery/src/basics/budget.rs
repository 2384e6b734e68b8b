//! Limits the memory that one decoded body may take, and the defaults that are filled into it. Three
//! bytes of a body can name an object that takes hundreds, so both decoders count what they
//! allocate, not what they read. And what is wrong with a body is told only as far as there is room
//! for it.

use serde_json::Value;

/// 100,000 objects: about ten times the number of non-empty objects in the largest value that a
/// store takes by default.
const COST_MAX: usize = 1_000_000;
/// Cost of an object: a map allocates room for eleven entries with its first one.
const OBJECT_COST: usize = 10;
/// Bytes of text that cost as much as an item of a list: 16 MB of text are a whole budget.
const TEXT_BYTES_PER_ITEM: usize = 16;

/// Upper bound of the texts about what is wrong with one body: a small one may have millions of
/// faults.
const TOLD_MAX: usize = 10_000;
/// Upper bound of these texts in bytes. It is more than a body has, so that a text which shows all
/// of one is told.
const TOLD_BYTES_MAX: usize = 4 << 20;

/// The cost that one body may still add.
pub(crate) struct Budget(usize);

/// What may still be told of what is wrong with one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    texts: usize,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget(COST_MAX)
    }
}

impl Budget {
    /// Counts one more object; false when the budget is used up.
    pub(crate) fn object(&mut self) -> bool {
        self.spend(OBJECT_COST)
    }

    /// Counts one more item of a list; false when the budget is used up.
    pub(crate) fn item(&mut self) -> bool {
        self.spend(1)
    }

    /// Counts one more copy of a value, with its texts; false when the budget is used up.
    pub(crate) fn value(&mut self, value: &Value) -> bool {
        match value {
            Value::Object(fields) => {
                let mut fields = fields.iter();
                self.object() && fields.all(|(name, value)| self.text(name) && self.value(value))
            }
            Value::Array(items) => self.item() && items.iter().all(|item| self.value(item)),
            Value::String(text) => self.item() && self.text(text),
            _ => self.item(),
        }
    }

    fn text(&mut self, text: &str) -> bool {
        self.spend(text.len() / TEXT_BYTES_PER_ITEM)
    }

    fn spend(&mut self, cost: usize) -> bool {
        let left = self.0.checked_sub(cost);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

impl Default for Room {
    fn default() -> Room {
        Room {
            texts: TOLD_MAX,
            bytes: TOLD_BYTES_MAX,
        }
    }
}

impl Room {
    /// For those who ask whether something is wrong, and not what.
    pub(crate) const NONE: Room = Room { texts: 0, bytes: 0 };

    /// False if no more is told. No text should be made then: with the path of its field, each may
    /// be as long as the body.
    pub(crate) fn is_left(self) -> bool {
        self.texts > 0 && self.bytes > 0
    }

    /// Counts a text that is told. The last one may be longer than what is left.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.texts = self.texts.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
