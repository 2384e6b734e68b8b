//! Requests take effect between their call and their answer. The log is an order that explains all
//! answers (the model says that); here it has to agree with time: nobody who asks after an answer
//! came sees less than that answer did.

use raft::Index;

use super::Verdict;

#[derive(Debug, Default)]
pub struct RealTime {
    /// The newest entry that an answer depends on.
    newest: Index,
}

impl RealTime {
    /// What a request that is called now must see.
    pub fn calls(&self) -> Index {
        self.newest
    }

    /// A change that had to see `floor` is the entry at `index`.
    pub fn changed(&mut self, floor: Index, index: Index) -> Verdict {
        self.newest = self.newest.max(index);
        if index > floor {
            return Ok(());
        }
        Err(format!(
            "a change called after an answer that saw {floor} is entry {index}"
        ))
    }

    /// A read that had to see `floor` was answered from the state of `index`.
    pub fn read(&mut self, floor: Index, index: Index) -> Verdict {
        self.newest = self.newest.max(index);
        if index >= floor {
            return Ok(());
        }
        Err(format!(
            "a read called after an answer that saw {floor} sees {index}"
        ))
    }
}
