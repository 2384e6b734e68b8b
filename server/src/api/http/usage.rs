//! Storage use by key prefix, for metrics. Takes a bounded number of steps over the key tree,
//! however many keys there are. The numbers are exact and add up to all keys.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use storage::mvcc::{End, KeyRange, Root, Usage, Want};

use crate::telemetry::prefix;

/// Prefixes with a series of their own: those with the most bytes.
const SHOWN_MAX: usize = 64;

/// Steps per scrape. Keys after the last step are counted as `other`.
const STEPS_MAX: usize = 512;

/// After this many keys in a row without a complete prefix, all remaining keys with the same
/// partial prefix are counted at once: there may be millions, and no step can skip just those.
const SHORT_KEYS_MAX: usize = 8;

pub(super) fn by_prefix(root: &Root) -> storage::Result<Vec<(String, Usage)>> {
    let mut walk = Walk::default();
    while walk.steps < STEPS_MAX && walk.step(root)? {}
    let mut rest = root.usage(KeyRange::ALL)?;
    let mut found: Vec<(Vec<u8>, Usage)> = walk.found.into_iter().collect();
    found.sort_by_key(|(_, usage)| std::cmp::Reverse(usage.bytes));
    found.truncate(SHOWN_MAX);
    for (_, usage) in &found {
        rest.keys -= usage.keys;
        rest.bytes -= usage.bytes;
    }
    let named = found
        .iter()
        .map(|(name, usage)| (prefix::shown(name), *usage));
    Ok(named.chain([("other".to_owned(), rest)]).collect())
}

#[derive(Default)]
struct Walk {
    found: BTreeMap<Vec<u8>, Usage>,
    /// All keys before this one are counted or skipped.
    from: Vec<u8>,
    steps: usize,
    /// Keys in a row without a complete prefix.
    short: usize,
}

impl Walk {
    /// Returns `false` at the end of the walk.
    fn step(&mut self, root: &Root) -> storage::Result<bool> {
        self.steps += 1;
        let Some(key) = first_from(root, &self.from)? else {
            return Ok(false);
        };
        let prefix = prefix::of(&key);
        let is_whole = prefix::is_whole(prefix);
        self.short = if is_whole { 0 } else { self.short + 1 };
        let is_alone = !is_whole && self.short <= SHORT_KEYS_MAX;
        let end = if is_alone {
            [&key, &[0][..]].concat()
        } else {
            prefix::end(prefix)
        };
        if !prefix.is_empty() {
            let range = KeyRange {
                start: &key,
                end: if end.is_empty() {
                    End::Unbounded
                } else {
                    End::Before(&end)
                },
            };
            let usage = root.usage(range)?;
            let sum = self.found.entry(prefix.to_vec()).or_default();
            sum.keys += usage.keys;
            sum.bytes += usage.bytes;
        }
        self.from = end;
        Ok(!self.from.is_empty())
    }
}

/// The first live key at or after `from`.
fn first_from(root: &Root, from: &[u8]) -> storage::Result<Option<Vec<u8>>> {
    let range = KeyRange {
        start: from,
        end: End::Unbounded,
    };
    let mut first = None;
    root.range(range, 0, Want::KeysOnly, &mut |item| {
        first = Some(item.key.to_vec());
        ControlFlow::Break(())
    })?;
    Ok(first)
}
