//! `format`: fills values into a text.

use super::super::types::Type;
use super::super::value::{Value, Why, type_name};
use super::convert::{self, quote};
use super::{TEXT_MAX, too_long};

/// How many decimal places there are if nothing says it.
const PLACES: usize = 6;
/// The most decimal places.
const PLACES_MAX: usize = 1000;
/// What clauses say of values that they do not take.
const STRING: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, \
                      maps, lists, types, durations, and timestamps";
const DECIMAL: &str = "decimal clause can only be used on integers";
const FIXED: &str = "fixed-point clause can only be used on doubles";
const SCIENTIFIC: &str = "scientific clause can only be used on doubles";
const BINARY: &str = "only integers and bools can be formatted as binary";
const OCTAL: &str = "octal clause can only be used on integers";
const HEX: &str = "only integers, byte buffers, and strings can be formatted as hex";

/// The text with each clause such as `%s` or `%.2f` replaced by a value.
pub(super) fn fill(text: &str, values: &[Value]) -> Result<String, Why> {
    let mut out = String::new();
    // A clause costs nothing for the value that it writes, which may be a list of lists that are
    // shared, or as long as a text may be.
    let mut left = TEXT_MAX;
    let mut next = 0;
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let value = values
            .get(next)
            .ok_or_else(|| format!("index {next} out of range"))?;
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        next += 1;
        let (places, after) = precision(rest)?;
        let clause = after.chars().next().unwrap_or_default();
        rest = &after[clause.len_utf8().min(after.len())..];
        out.push_str(&clause_of(clause, places, value, &mut left)?);
    }
    out.push_str(rest);
    Ok(out)
}

/// Why a text cannot be filled with values of these types, and which of them is to blame.
pub(in super::super) fn check(text: &str, types: &[&Type]) -> Result<(), (Option<usize>, Why)> {
    let mut next = 0;
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        let Some(found) = types.get(next) else {
            return Err((None, format!("index {next} out of range")));
        };
        if rest.is_empty() {
            return Err((None, "unexpected end of string".to_owned()));
        }
        let (_, after) = precision(rest).map_err(|why| (None, why))?;
        let clause = after.chars().next().unwrap_or_default();
        rest = &after[clause.len_utf8().min(after.len())..];
        let Some((accepts, wanted)) = accepted(clause) else {
            let why = format!(
                "could not parse formatting clause: unrecognized formatting clause \"{clause}\""
            );
            return Err((None, why));
        };
        if !matches!(found, Type::Dyn) && !accepts(found) {
            let why = format!(
                "error during formatting: {wanted}, was given {}",
                type_name(found)
            );
            return Err((Some(next), why));
        }
        next += 1;
    }
    if types.len() > next {
        let why = format!(
            "too many arguments supplied to string.format (expected {next}, got {})",
            types.len()
        );
        return Err((None, why));
    }
    Ok(())
}

/// Whether a clause takes values of a type.
type Accepts = fn(&Type) -> bool;

/// The types that a clause takes, and what it says of others.
fn accepted(clause: char) -> Option<(Accepts, &'static str)> {
    let whole: Accepts = |one| matches!(one, Type::Int | Type::Uint);
    let double: Accepts = |one| matches!(one, Type::Double);
    Some(match clause {
        's' => (
            |one| !matches!(one, Type::Struct(_) | Type::Opaque(_) | Type::Optional(_)),
            STRING,
        ),
        'd' => (whole, DECIMAL),
        'f' => (double, FIXED),
        'e' => (double, SCIENTIFIC),
        'b' => (
            |one| matches!(one, Type::Int | Type::Uint | Type::Bool),
            BINARY,
        ),
        'o' => (whole, OCTAL),
        'x' | 'X' => (
            |one| matches!(one, Type::Int | Type::Uint | Type::String | Type::Bytes),
            HEX,
        ),
        _ => return None,
    })
}

fn precision(rest: &str) -> Result<(usize, &str), Why> {
    let unreadable = |why: &str| {
        format!("could not parse formatting clause: error while parsing precision: {why}")
    };
    let Some(after) = rest.strip_prefix('.') else {
        return Ok((PLACES, rest));
    };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    if digits == after.len() {
        return Err(unreadable("could not find end of precision specifier"));
    }
    let places = after[..digits].parse().ok();
    let places = places.filter(|places| *places <= PLACES_MAX);
    let places = places.ok_or_else(|| unreadable("error while converting precision to integer"))?;
    Ok((places, &after[digits..]))
}

/// The text of a value. `left` is how much more may be written.
fn clause_of(clause: char, places: usize, value: &Value, left: &mut usize) -> Result<String, Why> {
    let written = match clause {
        's' => return string(value, left)?.ok_or_else(|| wrong(STRING, value)),
        _ => plain(clause, places, value)?,
    };
    write(written, left)
}

/// Takes what a text needs from what may be written.
fn write(text: String, left: &mut usize) -> Result<String, Why> {
    // A short text takes more than its bytes.
    let taken = text.len() + size_of::<String>();
    *left = left.checked_sub(taken).ok_or_else(too_long)?;
    Ok(text)
}

fn wrong(wanted: &str, value: &Value) -> Why {
    let is = value.type_name();
    format!("error during formatting: {wanted}, was given {is}")
}

fn plain(clause: char, places: usize, value: &Value) -> Result<String, Why> {
    let wrong = |wanted: &str| wrong(wanted, value);
    match (clause, value) {
        ('d', Value::Int(number)) => Ok(number.to_string()),
        ('d', Value::Uint(number)) => Ok(number.to_string()),
        ('d', _) => Err(wrong(DECIMAL)),
        ('f', Value::Double(number)) => Ok(fixed(*number, places)),
        ('f', _) => Err(wrong(FIXED)),
        ('e', Value::Double(number)) => Ok(scientific(*number, places)),
        ('e', _) => Err(wrong(SCIENTIFIC)),
        ('b', Value::Int(number)) => Ok(signed(*number, |number| format!("{number:b}"))),
        ('b', Value::Uint(number)) => Ok(format!("{number:b}")),
        ('b', Value::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('b', _) => Err(wrong(BINARY)),
        ('o', Value::Int(number)) => Ok(signed(*number, |number| format!("{number:o}"))),
        ('o', Value::Uint(number)) => Ok(format!("{number:o}")),
        ('o', _) => Err(wrong(OCTAL)),
        ('x', Value::Int(number)) => Ok(signed(*number, |number| format!("{number:x}"))),
        ('X', Value::Int(number)) => Ok(signed(*number, |number| format!("{number:X}"))),
        ('x', Value::Uint(number)) => Ok(format!("{number:x}")),
        ('X', Value::Uint(number)) => Ok(format!("{number:X}")),
        ('x' | 'X', Value::String(text)) => Ok(hex(text.as_bytes(), clause)),
        ('x' | 'X', Value::Bytes(bytes)) => Ok(hex(bytes, clause)),
        ('x' | 'X', _) => Err(wrong(HEX)),
        (other, _) => Err(format!(
            "could not parse formatting clause: unrecognized formatting clause \"{other}\""
        )),
    }
}

/// A value as `%s` writes it; `None` if it has no text.
fn string(value: &Value, left: &mut usize) -> Result<Option<String>, Why> {
    let text = match value {
        Value::Null => Some("null".to_owned()),
        Value::List(list) => {
            let items = list
                .iter()
                .map(|item| item.map_or(Ok(None), |item| literal(&item, left)));
            let items = items.collect::<Result<Option<Vec<String>>, Why>>()?;
            items.map(|items| format!("[{}]", items.join(", ")))
        }
        Value::Map(map) => {
            let entries = map.entries().map(|entry| {
                let Ok((key, value)) = entry else {
                    return Ok(None);
                };
                let Some(key) = literal(&key, left)? else {
                    return Ok(None);
                };
                let value = literal(&value, left)?;
                Ok(value.map(|value| format!("{key}:{value}")))
            });
            let entries = entries.collect::<Result<Option<Vec<String>>, Why>>()?;
            entries.map(|mut entries| {
                entries.sort();
                format!("{{{}}}", entries.join(", "))
            })
        }
        Value::Ip(_) | Value::Cidr(_) => None,
        other => convert::text(other),
    };
    text.map(|text| write(text, left)).transpose()
}

/// A value within a list or map.
fn literal(value: &Value, left: &mut usize) -> Result<Option<String>, Why> {
    let quoted = match value {
        Value::String(text) => Some(quote(text)),
        Value::Bytes(bytes) => Some(format!("b{}", quote(&String::from_utf8_lossy(bytes)))),
        Value::Double(number) if number.is_finite() => Some(format!("{number:.PLACES$}")),
        Value::Double(number) => Some(quote(&go_text::float(*number))),
        Value::Timestamp(_) => {
            convert::text(value).map(|text| format!("timestamp({})", quote(&text)))
        }
        Value::Duration(_) => {
            convert::text(value).map(|text| format!("duration({})", quote(&text)))
        }
        other => return string(other, left),
    };
    quoted.map(|text| write(text, left)).transpose()
}

/// A number with its decimal places and, as in English, commas between thousands.
fn fixed(number: f64, places: usize) -> String {
    if !number.is_finite() {
        return unusual(number);
    }
    let text = format!("{:.places$}", number.abs());
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (text.as_str(), String::new()),
    };
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{grouped}{fraction}")
}

/// A number with a power of ten, written as in print.
fn scientific(number: f64, places: usize) -> String {
    if !number.is_finite() {
        return unusual(number);
    }
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = format!("{number:.places$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ("⁻", exponent),
        None => ("", exponent),
    };
    let raised = format!("{exponent:0>2}");
    let raised = raised
        .bytes()
        .map(|digit| RAISED[usize::from(digit - b'0') % 10]);
    format!(
        "{digits}\u{202f}×\u{202f}10{sign}{}",
        raised.collect::<String>()
    )
}

fn unusual(number: f64) -> String {
    let name = if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "∞"
    } else {
        "-∞"
    };
    name.to_owned()
}

fn signed(number: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

fn hex(bytes: &[u8], clause: char) -> String {
    let digits = bytes.iter().map(|byte| {
        if clause == 'x' {
            format!("{byte:02x}")
        } else {
            format!("{byte:02X}")
        }
    });
    digits.collect()
}
