//! Numbers in texts, read and refused as by Go's `strconv.ParseUint`.

use std::fmt::Write as _;

/// The number that a text is, in decimal. The error is Go's.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let failed = |why: &str| format!("strconv.ParseUint: parsing {}: {why}", quote(text));
    if text.is_empty() {
        return Err(failed("invalid syntax"));
    }
    let mut number: u64 = 0;
    for byte in text.bytes() {
        if !byte.is_ascii_digit() {
            return Err(failed("invalid syntax"));
        }
        let next = number.checked_mul(10);
        let next = next.and_then(|next| next.checked_add(u64::from(byte - b'0')));
        number = next.ok_or_else(|| failed("value out of range"))?;
    }
    Ok(number)
}

/// A text between double quotes, as Go's `%q` writes it.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let code = u32::from(c);
        // A `String` takes every write.
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\u{7}' => out.write_str("\\a"),
            '\u{8}' => out.write_str("\\b"),
            '\t' => out.write_str("\\t"),
            '\n' => out.write_str("\\n"),
            '\u{b}' => out.write_str("\\v"),
            '\u{c}' => out.write_str("\\f"),
            '\r' => out.write_str("\\r"),
            '\'' | ' '..='~' => out.write_char(c),
            _ if code < 0x80 => write!(out, "\\x{code:02x}"),
            // Rust and Go escape the same characters: those that cannot be printed.
            _ if c.escape_debug().len() == 1 => out.write_char(c),
            _ if code < 0x10000 => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out.push('"');
    out
}

#[test]
fn numbers_are_read_and_refused_as_by_go() {
    for (text, number) in [
        ("0", 0),
        ("007", 7),
        ("9223372036854775808", 1 << 63),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(parse(text), Ok(number));
    }
    let (syntax, range) = ("invalid syntax", "value out of range");
    for (text, quoted, why) in [
        ("", r#""""#, syntax),
        ("+7", r#""+7""#, syntax),
        ("-1", r#""-1""#, syntax),
        (" 7", r#"" 7""#, syntax),
        ("1_0", r#""1_0""#, syntax),
        ("a\"b\\", r#""a\"b\\""#, syntax),
        ("é\u{1}\n", r#""é\x01\n""#, syntax),
        ("１", r#""１""#, syntax),
        ("\u{200b}", r#""\u200b""#, syntax),
        ("18446744073709551616", r#""18446744073709551616""#, range),
        // The first thing that is wrong is told.
        ("99999999999999999999x", r#""99999999999999999999x""#, range),
        (
            "9x9999999999999999999",
            r#""9x9999999999999999999""#,
            syntax,
        ),
    ] {
        let told = format!("strconv.ParseUint: parsing {quoted}: {why}");
        assert_eq!(parse(text), Err(told));
    }
}
