//! What is applied is a prefix of what is agreed on, and what is saved of it a prefix of what is
//! durable: every member gets the same entry at the same index, each index once and in order, none
//! that its own disk was not given; a checkpoint holds none that its own disk could still lose; and
//! a start finds on the disk all that the member was told to be there.

use std::collections::BTreeMap;

use raft::wire::decode_conf_change;
use raft::{ConfChangeKind, Entry, EntryKind, Index, NodeId, Recovered, Term};
use storage::mvcc::Applied;

use super::Verdict;
use crate::digest;
use crate::host::shadow::{Log, Shadow};

#[derive(Debug, Default)]
pub struct DurablePrefix {
    /// What was agreed on, by index.
    chosen: BTreeMap<Index, (Term, u64)>,
    /// Whom an entry of these removes.
    removals: BTreeMap<Index, NodeId>,
    /// The member that goes on alone.
    survivor: Option<NodeId>,
    /// By host: the newest entry handed out for applying.
    handed_out: Vec<Index>,
}

impl DurablePrefix {
    pub fn new(hosts: usize) -> DurablePrefix {
        DurablePrefix {
            handed_out: vec![0; hosts],
            ..DurablePrefix::default()
        }
    }

    pub fn add_host(&mut self) {
        self.handed_out.push(0);
    }

    /// `host` hands `entry` to its state machine.
    pub fn hands_out(&mut self, host: usize, entry: &Entry, shadow: &Shadow) -> Verdict {
        let (index, term) = (entry.index, entry.term);
        let before = self.handed_out[host];
        if index != before + 1 {
            return Err(format!("host {host} applies {index} after {before}"));
        }
        self.handed_out[host] = index;
        let is = (term, digest::of_entry(entry));
        let chosen = *self.chosen.entry(index).or_insert(is);
        if chosen != is {
            if !self.made_way(entry) {
                return Err(format!(
                    "host {host} applies an entry of term {term} at {index}, others one of term {}",
                    chosen.0
                ));
            }
            self.chosen.insert(index, is);
        }
        if entry.kind != EntryKind::Normal
            && let Ok(change) = decode_conf_change(&entry.data)
            && change.kind == ConfChangeKind::RemoveNode
        {
            self.removals.insert(index, change.node);
        }
        let given = shadow.newest.entry(index);
        if index > shadow.newest.base.index && given != Some(is) {
            return Err(format!(
                "host {host} applies {index} of term {term}, its disk was given {given:?}"
            ));
        }
        Ok(())
    }

    /// The member goes on with `--force-new-cluster`.
    pub fn survives(&mut self, member: NodeId) {
        self.survivor = Some(member);
    }

    /// The survivor has an empty entry in the place of its own removal, unless its disk says that
    /// this is committed. If it was handed out, it was refused, as that of a last voter is.
    fn made_way(&self, entry: &Entry) -> bool {
        let removed = self.removals.get(&entry.index);
        let is_empty = entry.kind == EntryKind::Normal && entry.data.is_empty();
        is_empty && removed.is_some() && removed == self.survivor.as_ref()
    }

    /// A checkpoint of the store of `host` is about to be written.
    pub fn saves(&self, host: usize, applied: Applied, shadow: &Shadow) -> Verdict {
        let Applied { term, index } = applied;
        let log = &shadow.durable;
        let is_there = index <= log.base.index || log.term_at(index) == Some(term);
        // A state of another member is durable by itself. The log hears of it later.
        let is_installed = shadow.installing().is_some_and(|at| at.index == index);
        if is_there || is_installed {
            return Ok(());
        }
        Err(format!(
            "host {host} saves what it applied through {index} of term {term}, its log is only sure to keep {}",
            log.last()
        ))
    }

    /// The state machine of `host` became what it is at `index`, in one step.
    pub fn installed(&mut self, host: usize, index: Index) {
        self.handed_out[host] = index;
    }

    /// `host` starts with what its disk holds. The log as it is now, for the shadow.
    pub fn starts(
        &mut self,
        host: usize,
        found: &Recovered,
        shadow: &Shadow,
    ) -> Result<Log, String> {
        self.handed_out[host] = found.applied;
        let mut log = None;
        shadow.survivors(|survivor| {
            if log.is_none() && is(survivor, found) {
                log = Some(survivor.clone());
            }
        });
        let (known, has) = (&shadow.hard_state, &found.hard_state);
        let forgotten = known.term == has.term && known.vote != 0 && known.vote != has.vote;
        if has.term < known.term || forgotten {
            return Err(format!(
                "host {host} remembers {has:?}, its disk had {known:?}"
            ));
        }
        log.ok_or_else(|| {
            format!(
                "host {host} finds {} entries after {:?} up to {:?}, its disk was sure to keep {} after {:?}",
                found.entries.len(),
                found.base,
                found.entries.last().map(Entry::position),
                shadow.durable.entries.len(),
                shadow.durable.base,
            )
        })
    }

    /// Whether the log, with the state that it begins after, has all that was agreed on.
    pub fn is_whole(&self, log: &Log) -> bool {
        let Some((index, chosen)) = self.chosen.last_key_value() else {
            return false;
        };
        *index <= log.base.index || log.entry(*index) == Some(*chosen)
    }

    pub fn chosen(&self) -> usize {
        self.chosen.len()
    }
}

/// Whether the log on disk is this one. It may begin later: what is applied is let go of.
fn is(log: &Log, found: &Recovered) -> bool {
    let last = found
        .entries
        .last()
        .map_or(found.base.index, |entry| entry.index);
    log.last() == last
        && found.entries.iter().all(|entry| {
            entry.index <= log.base.index
                || log.entry(entry.index) == Some((entry.term, digest::of_entry(entry)))
        })
}
