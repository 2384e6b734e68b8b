//! `fieldPath`: where the errors of a rule are.

use serde_json::Value;

/// The path as errors show it, such as `spec.map[key]`; `None` if it leads to no field.
pub(in crate::custom::structural) fn normalised(path: &str, schema: &Value) -> Option<String> {
    let mut schema = schema;
    let mut shown = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = step(rest)?;
        rest = after;
        let properties = schema.get("properties").and_then(Value::as_object);
        if let Some(properties) = properties.filter(|all| !all.is_empty()) {
            // An object with fields has no other keys.
            schema = properties.get(&name)?;
            if !shown.is_empty() {
                shown.push('.');
            }
            shown.push_str(&name);
        } else {
            let each = schema.get("additionalProperties");
            schema = each.filter(|each| each.is_object())?;
            shown.push_str(&format!("[{name}]"));
        }
    }
    Some(shown)
}

/// The first step of a path, `.name` or `['name']`, and the rest.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        return (end > 0).then(|| (rest[..end].to_owned(), &rest[end..]));
    }
    let rest = path.strip_prefix("['")?;
    let mut name = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((name, rest[at + 1..].strip_prefix(']')?)),
            '\\' => name.push(match chars.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                same @ ('\'' | '\\') => same,
                _ => return None,
            }),
            other => name.push(other),
        }
    }
    None
}
