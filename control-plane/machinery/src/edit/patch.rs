//! The three patch types: JSON patch, merge patch and strategic merge patch. None of them checks
//! the result: the caller decodes and validates it like any other body.

mod strategic;
#[cfg(test)]
mod tests;

use json_patch::{PatchErrorKind, PatchOperation, jsonptr};
use serde_json::Value;

use crate::schema::Message;

pub use strategic::{LISTS_OF_LISTS, shown};

/// Maximum number of operations in one JSON patch.
const OPERATIONS_MAX: usize = 10_000;
/// Maximum bytes that the copy operations of one JSON patch may add: each could double the object.
const COPIED_BYTES_MAX: usize = 3 << 20;
/// Maximum number of values that the move operations of one JSON patch may take along.
const MOVED_VALUES_MAX: usize = 2_000_000;
/// Maximum number of items that the operations of one JSON patch may shift in lists.
const SHIFTED_ITEMS_MAX: usize = 200_000_000;
/// Maximum nesting of a merge patch, and of what a JSON patch adds; bodies read from text are never
/// deeper.
const DEPTH_MAX: usize = 128;

/// The error for a patch that nests more deeply than that.
const TOO_DEEP: &str = "the patch nests too deeply";

/// Why a patch does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The patch itself is malformed: 400.
    Malformed(String),
    /// The patch is well-formed but does not fit the object: 422.
    Unprocessable(String),
    /// What the patch tests is not so: 422.
    TestFailed(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Malformed(text) | Error::Unprocessable(text) | Error::TestFailed(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for Error {}

/// Applies a JSON patch, a list of operations (RFC 6902).
pub fn json(object: &Value, patch: &Value) -> Result<Value, Error> {
    let Some(list) = patch.as_array() else {
        return Err(Error::Malformed(
            "the patch is no list of operations".into(),
        ));
    };
    if list.len() > OPERATIONS_MAX {
        let count = list.len();
        let text = format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}"
        );
        return Err(Error::Malformed(text));
    }
    let mut object = object.clone();
    let (mut copied, mut moved, mut shifted) = (0, 0, 0);
    for operation in list {
        let operation = read(operation)?;
        if let PatchOperation::Copy(copy) = &operation {
            let from: &jsonptr::Pointer = &copy.from;
            copied += from
                .resolve(&object)
                .map_or(0, |value| value.to_string().len());
            if copied > COPIED_BYTES_MAX {
                let text = format!("the copies of the patch exceed {COPIED_BYTES_MAX} bytes");
                return Err(Error::Malformed(text));
            }
        }
        check_depth(&object, &operation, &mut moved)?;
        check_shift(&object, &operation, &mut shifted)?;
        if let PatchOperation::Test(test) = &operation
            && test.value.is_null()
            && is_absent(&object, &test.path)
        {
            continue;
        }
        json_patch::patch(&mut object, &[operation]).map_err(|error| match error.kind {
            PatchErrorKind::TestFailed => Error::TestFailed(error.to_string()),
            _ => Error::Unprocessable(error.to_string()),
        })?;
    }
    Ok(object)
}

/// Refuses an operation that would nest an object more deeply than any body can. Each copy of an
/// object into itself doubles its depth, and every walk over it takes stack by its depth.
fn check_depth(object: &Value, operation: &PatchOperation, moved: &mut usize) -> Result<(), Error> {
    let found = |from: &jsonptr::Pointer| from.resolve(object).map_or((0, 0), depth);
    let (path, (below, values)) = match operation {
        PatchOperation::Add(add) => (&add.path, depth(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, depth(&replace.value)),
        PatchOperation::Copy(copy) => (&copy.path, found(&copy.from)),
        PatchOperation::Move(one) => (&one.path, found(&one.from)),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    if path.count() + below >= DEPTH_MAX {
        return Err(Error::Malformed(TOO_DEEP.into()));
    }
    // Neither the body nor the limit of copies bounds how much is walked over here.
    if matches!(operation, PatchOperation::Move(_)) {
        *moved += values;
    }
    if *moved > MOVED_VALUES_MAX {
        let text = format!("the moves of the patch exceed {MOVED_VALUES_MAX} values");
        return Err(Error::Malformed(text));
    }
    Ok(())
}

/// Refuses operations that shift the items of long lists again and again: each that adds or removes
/// one shifts those after it.
fn check_shift(
    object: &Value,
    operation: &PatchOperation,
    shifted: &mut usize,
) -> Result<(), Error> {
    let (to, from) = match operation {
        PatchOperation::Add(add) => (Some(&add.path), None),
        PatchOperation::Copy(copy) => (Some(&copy.path), None),
        PatchOperation::Move(one) => (Some(&one.path), Some(&one.from)),
        PatchOperation::Remove(remove) => (None, Some(&remove.path)),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => (None, None),
    };
    for path in [to, from].into_iter().flatten() {
        let list = path.split_back().and_then(|(list, place)| {
            let items = list.resolve(object).ok()?.as_array()?;
            // The sign for the end: there are no items after it.
            (place.decoded() != "-").then_some(items)
        });
        *shifted += list.map_or(0, Vec::len);
    }
    if *shifted > SHIFTED_ITEMS_MAX {
        let text = format!("the operations of the patch shift more than {SHIFTED_ITEMS_MAX} items");
        return Err(Error::Malformed(text));
    }
    Ok(())
}

/// The number of objects and lists within each other, and of all values.
fn depth(value: &Value) -> (usize, usize) {
    let outer = usize::from(value.is_object() || value.is_array());
    let add = |(most, all): (usize, usize), inner: &Value| {
        let (deep, values) = depth(inner);
        (most.max(outer + deep), all + values)
    };
    match value {
        Value::Array(items) => items.iter().fold((outer, 1), add),
        Value::Object(fields) => fields.values().fold((outer, 1), add),
        _ => (outer, 1),
    }
}

/// True if a path names a field that its object does not have. As in Go, such a field passes a test
/// for null; kube-rs tests so that there are no finalizers yet.
fn is_absent(object: &Value, path: &jsonptr::Pointer) -> bool {
    let Some((parent, field)) = path.split_back() else {
        return false;
    };
    let fields = parent.resolve(object).ok().and_then(Value::as_object);
    fields.is_some_and(|fields| !fields.contains_key(&*field.decoded()))
}

/// Reads an operation. A missing value reads as null, as in Go.
fn read(operation: &Value) -> Result<PatchOperation, Error> {
    let unfit = |error: serde_json::Error| Error::Unprocessable(error.to_string());
    let needs = ["add", "replace", "test"].map(Value::from);
    let mut operation = operation.clone();
    if let Value::Object(fields) = &mut operation
        && fields.get("op").is_some_and(|op| needs.contains(op))
    {
        fields.entry("value").or_insert(Value::Null);
    }
    serde_json::from_value(operation).map_err(unfit)
}

/// Applies a merge patch (RFC 7386): null removes a field.
pub fn merge(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    json_patch::merge(&mut object, patch);
    object
}

/// Applies a strategic merge patch to an object described by `message`.
pub fn strategic(object: &Value, patch: &Value, message: &'static Message) -> Result<Value, Error> {
    let (Value::Object(original), Value::Object(patch)) = (object, patch) else {
        return Err(Error::Malformed("the patch is no JSON object".into()));
    };
    let known = strategic::Known::Message(message);
    let merged = strategic::merge_map(original.clone(), patch.clone(), known, 0)?;
    Ok(Value::Object(merged))
}
