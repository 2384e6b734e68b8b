//! A member that has been part of the cluster never begins on an empty disk when one of those whom
//! it asks could know; and one that has never been there is not turned away.

use std::collections::BTreeMap;

use raft::{Index, NodeId};

use super::Verdict;

#[derive(Debug, Default)]
pub struct EmptyDisks {
    /// The entry with which a member first told where it serves clients.
    published: BTreeMap<NodeId, Index>,
}

impl EmptyDisks {
    /// The entry at `index` is committed: `id` says where it serves clients.
    pub fn publishes(&mut self, id: NodeId, index: Index) {
        self.published.entry(id).or_insert(index);
    }

    /// `host` begins as member `id` on an empty disk. `heard`: how much those had applied who
    /// answered it and who count it as a member.
    pub fn begins(&self, host: usize, id: NodeId, heard: &[Index]) -> Verdict {
        match self.known_to(id, heard) {
            Some(index) => Err(format!(
                "host {host} begins on an empty disk as member {id:x}, and was told by one that has \
                 applied {index} that it has been there"
            )),
            None => Ok(()),
        }
    }

    /// `host` is told that it has been there.
    pub fn refuses(&self, host: usize, id: NodeId, heard: &[Index]) -> Verdict {
        match self.known_to(id, heard) {
            Some(_) => Ok(()),
            None => Err(format!(
                "host {host} does not begin as member {id:x}, and nobody knows that it has been there"
            )),
        }
    }

    fn known_to(&self, id: NodeId, heard: &[Index]) -> Option<Index> {
        let published = *self.published.get(&id)?;
        let mut heard = heard.iter().copied();
        heard.find(|applied| *applied >= published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_know_must_refuse_and_who_could_not_must_not() {
        let mut disks = EmptyDisks::default();
        disks.begins(0, 7, &[100]).unwrap();
        disks.refuses(0, 7, &[100]).unwrap_err();
        disks.publishes(7, 10);
        disks.publishes(7, 20);
        disks.begins(0, 7, &[]).unwrap();
        disks.begins(0, 7, &[9]).unwrap();
        disks.begins(0, 8, &[10]).unwrap();
        disks.begins(0, 7, &[9, 10]).unwrap_err();
        disks.refuses(0, 7, &[9, 10]).unwrap();
        disks.refuses(0, 7, &[9]).unwrap_err();
    }
}
