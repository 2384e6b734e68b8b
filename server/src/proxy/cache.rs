//! Answers to ranges, for clients that are content with what some member has (serializable reads).
//!
//! Writes through this proxy remove the answers that they make wrong. Writes that go elsewhere do
//! not, so a key that is read here may be old for as long as nobody writes it through this proxy:
//! that is etcd's bargain, too. Unlike etcd's, this cache has no part in a cluster with users, whose
//! rights only members know, and shows no answer that is older than a write that was acknowledged here.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;

use bytes::Bytes;
use etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use prost::Message;

/// Answers kept, as in etcd.
const ENTRIES_MAX: usize = 2048;

/// Bytes of all answers; more make the oldest ones go.
const BYTES_MAX: usize = 64 << 20;

/// Each range that is touched is compared with all that are known: when more are touched, all is
/// forgotten.
const TOUCHED_MAX: usize = 512;

/// The end of a range without an end.
const NO_END: &[u8] = &[0];

/// What is asked.
pub(super) type Question = Vec<u8>;

/// What is known of a question.
#[derive(Debug, PartialEq)]
pub(super) enum Known {
    Answer(RangeResponse),
    /// The revision asked for is gone.
    Compacted,
    Nothing,
}

#[derive(Debug)]
pub(super) struct Cache {
    entries: HashMap<Question, Entry>,
    /// Questions by their last use.
    uses: BTreeMap<u64, Question>,
    next_use: u64,
    bytes: usize,
    /// Questions about the present state of one key.
    keys: BTreeMap<Bytes, HashSet<Question>>,
    /// Questions about the present state of several.
    ranges: HashMap<(Bytes, Bytes), HashSet<Question>>,
    compacted: i64,
    /// The newest revision that a write through this proxy was acknowledged with.
    written: i64,
}

#[derive(Debug)]
struct Entry {
    answer: RangeResponse,
    used: u64,
    bytes: usize,
    /// Key and end of a question about the present state.
    range: Option<(Bytes, Bytes)>,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache {
            entries: HashMap::new(),
            uses: BTreeMap::new(),
            next_use: 0,
            bytes: 0,
            keys: BTreeMap::new(),
            ranges: HashMap::new(),
            compacted: -1,
            written: 0,
        }
    }
}

/// The question of a request, whatever consistency it asks for.
pub(super) fn question(request: &RangeRequest) -> Question {
    let request = RangeRequest {
        serializable: true,
        ..request.clone()
    };
    request.encode_to_vec()
}

/// The store's revision when a member gave this answer.
fn revision_of(answer: &RangeResponse) -> i64 {
    let header = answer.header.as_ref();
    header.map_or(0, |header| header.revision)
}

impl Cache {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets all answers, but not what answers have to be like.
    pub(super) fn clear(&mut self) {
        *self = Cache {
            next_use: self.next_use,
            compacted: self.compacted,
            written: self.written,
            ..Cache::default()
        };
    }

    /// What is known since the revision `least`, of a question about `revision`.
    pub(super) fn get(&mut self, question: &Question, revision: i64, least: i64) -> Known {
        if revision > 0 && revision < self.compacted {
            self.remove(question);
            return Known::Compacted;
        }
        let Some(entry) = self.entries.get_mut(question) else {
            return Known::Nothing;
        };
        if revision_of(&entry.answer) < least {
            return Known::Nothing;
        }
        let now = self.next_use;
        self.next_use += 1;
        if let Some(question) = self.uses.remove(&entry.used) {
            self.uses.insert(now, question);
        }
        entry.used = now;
        Known::Answer(entry.answer.clone())
    }

    /// Keeps an answer, unless it may be older than what a client has seen acknowledged.
    pub(super) fn add(&mut self, question: Question, asked: &RangeRequest, answer: &RangeResponse) {
        let now = revision_of(answer);
        if asked.revision <= self.compacted.max(0) && asked.revision > 0 || now < self.written {
            return;
        }
        let bytes = question.len() + answer.encoded_len();
        if bytes > BYTES_MAX {
            return;
        }
        self.remove(&question);
        let range = (asked.revision <= 0).then(|| (asked.key.clone(), asked.range_end.clone()));
        if let Some((key, end)) = &range {
            let questions = if end.is_empty() {
                self.keys.entry(key.clone()).or_default()
            } else {
                self.ranges.entry((key.clone(), end.clone())).or_default()
            };
            questions.insert(question.clone());
        }
        self.uses.insert(self.next_use, question.clone());
        let entry = Entry {
            answer: answer.clone(),
            used: self.next_use,
            bytes,
            range,
        };
        self.next_use += 1;
        self.bytes += bytes;
        self.entries.insert(question, entry);
        while self.entries.len() > ENTRIES_MAX || self.bytes > BYTES_MAX {
            let Some((_, oldest)) = self.uses.pop_first() else {
                return;
            };
            self.remove(&oldest);
        }
    }

    /// Removes what is known of these ranges; perhaps more than that.
    pub(super) fn forget_all(&mut self, touched: &[(Bytes, Bytes)]) {
        if touched.len() > TOUCHED_MAX {
            self.clear();
        }
        for (key, end) in touched {
            if self.entries.is_empty() {
                return;
            }
            self.forget(key, end);
        }
    }

    /// Removes what is known of the keys from `key` to `end`, or of `key` alone if `end` is empty.
    pub(super) fn forget(&mut self, key: &[u8], end: &[u8]) {
        let mut gone: Vec<Question> = Vec::new();
        if end.is_empty() {
            gone.extend(self.keys.get(key).into_iter().flatten().cloned());
        } else {
            let upper = match end {
                NO_END => Bound::Unbounded,
                end => Bound::Excluded(end),
            };
            // A range that ends before it begins has no keys.
            if end == NO_END || key < end {
                let keys = self.keys.range::<[u8], _>((Bound::Included(key), upper));
                gone.extend(keys.flat_map(|(_, questions)| questions).cloned());
            }
        }
        let overlaps = |(start, until): &(Bytes, Bytes)| {
            let ends_before = |end: &[u8], start: &[u8]| end != NO_END && end <= start;
            let is_behind = if end.is_empty() {
                key < &start[..]
            } else {
                ends_before(end, start)
            };
            !is_behind && !ends_before(until, key)
        };
        let ranges = self.ranges.iter().filter(|(range, _)| overlaps(range));
        gone.extend(ranges.flat_map(|(_, questions)| questions).cloned());
        for question in gone {
            self.remove(&question);
        }
    }

    /// A write was acknowledged at this revision.
    pub(super) fn written_at(&mut self, revision: i64) {
        self.written = self.written.max(revision);
    }

    /// Older revisions cannot be read any more.
    pub(super) fn compact(&mut self, revision: i64) {
        self.compacted = self.compacted.max(revision);
    }

    fn remove(&mut self, question: &Question) {
        let Some(entry) = self.entries.remove(question) else {
            return;
        };
        self.uses.remove(&entry.used);
        self.bytes -= entry.bytes;
        match entry.range {
            Some((key, end)) if end.is_empty() => {
                if let Some(questions) = self.keys.get_mut(&key) {
                    questions.remove(question);
                    if questions.is_empty() {
                        self.keys.remove(&key);
                    }
                }
            }
            Some(range) => {
                if let Some(questions) = self.ranges.get_mut(&range) {
                    questions.remove(question);
                    if questions.is_empty() {
                        self.ranges.remove(&range);
                    }
                }
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
