//! Strings in YAML, in the style that Go's encoder chooses: plain if that is unambiguous and needs
//! no escapes, single-quoted, double-quoted, or literal.

use machinery::time::Timestamp;

/// The column after which a line is folded at the next space.
const WIDTH: usize = 80;
/// Words for booleans and null; also capitalized, and in capitals.
const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
/// Characters with a meaning at the start of a plain scalar.
const BEGINNINGS: &str = "#,[]{}&*!|>'\"%@`";

/// The style of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Writes a key, which is never folded.
pub(super) fn key(out: &mut String, text: &str) {
    match style(text) {
        Style::Literal => write(out, text, Style::Double, None),
        style => write(out, text, style, None),
    }
}

/// Writes a value and a line end; further lines have the indent.
pub(super) fn value(out: &mut String, text: &str, indent: usize) {
    match style(text) {
        Style::Literal => literal(out, text, indent),
        style => {
            write(out, text, style, Some(indent));
            out.push('\n');
        }
    }
}

fn style(text: &str) -> Style {
    let printable = |c: char| match c {
        '\n' => true,
        '\u{feff}' | '\u{85}' | '\u{2028}' | '\u{2029}' => false,
        c => !c.is_control() && !('\u{e000}'..'\u{f900}').contains(&c),
    };
    let special = !text.chars().all(printable);
    let lines = text.contains('\n');
    let space_break = text.contains(" \n");
    let spaced = text.starts_with(' ') || text.ends_with(' ');
    if lines {
        let writable = !special && !space_break && !text.ends_with(' ');
        return if writable {
            Style::Literal
        } else {
            Style::Double
        };
    }
    if special || means_something_else(text) {
        return Style::Double;
    }
    if spaced || has_indicators(text) {
        Style::Single
    } else {
        Style::Plain
    }
}

/// True if a plain scalar would be read as another type than string.
fn means_something_else(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let capital = text.chars().skip(1).all(|c| c.is_ascii_lowercase());
    let one_case = capital || !text.chars().any(|c| c.is_ascii_lowercase());
    if text.is_empty() || text == "~" || text == "<<" {
        return true;
    }
    if WORDS.contains(&lower.as_str()) && one_case {
        return true;
    }
    let unsigned = text.trim_start_matches(['+', '-']);
    if [".inf", ".nan"].contains(&unsigned.to_ascii_lowercase().as_str()) {
        return true;
    }
    is_number(text) || is_time(text)
}

fn is_number(text: &str) -> bool {
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return false;
    }
    // Sexagesimal numbers, such as `1:30`.
    let mut sixty = text.trim_start_matches(['+', '-']).split(':');
    let digits = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    if text.contains(':') && sixty.all(|part| digits(part.trim_end_matches('.'))) {
        return true;
    }
    let plain = text.replace('_', "");
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let radix = |prefixes: [&str; 2], radix: u32| {
        let mut rest = prefixes.iter().filter_map(|one| unsigned.strip_prefix(one));
        rest.any(|digits| u64::from_str_radix(digits, radix).is_ok())
    };
    if radix(["0x", "0X"], 16) || radix(["0b", "0B"], 2) || radix(["0o", "0O"], 8) {
        return true;
    }
    let float = |c: char| c.is_ascii_digit() || ".eE+-".contains(c);
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.chars().all(float)
        && unsigned.parse::<f64>().is_ok()
}

/// True for a date or a timestamp.
fn is_time(text: &str) -> bool {
    let year = text.get(..5);
    let begins = year.is_some_and(|year| {
        year.ends_with('-') && year[..4].bytes().all(|byte| byte.is_ascii_digit())
    });
    let day = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        let digits = |part: &&str| (1..=2).contains(&part.len()) && part.parse::<u8>().is_ok();
        parts.len() == 3 && parts[1..].iter().all(digits)
    };
    begins && (day(text) || Timestamp::parse(text).is_some())
}

/// True if a plain scalar would be read as YAML syntax in this position.
fn has_indicators(text: &str) -> bool {
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    let letters: Vec<char> = text.chars().collect();
    letters.iter().enumerate().any(|(at, letter)| {
        let blank_after = letters
            .get(at + 1)
            .is_none_or(|next| " \n\t".contains(*next));
        match letter {
            ':' => blank_after,
            '-' | '?' if at == 0 => blank_after,
            '#' if at > 0 => letters[at - 1] == ' ',
            letter => at == 0 && BEGINNINGS.contains(*letter),
        }
    })
}

/// Writes a string on one line, or folded at the indent if there is one.
fn write(out: &mut String, text: &str, style: Style, indent: Option<usize>) {
    let quote = match style {
        Style::Single => "'",
        Style::Double => "\"",
        Style::Plain | Style::Literal => "",
    };
    out.push_str(quote);
    let mut column = out.chars().rev().take_while(|c| *c != '\n').count();
    let mut after_space = false;
    let mut letters = text.chars().enumerate().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        let inside = style == Style::Plain || (at > 0 && next.is_some());
        if let (' ', Some(indent)) = (letter, indent)
            && inside
            && !after_space
            && column > WIDTH
            && (next != Some(' ') || style == Style::Double)
        {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
            if next == Some(' ') {
                out.push('\\');
                column += 1;
            }
            after_space = true;
            continue;
        }
        after_space = letter == ' ';
        let before = out.len();
        match (style, letter) {
            (Style::Single, '\'') => out.push_str("''"),
            (Style::Double, letter) => escape(out, letter),
            (_, letter) => out.push(letter),
        }
        column += out[before..].chars().count();
    }
    out.push_str(quote);
}

fn escape(out: &mut String, letter: char) {
    let short = match letter {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\n' => "\\n",
        '\t' => "\\t",
        '\r' => "\\r",
        '\0' => "\\0",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{b}' => "\\v",
        '\u{c}' => "\\f",
        '\u{1b}' => "\\e",
        '\u{85}' => "\\N",
        '\u{2028}' => "\\L",
        '\u{2029}' => "\\P",
        _ => "",
    };
    let code = u32::from(letter);
    if !short.is_empty() {
        out.push_str(short);
    } else if letter.is_control() {
        out.push_str(&format!("\\x{code:02X}"));
    } else if letter == '\u{feff}' || ('\u{e000}'..'\u{f900}').contains(&letter) {
        out.push_str(&format!("\\u{code:04X}"));
    } else {
        out.push(letter);
    }
}

/// Writes a literal block.
fn literal(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    let body = text.strip_suffix('\n');
    match body {
        None => out.push('-'),
        Some(body) if body.is_empty() || body.ends_with('\n') => out.push('+'),
        Some(_) => {}
    }
    out.push('\n');
    for line in body.unwrap_or(text).split('\n') {
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
        out.push('\n');
    }
}
