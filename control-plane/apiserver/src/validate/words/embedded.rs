//! JSON in a text of an object, read as a program in Go reads it.

use machinery::strict::kind_of;
use serde_json::{Map, Value};

/// The fields of a struct, each with the name of its type.
pub(crate) type Fields = [(&'static str, &'static str)];

/// Reads JSON.
pub(crate) fn read(text: &[u8]) -> Result<Value, String> {
    let error = match serde_json::from_slice::<Value>(text) {
        Ok(value) => return Ok(value),
        Err(error) if error.is_eof() => return Err("unexpected end of JSON input".into()),
        Err(error) => error,
    };
    let mut lines = text.split(|byte| *byte == b'\n');
    let line = lines.nth(error.line().saturating_sub(1));
    let at = line.and_then(|line| line.get(error.column().saturating_sub(1)));
    let letter = char::from(at.copied().unwrap_or_default());
    let at = if error.to_string().starts_with("trailing characters") {
        "after top-level value"
    } else {
        "looking for beginning of value"
    };
    Err(format!("invalid character {letter:?} {at}"))
}

/// The error for a value of another type.
pub(crate) fn misfit(value: &Value, place: &str) -> String {
    format!("json: cannot unmarshal {} into Go {place}", kind_of(value))
}

/// Reads a list of structs. Names in the text may be in any case, those in the result are not.
pub(crate) fn structs(text: &str, name: &str, fields: &Fields) -> Result<Vec<Value>, String> {
    let items = match read(text.as_bytes())? {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => return Err(misfit(&other, &format!("value of type []core.{name}"))),
    };
    let items = items.into_iter().map(|item| one(item, name, fields));
    items.collect()
}

fn one(item: Value, name: &str, fields: &Fields) -> Result<Value, String> {
    let given = match item {
        Value::Object(given) => given,
        Value::Null => Map::new(),
        other => return Err(misfit(&other, &format!("value of type core.{name}"))),
    };
    let mut made = Map::new();
    for (key, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
        let mut known = fields.iter();
        let Some((field, kind)) = known.find(|(field, _)| field.eq_ignore_ascii_case(&key)) else {
            continue;
        };
        let fits = if *kind == "int64" {
            value.is_i64()
        } else {
            value.is_string()
        };
        if !fits {
            let (first, rest) = field.split_at(1);
            let first = first.to_ascii_uppercase();
            let place = format!("struct field {name}.{first}{rest} of type {kind}");
            return Err(misfit(&value, &place));
        }
        // An empty text is none, as after the decoding of a body.
        if value != "" {
            made.insert((*field).into(), value);
        }
    }
    Ok(made.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FIELDS: &Fields = &[("key", "string"), ("tolerationSeconds", "int64")];

    #[test]
    fn structs_are_read_as_in_go() {
        let read = |text: &str| structs(text, "Toleration", FIELDS);
        assert_eq!(read("null"), Ok(Vec::new()));
        assert_eq!(
            read(
                "[{\"Key\":\"a\",\"TOLERATIONSECONDS\":1,\"other\":{},\"value\":null}, {\"key\":\"\"}]"
            ),
            Ok(vec![json!({"key": "a", "tolerationSeconds": 1}), json!({})])
        );
        for (text, why) in [
            ("", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("[] x", "invalid character 'x' after top-level value"),
            (
                "{}",
                "json: cannot unmarshal object into Go value of type []core.Toleration",
            ),
            (
                "[1]",
                "json: cannot unmarshal number into Go value of type core.Toleration",
            ),
            (
                "[{\"key\":1}]",
                "json: cannot unmarshal number into Go struct field Toleration.Key of type string",
            ),
            (
                "[{\"tolerationSeconds\":\"1\"}]",
                "json: cannot unmarshal string into Go struct field Toleration.TolerationSeconds of \
                 type int64",
            ),
        ] {
            assert_eq!(read(text), Err(why.to_owned()), "{text}");
        }
    }
}
