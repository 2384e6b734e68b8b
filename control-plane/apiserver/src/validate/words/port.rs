//! Names and numbers of ports.

use machinery::status::Cause;

const PORT_NAME_BYTES_MAX: usize = 15;

/// A port name: like a label, but with at most 15 characters, one of them a letter.
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > PORT_NAME_BYTES_MAX {
        wrong.push(format!(
            "must be no more than {PORT_NAME_BYTES_MAX} characters"
        ));
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(plain) {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !name.chars().any(|c| c.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".into());
    }
    wrong
}

pub(crate) fn port_number(field: &str, number: i64) -> Option<Cause> {
    let why = "must be between 1 and 65535, inclusive";
    let good = (1..=65535).contains(&number);
    (!good).then(|| Cause::invalid(field, &number.into(), why))
}
