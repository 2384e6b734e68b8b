//! JSON as Go writes it.

use serde_json::Value;

/// A value as Go encodes it: fields in order of their names, and no character that HTML reads.
pub fn encoded(value: &Value) -> String {
    escaped(value.to_string())
}

/// Escapes the characters in encoded JSON that HTML reads.
pub(crate) fn escaped(mut text: String) -> String {
    for (letter, code) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if text.contains(letter) {
            text = text.replace(letter, code);
        }
    }
    text
}
