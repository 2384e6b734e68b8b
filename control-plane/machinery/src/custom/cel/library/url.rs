//! URLs.

use std::collections::HashMap;
use std::rc::Rc;

use super::super::value::{Made, Map, Value, Why};

/// An absolute URL or path, as Go reads it.
#[derive(Debug, Clone)]
pub(crate) struct Url {
    pub(crate) text: String,
    scheme: String,
    /// With its port.
    host: String,
    path: String,
    query: String,
}

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    Some(match (function, arguments) {
        ("url", [Value::String(text)]) => match parse(text) {
            Ok(url) => Ok(Value::Url(url.into())),
            Err(why) => Err(format!(
                "URL parse error during conversion from string: {why}"
            )),
        },
        ("isURL", [Value::String(text)]) => Ok(Value::Bool(parse(text).is_ok())),
        ("getScheme", [Value::Url(url)]) => Ok(Value::text(url.scheme.as_str())),
        ("getHost", [Value::Url(url)]) => Ok(Value::text(url.host.as_str())),
        ("getHostname", [Value::Url(url)]) => Ok(Value::text(split_host(&url.host).0)),
        ("getPort", [Value::Url(url)]) => Ok(Value::text(split_host(&url.host).1)),
        ("getEscapedPath", [Value::Url(url)]) => Ok(Value::text(escaped(&url.path))),
        ("getQuery", [Value::Url(url)]) => query(&url.query),
        _ => return None,
    })
}

/// Reads a URL that a request may name: absolute, or an absolute path.
pub(super) fn parse(text: &str) -> Result<Url, Why> {
    let wrong = |why: &str| format!("parse {text:?}: {why}");
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(wrong("net/url: invalid control character in URL"));
    }
    if text.is_empty() {
        return Err(wrong("empty url"));
    }
    let (scheme, rest) = scheme(text).map_err(wrong)?;
    let (rest, _fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') && scheme.is_empty() {
        return Err(wrong("invalid URI for request"));
    }
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) if !scheme.is_empty() => {
            let at = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(at);
            let host = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            (host, path)
        }
        _ => ("", rest),
    };
    check_host(host).map_err(|why| wrong(&why))?;
    if let Some(escape) = bad_escape(path) {
        return Err(wrong(&format!("invalid URL escape {escape:?}")));
    }
    let is_opaque = !rest.starts_with('/');
    Ok(Url {
        text: text.to_owned(),
        scheme: scheme.to_ascii_lowercase(),
        host: host.to_owned(),
        path: if is_opaque {
            String::new()
        } else {
            path.to_owned()
        },
        query: query.to_owned(),
    })
}

fn scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (at, c) in text.char_indices() {
        match c {
            ':' if at == 0 => return Err("missing protocol scheme"),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            c if c.is_ascii_alphabetic() => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            // No scheme: the first segment may not have a colon.
            _ if text.starts_with('/') => break,
            _ => {
                let segment = text.split('/').next().unwrap_or_default();
                if segment.contains(':') {
                    return Err("first path segment in URL cannot contain colon");
                }
                break;
            }
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), Why> {
    let port = if host.starts_with('[') {
        let Some(end) = host.rfind(']') else {
            return Err("missing ']' in host".to_owned());
        };
        &host[end + 1..]
    } else {
        host.rfind(':').map_or("", |at| &host[at..])
    };
    let is_port = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {port:?} after host"));
    }
    let allowed = |c: char| {
        !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c)
    };
    if let Some(bad) = host.chars().find(|c| !allowed(*c)) {
        return Err(format!(
            "invalid character {:?} in host name",
            bad.to_string()
        ));
    }
    Ok(())
}

fn bad_escape(text: &str) -> Option<&str> {
    let mut from = 0;
    while let Some(at) = text[from..].find('%') {
        let start = from + at;
        let digits = text.as_bytes().get(start + 1..start + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let end = text.len().min(start + 3);
            return text.get(start..end).or(text.get(start..));
        }
        from = start + 3;
    }
    None
}

fn split_host(host: &str) -> (&str, &str) {
    let (name, port) = match host.rfind(':') {
        Some(at) if !host[at..].contains(']') => (&host[..at], &host[at + 1..]),
        _ => (host, ""),
    };
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    (inner.unwrap_or(name), port)
}

/// The path with what a URL may not hold as escapes.
fn escaped(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*%[]".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn query<'a>(text: &str) -> Result<Value<'a>, Why> {
    let mut values: Vec<(String, Vec<Value>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for pair in text
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
    {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(key), Some(value)) = (unescaped(key), unescaped(value)) else {
            continue;
        };
        let place = *places.entry(key.clone()).or_insert(values.len());
        match values.get_mut(place) {
            Some((_, all)) => all.push(Value::text(value)),
            None => values.push((key, vec![Value::text(value)])),
        }
    }
    let mut made = Made::default();
    for (key, all) in values {
        made.insert(Value::text(key), Value::list(all))?;
    }
    Ok(Value::Map(Map::Made(Rc::new(made))))
}

fn unescaped(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = std::str::from_utf8(bytes.get(at..at + 2)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            other => out.push(*other),
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
