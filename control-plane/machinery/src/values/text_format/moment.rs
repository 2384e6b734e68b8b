//! Dates, times and durations.

use jiff::civil::Date;

use super::is_digits;

/// The units of a duration in words; a longer word may begin with the last one of a row.
const UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

/// `2006-01-02`
pub(super) fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };
    let is_shaped = year.len() == 4 && month.len() == 2 && day.len() == 2;
    if !is_shaped || !parts.into_iter().all(is_digits) {
        return false;
    }
    match (year.parse(), month.parse(), day.parse()) {
        (Ok(year), Ok(month), Ok(day)) => Date::new(year, month, day).is_ok(),
        _ => false,
    }
}

/// `2006-01-02T15:04:05.999Z`, with `Z` or an offset.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    match (parts.next(), parts.next()) {
        (Some(date), Some(time)) => is_date(date) && is_time(time),
        _ => false,
    }
}

/// `1h30m` as Go has it, or words such as `3 days`.
pub(super) fn is_duration(text: &str) -> bool {
    go_text::parse_duration(text).is_ok() || has_duration_in_words(text)
}

fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else {
        return false;
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let is_clock = match parts[..] {
        [hour, minute, second] => {
            parts.iter().all(|part| part.len() == 2 && is_digits(part))
                && hour <= "23"
                && minute <= "59"
                && second <= "59"
        }
        _ => false,
    };
    // Any character separates the decimal places, as in Kubernetes.
    let mut chars = rest.chars();
    let decimals = chars.next().map_or("", |_| chars.as_str());
    let after = decimals.trim_start_matches(|c: char| c.is_ascii_digit());
    let zone = if after.len() < decimals.len() {
        after
    } else {
        rest
    };
    is_clock && (is_zone(rest) || is_zone(zone))
}

fn is_zone(text: &str) -> bool {
    let is_offset = |offset: &str| {
        let parts = offset.split_once(':');
        parts.is_some_and(|(hours, minutes)| {
            [hours, minutes]
                .iter()
                .all(|part| part.len() == 2 && is_digits(part))
        })
    };
    text == "z" || text.strip_prefix(['+', '-']).is_some_and(is_offset)
}

/// Whether there is a number with a unit somewhere in the text.
fn has_duration_in_words(text: &str) -> bool {
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = &rest[start..];
        let after = number.trim_start_matches(|c: char| c.is_ascii_digit());
        let word = after.trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == 'µ';
        let end = word.find(|c| !is_letter(c)).unwrap_or(word.len());
        let digits = &number[..number.len() - after.len()];
        if end > 0 && digits.parse::<i64>().is_err() {
            return false;
        }
        let unit = word[..end].to_lowercase();
        let is_unit = UNITS.iter().any(|names| {
            let begins = names.last().is_some_and(|last| unit.starts_with(last));
            begins || names.contains(&unit.as_str())
        });
        if is_unit {
            return true;
        }
        rest = after;
    }
    false
}
