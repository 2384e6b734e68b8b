//! Checks linearizability: every operation seems to happen at one moment between its call and its
//! return. Searches for such an order by the method of Wing and Gong, with Lowe's cache of visited
//! states, as Porcupine does; one search per partition of keys. A separate rule needs no search:
//! revisions follow real time.

use std::collections::BTreeSet;

use crate::history::{Key, Operation, Outcome, Record, Step, Value};

/// Steps of one search; after that it is undecided. A search that finds an order takes few more
/// steps than there are operations.
const STEPS_MAX: usize = 400_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub operations: usize,
    pub undecided: usize,
}

/// Checks the whole history of a run.
pub fn judge(history: &[Record]) -> Result<Figures, String> {
    revisions_follow_time(history)?;
    let mut figures = Figures::default();
    let partitions: BTreeSet<usize> = history.iter().map(|record| record.partition).collect();
    for partition in partitions {
        let records: Vec<&Record> = history
            .iter()
            .filter(|record| record.partition == partition)
            .collect();
        figures.operations += records.len();
        match Search::new(&records).run() {
            Found::Order => {}
            Found::None(longest) => return Err(describe(partition, &records, &longest)),
            Found::TooMuch => figures.undecided += 1,
        }
    }
    Ok(figures)
}

/// An operation called after an answer came sees at least that answer's revision; one that changes
/// something sees a later revision.
fn revisions_follow_time(history: &[Record]) -> Result<(), String> {
    let answered = |record: &&Record| record.revision.is_some() && record.outcome.is_some();
    let mut by_call: Vec<&Record> = history.iter().filter(answered).collect();
    let mut by_return = by_call.clone();
    by_call.sort_by_key(|record| record.called_at);
    by_return.sort_by_key(|record| record.returned_at);
    let mut returned = by_return.into_iter().peekable();
    let mut newest: Option<&Record> = None;
    for record in by_call {
        while let Some(earlier) = returned.next_if(|other| other.returned_at < record.called_at) {
            if newest.is_none_or(|newest| newest.revision < earlier.revision) {
                newest = Some(earlier);
            }
        }
        if let Some(newest) = newest
            && record.revision < newest.revision
        {
            return Err(format!(
                "an answer has an older revision than one that came before it was asked for: \
                 {record:?} after {newest:?}"
            ));
        }
    }
    Ok(())
}

fn describe(partition: usize, records: &[&Record], longest: &[usize]) -> String {
    let mut text =
        format!("partition {partition}: no order explains the answers. The longest found:");
    for id in longest.iter().rev().take(12).rev() {
        text += &format!("\n    {}", tell(records[*id]));
    }
    text += "\n  and then none of these fits:";
    let mut rest: Vec<&&Record> = (0..records.len())
        .filter(|id| !longest.contains(id))
        .map(|id| &records[id])
        .collect();
    rest.sort_by_key(|record| record.called_at);
    for record in rest.into_iter().take(6) {
        text += &format!("\n    {}", tell(record));
    }
    text
}

fn tell(record: &Record) -> String {
    let Operation {
        when,
        then,
        otherwise,
    } = &record.operation;
    let micros = |nanos: u64| nanos / 1000;
    let outcome = match &record.outcome {
        Some(outcome) => format!("{outcome:?}"),
        None => "unknown".to_owned(),
    };
    format!(
        "client {} from {} to {} us at revision {:?}: when {when:?} then {then:?} else {otherwise:?}: {outcome}",
        record.client,
        micros(record.called_at),
        micros(record.returned_at),
        record.revision,
    )
}

enum Found {
    Order,
    /// The longest beginning of an order that was found.
    None(Vec<usize>),
    TooMuch,
}

/// Calls and returns in a doubly linked list, in time order: nodes `0..n` are calls, `n..2n`
/// returns, `2n` is the head and the end.
struct Search<'a> {
    records: &'a [&'a Record],
    next: Vec<usize>,
    previous: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(records: &'a [&'a Record]) -> Search<'a> {
        let count = records.len();
        let mut nodes: Vec<usize> = (0..2 * count).collect();
        // A return at the very moment of another operation's call may still come after it.
        nodes.sort_by_key(|node| {
            if *node < count {
                (records[*node].called_at, 0, *node)
            } else {
                (records[*node - count].returned_at, 1, *node)
            }
        });
        let head = 2 * count;
        let (mut next, mut previous) = (vec![head; head + 1], vec![head; head + 1]);
        let mut last = head;
        for node in nodes {
            next[last] = node;
            previous[node] = last;
            last = node;
        }
        next[last] = head;
        previous[head] = last;
        Search {
            records,
            next,
            previous,
        }
    }

    fn run(mut self) -> Found {
        let count = self.records.len();
        let head = 2 * count;
        let mut done = Done(vec![0; count.div_ceil(64)]);
        let mut state = State::default();
        // The operations ordered so far, each with the state before it.
        let mut order: Vec<(usize, State)> = Vec::new();
        let mut longest: Vec<usize> = Vec::new();
        let mut met = BTreeSet::new();
        let mut unreturned = self.returning();
        let mut at = self.next[head];
        for _ in 0..STEPS_MAX {
            if unreturned == 0 {
                return Found::Order;
            }
            if at < count {
                let record = self.records[at];
                if let Some(after) = state.after(&record.operation, record.outcome.as_ref()) {
                    done.flip(at);
                    if met.insert((done.clone(), after.clone())) {
                        order.push((at, std::mem::replace(&mut state, after)));
                        unreturned -= usize::from(record.returned_at != u64::MAX);
                        self.lift(at);
                        self.lift(at + count);
                        at = self.next[head];
                        continue;
                    }
                    done.flip(at);
                }
                at = self.next[at];
                continue;
            }
            // A return whose call found no place before it, or the end: backtrack.
            if order.len() > longest.len() {
                longest = order.iter().map(|(id, _)| *id).collect();
            }
            let Some((id, before)) = order.pop() else {
                return Found::None(longest);
            };
            state = before;
            done.flip(id);
            unreturned += usize::from(self.records[id].returned_at != u64::MAX);
            self.put_back(id + count);
            self.put_back(id);
            at = self.next[id];
        }
        Found::TooMuch
    }

    fn returning(&self) -> usize {
        let returns = |record: &&&Record| record.returned_at != u64::MAX;
        self.records.iter().filter(returns).count()
    }

    fn lift(&mut self, node: usize) {
        self.next[self.previous[node]] = self.next[node];
        self.previous[self.next[node]] = self.previous[node];
    }

    fn put_back(&mut self, node: usize) {
        self.next[self.previous[node]] = node;
        self.previous[self.next[node]] = node;
    }
}

/// The operations that have their place, one bit each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Done(Vec<u64>);

impl Done {
    fn flip(&mut self, id: usize) {
        self.0[id / 64] ^= 1 << (id % 64);
    }
}

/// The values of a partition's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State(Vec<Value>);

impl State {
    fn value(&self, key: Key) -> Value {
        self.0.get(key).copied().unwrap_or(0)
    }

    fn set(&mut self, key: Key, value: Value) {
        if self.0.len() <= key {
            self.0.resize(key + 1, 0);
        }
        self.0[key] = value;
    }

    /// The state after `operation`, if it could give that answer here.
    fn after(&self, operation: &Operation, answer: Option<&Outcome>) -> Option<State> {
        let holds = |(key, value): &(Key, Value)| self.value(*key) == *value;
        let succeeded = operation.when.iter().all(holds);
        if answer.is_some_and(|answer| answer.succeeded != succeeded) {
            return None;
        }
        let steps = if succeeded {
            &operation.then
        } else {
            &operation.otherwise
        };
        let mut after = self.clone();
        for (place, step) in steps.iter().enumerate() {
            let result = match *step {
                Step::Get(key) => after.value(key),
                Step::Put(key, value) => {
                    after.set(key, value);
                    0
                }
                Step::Delete(key) => {
                    let was = after.value(key);
                    after.set(key, 0);
                    Value::from(was != 0)
                }
            };
            if answer.is_some_and(|answer| answer.results.get(place) != Some(&result)) {
                return None;
            }
        }
        Some(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(step: Step, called_at: u64, returned_at: u64, result: Option<Value>) -> Record {
        Record {
            client: 0,
            partition: 0,
            operation: Operation::of(step),
            called_at,
            returned_at,
            outcome: result.map(|result| Outcome {
                succeeded: true,
                results: vec![result],
            }),
            revision: None,
        }
    }

    #[test]
    fn a_read_sees_what_was_written_before_it_or_beside_it() {
        let history = [
            record(Step::Put(0, 1), 0, 10, Some(0)),
            record(Step::Put(0, 2), 20, 40, Some(0)),
            record(Step::Get(0), 25, 30, Some(1)),
            record(Step::Get(0), 31, 35, Some(2)),
        ];
        assert!(judge(&history).is_ok());
    }

    #[test]
    fn a_read_of_what_was_overwritten_before_it_is_noticed() {
        let history = [
            record(Step::Put(0, 1), 0, 10, Some(0)),
            record(Step::Put(0, 2), 20, 30, Some(0)),
            record(Step::Get(0), 31, 40, Some(1)),
        ];
        assert!(judge(&history).is_err());
    }

    #[test]
    fn a_write_nobody_heard_of_may_show_late_but_not_go_again() {
        let lost = record(Step::Put(0, 9), 0, u64::MAX, None);
        let seen = [
            lost.clone(),
            record(Step::Get(0), 10, 20, Some(0)),
            record(Step::Get(0), 30, 40, Some(9)),
        ];
        assert!(judge(&seen).is_ok());
        let gone = [
            lost,
            record(Step::Get(0), 10, 20, Some(9)),
            record(Step::Get(0), 30, 40, Some(0)),
        ];
        assert!(judge(&gone).is_err());
    }

    #[test]
    fn revisions_do_not_go_back_across_keys() {
        let mut first = record(Step::Put(0, 1), 0, 10, Some(0));
        first.revision = Some(7);
        let mut second = record(Step::Get(1), 11, 20, Some(0));
        second.partition = 1;
        second.revision = Some(6);
        assert!(judge(&[first, second]).is_err());
    }
}
