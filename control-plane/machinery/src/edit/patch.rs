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
/// Maximum nesting of a merge patch; bodies read from text are never deeper.
const DEPTH_MAX: usize = 128;

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
    let mut copied = 0;
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
