//! A short text that a pattern of a schema matches.

use std::iter::Peekable;
use std::str::Chars;

/// Characters to prefer, in this order.
const NICE: [char; 8] = ['a', '1', 'A', '-', '/', '.', ':', 'x'];

/// A text of at least `min` characters, if repetitions in the pattern can make it that long.
pub(super) fn matching(pattern: &str, min: usize) -> String {
    let texts = (0..=min).map(|extra| {
        let rest = pattern.chars().peekable();
        Sampler { rest, extra }.choice()
    });
    let mut texts = texts.peekable();
    let shortest = texts.peek().cloned().unwrap_or_default();
    texts
        .find(|text| text.chars().count() >= min)
        .unwrap_or(shortest)
}

/// Reads a pattern once; at each place it takes the first possibility.
struct Sampler<'a> {
    rest: Peekable<Chars<'a>>,
    /// Additional turns of repetitions without an upper bound.
    extra: usize,
}

impl Sampler<'_> {
    /// The first alternative that is not empty; reads up to the end of the group.
    fn choice(&mut self) -> String {
        let mut chosen = String::new();
        loop {
            let text = self.sequence();
            if chosen.is_empty() {
                chosen = text;
            }
            if self.rest.next_if_eq(&'|').is_none() {
                return chosen;
            }
        }
    }

    fn sequence(&mut self) -> String {
        let mut out = String::new();
        while let Some(c) = self.rest.next_if(|c| !['|', ')'].contains(c)) {
            let part = match c {
                '^' | '$' => continue,
                '(' => self.group(),
                '[' => self.class().to_string(),
                '\\' => self.escape().to_string(),
                '.' => NICE[0].to_string(),
                c => c.to_string(),
            };
            out += &part.repeat(self.times());
        }
        out
    }

    fn group(&mut self) -> String {
        if self.rest.next_if_eq(&'?').is_some() {
            // The flags or the name of the group.
            while self
                .rest
                .next_if(|c| ![':', '>', ')'].contains(c))
                .is_some()
            {}
            self.rest.next_if(|c| *c != ')');
        }
        let text = self.choice();
        self.rest.next();
        text
    }

    fn escape(&mut self) -> char {
        match self.rest.next() {
            Some('d') => '1',
            Some('w' | 'S' | 'D') => 'a',
            Some('s' | 'W') => ' ',
            Some('n') => '\n',
            Some('t') => '\t',
            other => other.unwrap_or('\\'),
        }
    }

    /// A character of a class.
    fn class(&mut self) -> char {
        let negated = self.rest.next_if_eq(&'^').is_some();
        let mut ranges: Vec<(char, char)> = Vec::new();
        while let Some(c) = self.rest.next() {
            let from = match c {
                ']' if !ranges.is_empty() => break,
                '[' if self.rest.peek() == Some(&':') => {
                    let name: String = self.rest.by_ref().take_while(|c| *c != ']').collect();
                    if name == ":digit:" { '1' } else { 'a' }
                }
                '\\' => self.escape(),
                c => c,
            };
            let mut ahead = self.rest.clone();
            let is_range = ahead.next() == Some('-') && ahead.next() != Some(']');
            if is_range {
                self.rest.next();
                let to = match self.rest.next() {
                    Some('\\') => self.escape(),
                    to => to.unwrap_or(from),
                };
                ranges.push((from, to));
            } else {
                ranges.push((from, from));
            }
        }
        let within = |c: &char| ranges.iter().any(|(from, to)| (from..=to).contains(&c));
        let first = ranges.first().map_or('a', |(from, _)| *from);
        let nice = NICE.into_iter().find(|c| within(c) != negated);
        nice.unwrap_or(first)
    }

    /// How often the part before a quantifier is repeated.
    fn times(&mut self) -> usize {
        let times = match self.rest.peek() {
            Some('*') => self.extra,
            Some('+') => 1 + self.extra,
            Some('?') => 0,
            Some('{') => return self.counted(),
            _ => return 1,
        };
        self.rest.next();
        self.rest.next_if_eq(&'?');
        times
    }

    fn counted(&mut self) -> usize {
        self.rest.next();
        let text: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
        let number = |text: &str| text.parse::<usize>().ok();
        match text.split_once(',') {
            Some((least, most)) => {
                let least = number(least).unwrap_or_default();
                (least + self.extra).min(number(most).unwrap_or(usize::MAX))
            }
            None => number(&text).unwrap_or(1),
        }
    }
}

#[test]
fn patterns_of_schemas_get_a_text() {
    for (pattern, min, text) in [
        ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 1, "a"),
        (r"^$|^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", 0, "a"),
        ("^([0-9]{1,5}(h|m|s|ms)){1,4}$", 0, "1h"),
        (r"^\d+\.[^/]+(?:x|y)$", 0, "1.ax"),
        ("^[A-F]{2,}$", 4, "AAAA"),
    ] {
        assert_eq!(matching(pattern, min), text, "{pattern}");
    }
}
