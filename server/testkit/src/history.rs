//! What clients did and saw: the input of the linearizability check.

/// A key of one partition, by number.
pub type Key = usize;

/// A value; every write has a unique one. 0 means that the key does not exist.
pub type Value = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Get(Key),
    Put(Key, Value),
    Delete(Key),
}

/// A small form of etcd's transaction; every operation is a special case of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// All must hold for `then`.
    pub when: Vec<(Key, Value)>,
    pub then: Vec<Step>,
    pub otherwise: Vec<Step>,
}

impl Operation {
    pub fn of(step: Step) -> Operation {
        Operation {
            then: vec![step],
            ..Operation::default()
        }
    }

    /// True if no step can change a key.
    pub fn is_read(&self) -> bool {
        let mut steps = self.then.iter().chain(&self.otherwise);
        steps.all(|step| matches!(step, Step::Get(_)))
    }
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub succeeded: bool,
    /// One per step: the value read; 1 for a deletion that found its key.
    pub results: Vec<Value>,
}

#[derive(Clone, Debug)]
pub struct Record {
    pub client: usize,
    /// One operation never has keys of different partitions.
    pub partition: usize,
    pub operation: Operation,
    pub called_at: u64,
    /// `u64::MAX` if it is unknown whether it ever took effect.
    pub returned_at: u64,
    /// `None` if it took effect, but its client never received the answer.
    pub outcome: Option<Outcome>,
    /// The store's revision in the answer.
    pub revision: Option<i64>,
}
