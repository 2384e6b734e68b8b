//! Regular expressions.

use super::super::value::{Value, Why};
use crate::values::pattern::{PATTERN_BYTES_MAX, Pattern, Patterns};

/// Upper bound of the patterns that an evaluation keeps, in bytes. It has room for a largest one.
const MET_BYTES_MAX: usize = 16 << 20;
/// The bytes of a compiled pattern that Kubernetes' costs account for.
const ORDINARY_BYTES: usize = 16 << 10;
/// The bytes of a compiled pattern for one more unit of cost.
const BYTES_PER_COST: usize = 16;

/// The patterns that an evaluation meets in values. A short text can be a pattern that takes
/// megabytes, which Kubernetes' costs do not show.
#[derive(Debug)]
pub(in super::super) struct Met {
    patterns: Patterns,
    cost: u64,
}

impl Default for Met {
    fn default() -> Met {
        Met {
            patterns: Patterns::within(MET_BYTES_MAX),
            cost: 0,
        }
    }
}

impl Met {
    /// What was compiled since the last time, as far as it was out of the ordinary.
    pub(in super::super) fn take_cost(&mut self) -> u64 {
        std::mem::take(&mut self.cost)
    }

    fn compile(&mut self, text: &str) -> Result<Pattern, Why> {
        if let Some(known) = self.patterns.get(text) {
            return Ok(known.clone());
        }
        if self.patterns.left() < PATTERN_BYTES_MAX {
            self.patterns = Patterns::within(MET_BYTES_MAX);
        }
        let before = self.patterns.left();
        let compiled = self.patterns.compile(text);
        let bytes = before - self.patterns.left();
        let extra = bytes.saturating_sub(ORDINARY_BYTES) / BYTES_PER_COST;
        self.cost = self.cost.saturating_add(extra as u64);
        compiled
    }
}

pub(super) fn call<'a>(
    function: &str,
    arguments: &[Value<'a>],
    patterns: &Patterns,
    met: &mut Met,
) -> Option<Result<Value<'a>, Why>> {
    let (text, pattern, count) = match (function, arguments) {
        ("matches" | "find" | "findAll", [Value::String(text), Value::String(pattern)]) => {
            (text, pattern, -1)
        }
        (
            "findAll",
            [
                Value::String(text),
                Value::String(pattern),
                Value::Int(count),
            ],
        ) => (text, pattern, *count),
        _ => return None,
    };
    let pattern = match patterns.get(pattern) {
        Some(pattern) => pattern.clone(),
        None => match met.compile(pattern) {
            Ok(pattern) => pattern,
            Err(why) if function == "matches" => return Some(Err(why)),
            Err(why) => return Some(Err(format!("Illegal regex: {why}"))),
        },
    };
    Some(Ok(match function {
        "matches" => Value::Bool(pattern.matches(text)),
        "find" => Value::text(pattern.find_all(text).next().unwrap_or_default()),
        _ => {
            let limit = usize::try_from(count).unwrap_or(usize::MAX);
            let found = pattern.find_all(text).take(limit);
            Value::list(found.map(Value::text).collect())
        }
    }))
}
