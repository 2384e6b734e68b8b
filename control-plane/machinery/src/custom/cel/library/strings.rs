//! Functions on strings. Places and lengths are in characters.

use super::super::value::{Value, Why, shown};
use super::{TEXT_MAX, too_long};

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    if function == "join" {
        return join(arguments);
    }
    let (Value::String(text), rest) = arguments.split_first()? else {
        return None;
    };
    Some(match (function, rest) {
        ("contains", [Value::String(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("charAt", [Value::Int(at)]) => char_at(text, *at),
        ("indexOf", [Value::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Value::String(part), Value::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Value::String(part)]) => last_index_of(text, part, None),
        ("lastIndexOf", [Value::String(part), Value::Int(from)]) => {
            last_index_of(text, part, Some(*from))
        }
        ("lowerAscii", []) => Ok(Value::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(text.to_ascii_uppercase())),
        ("jsonpatch.escapeKey", []) => Ok(Value::text(text.replace('~', "~0").replace('/', "~1"))),
        ("trim", []) => Ok(Value::text(text.trim())),
        ("reverse", []) => Ok(Value::text(text.chars().rev().collect::<String>())),
        ("substring", [Value::Int(from)]) => substring(text, *from, None),
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(text, *from, Some(*to)),
        ("replace", [Value::String(old), Value::String(new)]) => replace(text, old, new, -1),
        ("replace", [Value::String(old), Value::String(new), Value::Int(count)]) => {
            replace(text, old, new, *count)
        }
        ("split", [Value::String(by)]) => Ok(split(text, by, -1)),
        ("split", [Value::String(by), Value::Int(count)]) => Ok(split(text, by, *count)),
        ("format", [Value::List(list)]) => {
            let items = list.items();
            items.and_then(|items| super::template::fill(text, &items).map(Value::text))
        }
        _ => return None,
    })
}

fn join<'a>(arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    let (list, separator): (_, &str) = match arguments {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator),
        _ => return None,
    };
    let mut text = String::new();
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            text.push_str(separator);
        }
        match item {
            Ok(Value::String(item)) => text.push_str(&item),
            Ok(other) => return Some(Err(format!("join: invalid input: {}", shown(&other)))),
            Err(why) => return Some(Err(why)),
        }
        if text.len() > TEXT_MAX {
            return Some(Err(too_long()));
        }
    }
    Some(Ok(Value::text(text)))
}

fn char_at<'a>(text: &str, at: i64) -> Result<Value<'a>, Why> {
    let place = place(at, text.chars().count())?;
    let found = text.chars().nth(place);
    Ok(Value::text(found.map(String::from).unwrap_or_default()))
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> Result<Value<'a>, Why> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let Ok(start) = usize::try_from(from) else {
        return Err(out_of_range(from));
    };
    let Some((start_byte, _)) = text.char_indices().nth(start) else {
        return Ok(Value::Int(-1));
    };
    let found = text[start_byte..].find(part);
    Ok(found.map_or(Value::Int(-1), |at| characters(&text[..start_byte + at])))
}

fn last_index_of<'a>(text: &str, part: &str, from: Option<i64>) -> Result<Value<'a>, Why> {
    let length = text.chars().count();
    if part.is_empty() {
        return Ok(from.map_or_else(|| characters(text), Value::Int));
    }
    let last = match from {
        None => length.saturating_sub(1),
        Some(from) => match usize::try_from(from) {
            Ok(from) if from >= length => return Ok(Value::Int(-1)),
            Ok(from) => from,
            Err(_) => return Err(out_of_range(from)),
        },
    };
    // The part begins at this place at the latest.
    let end = text
        .char_indices()
        .nth(last + part.chars().count())
        .map_or(text.len(), |(byte, _)| byte);
    let found = text[..end].rfind(part);
    Ok(found.map_or(Value::Int(-1), |at| characters(&text[..at])))
}

fn substring<'a>(text: &str, from: i64, to: Option<i64>) -> Result<Value<'a>, Why> {
    if let Some(to) = to.filter(|to| from > *to) {
        return Err(format!("invalid substring range. start: {from}, end: {to}"));
    }
    let length = text.chars().count();
    let start = place(from, length)?;
    let end = to.map_or(Ok(length), |to| place(to, length))?;
    let part: String = text.chars().skip(start).take(end - start).collect();
    Ok(Value::text(part))
}

fn replace<'a>(text: &str, old: &str, new: &str, count: i64) -> Result<Value<'a>, Why> {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let times = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.len() / old.len()
    };
    let grows = times.min(limit).saturating_mul(new.len());
    if grows.saturating_add(text.len()) > TEXT_MAX {
        return Err(too_long());
    }
    Ok(Value::text(text.replacen(old, new, limit)))
}

/// The parts between separators; with a limit, the last part is the rest.
fn split<'a>(text: &str, by: &str, count: i64) -> Value<'a> {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let mut parts: Vec<String> = Vec::new();
    if limit > 0 && by.is_empty() {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let length = if parts.len() + 1 == limit {
                rest.len()
            } else {
                c.len_utf8()
            };
            parts.push(rest[..length].to_owned());
            rest = &rest[length..];
        }
    } else if limit > 0 {
        parts.extend(text.splitn(limit, by).map(str::to_owned));
    }
    Value::list(parts.into_iter().map(Value::text).collect())
}

fn place(at: i64, length: usize) -> Result<usize, Why> {
    let place = usize::try_from(at).ok().filter(|at| *at <= length);
    place.ok_or_else(|| out_of_range(at))
}

fn out_of_range(at: i64) -> Why {
    format!("index out of range: {at}")
}

fn characters<'a>(text: &str) -> Value<'a> {
    Value::Int(i64::try_from(text.chars().count()).unwrap_or(i64::MAX))
}
