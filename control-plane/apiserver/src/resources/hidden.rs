//! Fields that are stored, but not shown to those who read the object; those who read a subresource,
//! such as its status, see them.

use machinery::object;
use serde_json::Value;

/// A field that is not shown as long as another one has a certain text. An update that does not name
/// it keeps it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hidden {
    pub(crate) field: &'static [&'static str],
    /// A field that selectors may name, and its text.
    pub(crate) by: (&'static [&'static str], &'static str),
}

impl Hidden {
    /// True if this value of the other field hides the field.
    pub(crate) fn is_by(&self, value: Option<&Value>) -> bool {
        value.and_then(Value::as_str) == Some(self.by.1)
    }

    /// Takes the field out of an object, if it is hidden there.
    pub(crate) fn take(&self, object: &mut Value) -> Option<Value> {
        if self.is_by(object::at(object, self.by.0)) {
            object::remove(object, self.field)
        } else {
            None
        }
    }
}
