//! Strings in JSON, and in Go's error texts.

use super::scan::quote_char;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextError<'a> {
    /// The document ends inside an escape.
    End,
    Utf8,
    /// An invalid escape.
    Escape(&'a [u8]),
}

/// Unquotes the JSON string at the start of `json`.
pub(super) fn unquote(json: &[u8]) -> Result<String, TextError<'_>> {
    let mut out = Vec::new();
    let mut rest = &json[1.min(json.len())..];
    loop {
        let plain = rest
            .iter()
            .take_while(|byte| !matches!(byte, b'"' | b'\\'))
            .count();
        // Invalid UTF-8 before an escape is reported before the escape is read.
        let text = std::str::from_utf8(&rest[..plain]).map_err(|_| TextError::Utf8)?;
        out.extend_from_slice(text.as_bytes());
        rest = &rest[plain..];
        match rest {
            [] => return Err(TextError::End),
            [b'"', ..] => break,
            _ => {}
        }
        let (c, length) = escape(rest)?;
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[length..];
    }
    // Cannot fail: the parts are checked text and characters.
    String::from_utf8(out).map_err(|_| TextError::Utf8)
}

/// The character of an escape, and its length in bytes.
fn escape(rest: &[u8]) -> Result<(char, usize), TextError<'_>> {
    let c = match rest.get(1) {
        None => return Err(TextError::End),
        Some(c @ (b'"' | b'\\' | b'/')) => char::from(*c),
        Some(b'b') => '\x08',
        Some(b'f') => '\x0c',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(rest),
        Some(_) => return Err(TextError::Escape(&rest[..2])),
    };
    Ok((c, 2))
}

/// `\u` and four hex digits, or two of these for a surrogate pair.
fn unicode(rest: &[u8]) -> Result<(char, usize), TextError<'_>> {
    const LENGTH: usize = 6;
    let unit = |rest: &[u8]| {
        let digits = std::str::from_utf8(rest.get(2..LENGTH)?).ok()?;
        u16::from_str_radix(digits, 16).ok()
    };
    if rest.len() < LENGTH {
        return Err(TextError::End);
    }
    let first = unit(rest).ok_or(TextError::Escape(&rest[..LENGTH]))?;
    if let Some(c) = char::from_u32(first.into()) {
        return Ok((c, LENGTH));
    }
    let rest = &rest[LENGTH..];
    if rest.len() < LENGTH {
        return Err(TextError::End);
    }
    let second = unit(rest).filter(|_| rest.starts_with(b"\\u"));
    let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
    // Half a surrogate pair followed by an ordinary character decodes to an error.
    match pair {
        Some(c) => Ok((c, 2 * LENGTH)),
        None => Err(TextError::Escape(&rest[..LENGTH])),
    }
}

/// Bytes as Go's `%q` writes them.
pub(super) fn quote(bytes: &[u8]) -> String {
    let mut out = String::from('"');
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| quote_char(&mut out, c));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read() {
        let read = |json: &'static str| unquote(json.as_bytes());
        assert_eq!(
            read(r#""a\"\\\/\b\f\n\r\t""#).unwrap(),
            "a\"\\/\x08\x0c\n\r\t"
        );
        assert_eq!(read(r#""é\u00e9\ud83d\ude00""#).unwrap(), "éé😀");
        assert_eq!(read(r#""\ud83d""#), Err(TextError::End));
        assert_eq!(read(r#""\ud83dabcdef""#), Err(TextError::Escape(b"abcdef")));
        assert_eq!(
            read(r#""\ud83d\u0041""#),
            Err(TextError::Escape(b"\\u0041"))
        );
        assert_eq!(read(r#""\ude00xxxxxx""#), Err(TextError::Escape(b"xxxxxx")));
        assert_eq!(unquote(b"\"\xff\""), Err(TextError::Utf8));
    }

    #[test]
    fn bytes_are_quoted_as_go_quotes_them() {
        assert_eq!(quote(b"a\"\\\n\x01\xff"), r#""a\"\\\n\x01\xff""#);
        assert_eq!(quote("é\u{a0}".as_bytes()), "\"é\\u00a0\"");
    }
}
