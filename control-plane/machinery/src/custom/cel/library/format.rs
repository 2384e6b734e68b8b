//! Named formats of strings.

use super::super::value::{Value, Why};
use crate::values::name;
use crate::values::text_format;

/// A format that strings are checked against.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) name: &'static str,
    /// The length of its pattern, which checks cost.
    pub(crate) regex_size: u64,
    check: fn(&str) -> Vec<String>,
}

static FORMATS: [Format; 13] = [
    named("dns1123Label", 30, name::dns1123_label),
    named("dns1123Subdomain", 60, name::dns1123_subdomain),
    named("dns1035Label", 30, name::dns1035_label),
    named("qualifiedName", 60, name::qualified_name),
    named("dns1123LabelPrefix", 30, |text| {
        name::dns1123_label(&prefix(text))
    }),
    named("dns1123SubdomainPrefix", 60, |text| {
        name::dns1123_subdomain(&prefix(text))
    }),
    named("dns1035LabelPrefix", 30, |text| {
        name::dns1035_label(&prefix(text))
    }),
    named("labelValue", 40, name::label_value),
    named("uri", 1103, |text| {
        super::url::parse(text).err().into_iter().collect()
    }),
    named("uuid", 70, |text| {
        checked("uuid", text, "does not match the UUID format")
    }),
    named("byte", 84, |text| checked("byte", text, "invalid base64")),
    named("date", 71, |text| checked("date", text, "invalid date")),
    named("datetime", 71, |text| {
        checked("date-time", text, "invalid datetime")
    }),
];

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    if let ("validate", [Value::Format(format), Value::String(text)]) = (function, arguments) {
        let wrong = (format.check)(text);
        return Some(Ok(if wrong.is_empty() {
            Value::Optional(None)
        } else {
            let wrong = wrong.into_iter().map(Value::text).collect();
            Value::some(Value::list(wrong))
        }));
    }
    let found = |name: &str| FORMATS.iter().find(|format| format.name == name);
    match (function, arguments) {
        ("format.named", [Value::String(name)]) => Some(Ok(match found(name) {
            Some(format) => Value::some(Value::Format(format)),
            None => Value::Optional(None),
        })),
        (function, []) => {
            let name = function.strip_prefix("format.")?;
            Some(Ok(Value::Format(found(name)?)))
        }
        _ => None,
    }
}

const fn named(name: &'static str, regex_size: u64, check: fn(&str) -> Vec<String>) -> Format {
    Format {
        name,
        regex_size,
        check,
    }
}

/// A prefix of a name may end with a dash, which counts as a letter.
fn prefix(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

fn checked(format: &str, text: &str, otherwise: &str) -> Vec<String> {
    if text_format::find(format).is_none_or(|accepts| accepts(text)) {
        Vec::new()
    } else {
        vec![otherwise.to_owned()]
    }
}
