//! The paths of printer columns: the part of Kubernetes' JSONPath that leads to one value.

use serde_json::Value;

/// A path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// `.key` or `['key']`.
    Key(String),
    /// `[0]`; negative numbers count from the end.
    Index(i64),
    /// `[*]`.
    All,
    /// `[?(@.key=="value")]`: the items in which a key has this text.
    Matching(Vec<String>, String),
}

impl JsonPath {
    /// Reads a path; the error says what cannot be read.
    pub(crate) fn parse(text: &str) -> Result<JsonPath, String> {
        let inner = text.trim();
        let inner = inner
            .strip_prefix('{')
            .map_or(inner, |inner| inner.strip_suffix('}').unwrap_or(inner));
        let mut rest = inner.strip_prefix('$').unwrap_or(inner);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, more) = step(rest).ok_or_else(|| {
                format!("{text:?} is not a path to one value: cannot read {rest:?}")
            })?;
            steps.push(step);
            rest = more;
        }
        if steps.is_empty() {
            return Err(format!("{text:?} is not a path to one value"));
        }
        Ok(JsonPath(steps))
    }

    /// The first value that the path leads to.
    pub(crate) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        first(&self.0, object)
    }
}

fn first<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match step {
        Step::Key(key) => first(rest, value.get(key)?),
        Step::Index(at) => {
            let list = value.as_array()?;
            let at = match usize::try_from(*at) {
                Ok(at) => at,
                Err(_) => list
                    .len()
                    .checked_sub(usize::try_from(at.unsigned_abs()).ok()?)?,
            };
            first(rest, list.get(at)?)
        }
        Step::All => value.as_array()?.iter().find_map(|item| first(rest, item)),
        Step::Matching(path, text) => {
            let mut items = value.as_array()?.iter();
            items.find_map(|item| {
                let found = path.iter().try_fold(item, |item, key| item.get(key));
                let matches = found.and_then(Value::as_str) == Some(text.as_str());
                matches.then(|| first(rest, item)).flatten()
            })
        }
    }
}

/// The first step and what follows it.
fn step(text: &str) -> Option<(Step, &str)> {
    if let Some(rest) = text.strip_prefix('.') {
        let (key, rest) = key(rest)?;
        return Some((Step::Key(key), rest));
    }
    let rest = text.strip_prefix('[')?;
    if let Some(filter) = rest.strip_prefix("?(@") {
        let (filter, rest) = filter.split_once(")]")?;
        let (path, value) = filter.split_once("==")?;
        let value = unquoted(value.trim())?;
        let mut keys = Vec::new();
        let mut path = path.trim();
        while !path.is_empty() {
            let (one, more) = key(path.strip_prefix('.')?)?;
            keys.push(one);
            path = more;
        }
        return Some((Step::Matching(keys, value.to_owned()), rest));
    }
    let (inside, rest) = rest.split_once(']')?;
    let step = match inside {
        "*" => Step::All,
        inside => match (unquoted(inside), inside.parse()) {
            (Some(key), _) => Step::Key(key.to_owned()),
            (None, at) => Step::Index(at.ok()?),
        },
    };
    Some((step, rest))
}

/// A key and what follows it; a backslash takes the meaning of the character behind it.
fn key(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => key.push(letters.next()?.1),
            '.' | '[' if !key.is_empty() => return Some((key, &text[at..])),
            '.' | '[' | ']' | '*' | '(' | ')' | '?' | '@' | ' ' => return None,
            letter => key.push(letter),
        }
    }
    (!key.is_empty()).then_some((key, ""))
}

fn unquoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| ['"', '\''].contains(c))?;
    text.strip_prefix(quote)?.strip_suffix(quote)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_the_first_value() {
        let object = json!({
            "metadata": {"annotations": {"example.com/a": "noted"}},
            "status": {"list": [{"n": 1}, {"n": 2, "m": 3}], "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Done", "status": "False"},
            ]},
        });
        for (path, value) in [
            (".status.list[0].n", Some(json!(1))),
            ("{.status.list[-1].n}", Some(json!(2))),
            ("$.status.list[*].m", Some(json!(3))),
            (".status.list[2].n", None),
            (".status.none.n", None),
            (
                ".metadata.annotations.example\\.com/a",
                Some(json!("noted")),
            ),
            (
                ".metadata.annotations['example.com/a']",
                Some(json!("noted")),
            ),
            (
                ".status.conditions[?(@.type==\"Done\")].status",
                Some(json!("False")),
            ),
            (".status.conditions[?(@.type=='Gone')].status", None),
        ] {
            let parsed = JsonPath::parse(path).unwrap();
            assert_eq!(parsed.first(&object).cloned(), value, "{path}");
        }
    }

    #[test]
    fn what_leads_to_no_one_value_is_refused() {
        for path in [
            "",
            "status",
            "..status",
            ".a[",
            ".a[1:2]",
            ".a[?(@.b>1)]",
            ".a b",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
