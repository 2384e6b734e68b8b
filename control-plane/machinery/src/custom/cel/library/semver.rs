//! Semantic versions.

use std::cmp::Ordering;

use super::super::value::{Value, Why};

/// A version; its build metadata does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    pre_release: Vec<Identifier>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    /// Numbers come before words.
    Number(u64),
    Word(String),
}

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    Some(match (function, arguments) {
        ("semver", [Value::String(text)]) => made(parse(text)),
        ("semver", [Value::String(text), Value::Bool(tolerant)]) => made(read(text, *tolerant)),
        ("isSemver", [Value::String(text)]) => Ok(Value::Bool(parse(text).is_ok())),
        ("isSemver", [Value::String(text), Value::Bool(tolerant)]) => {
            Ok(Value::Bool(read(text, *tolerant).is_ok()))
        }
        ("major", [Value::Semver(one)]) => Ok(Value::Int(one.numbers[0] as i64)),
        ("minor", [Value::Semver(one)]) => Ok(Value::Int(one.numbers[1] as i64)),
        ("patch", [Value::Semver(one)]) => Ok(Value::Int(one.numbers[2] as i64)),
        ("isGreaterThan", [Value::Semver(one), Value::Semver(other)]) => {
            Ok(Value::Bool(one.compare(other) == Ordering::Greater))
        }
        ("isLessThan", [Value::Semver(one), Value::Semver(other)]) => {
            Ok(Value::Bool(one.compare(other) == Ordering::Less))
        }
        ("compareTo", [Value::Semver(one), Value::Semver(other)]) => {
            Ok(Value::Int(one.compare(other) as i64))
        }
        _ => return None,
    })
}

impl Semver {
    /// The order of versions: a pre-release comes before its release.
    pub(crate) fn compare(&self, other: &Semver) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        let releases = self
            .pre_release
            .is_empty()
            .cmp(&other.pre_release.is_empty());
        numbers
            .then(releases)
            .then_with(|| self.pre_release.cmp(&other.pre_release))
    }
}

fn made<'a>(version: Result<Semver, Why>) -> Result<Value<'a>, Why> {
    version.map(|version| Value::Semver(version.into()))
}

fn read(text: &str, tolerant: bool) -> Result<Semver, Why> {
    if tolerant {
        parse(&normalised(text)?)
    } else {
        parse(text)
    }
}

pub(in crate::custom::cel) fn parse(text: &str) -> Result<Semver, Why> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts[..] else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let (rest, build) = match rest.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (rest, None),
    };
    let (patch, pre_release) = match rest.split_once('-') {
        Some((patch, pre_release)) => (patch, Some(pre_release)),
        None => (rest, None),
    };
    let numbers = [
        number(major, "Major")?,
        number(minor, "Minor")?,
        number(patch, "Patch")?,
    ];
    let identifiers = pre_release.into_iter().flat_map(|text| text.split('.'));
    let pre_release: Result<Vec<Identifier>, Why> = identifiers.map(identifier).collect();
    for part in build.into_iter().flat_map(|text| text.split('.')) {
        if part.is_empty() {
            return Err("Build meta data is empty".to_owned());
        }
        if !part.bytes().all(is_word) {
            return Err(format!(
                "Invalid character(s) found in build meta data {part:?}"
            ));
        }
    }
    Ok(Semver {
        numbers,
        pre_release: pre_release?,
    })
}

fn number(text: &str, name: &str) -> Result<u64, Why> {
    if !text.bytes().all(|digit| digit.is_ascii_digit()) {
        let name = name.to_lowercase();
        return Err(format!(
            "Invalid character(s) found in {name} number {text:?}"
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!(
            "{name} number must not contain leading zeroes {text:?}"
        ));
    }
    let parsed = text.parse();
    parsed.map_err(|_| format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
}

fn identifier(text: &str) -> Result<Identifier, Why> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|digit| digit.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {text:?}"
            ));
        }
        let parsed = text.parse().map(Identifier::Number);
        return parsed
            .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"));
    }
    if !text.bytes().all(is_word) {
        return Err(format!("Invalid character(s) found in prerelease {text:?}"));
    }
    Ok(Identifier::Word(text.to_owned()))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// A version without the `v`, without leading zeroes and with all three numbers.
fn normalised(text: &str) -> Result<String, Why> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            let trimmed = part.trim_start_matches('0');
            if part.len() <= 1 {
                part.to_owned()
            } else if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                trimmed.to_owned()
            } else {
                format!("0{trimmed}")
            }
        })
        .collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    while parts.len() < 3 {
        parts.push("0".to_owned());
    }
    Ok(parts.join("."))
}
