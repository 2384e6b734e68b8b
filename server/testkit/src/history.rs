//! What clients did and saw: the black-box half of the evidence.

/// A key of one partition, by number.
pub type Key = usize;

/// A value; every write has one of its own. 0: the key is not there.
pub type Value = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Get(Key),
    Put(Key, Value),
    Delete(Key),
}

/// etcd's transaction in small; every operation is a special case of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// All must hold.
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

    pub fn is_read(&self) -> bool {
        let mut steps = self.then.iter().chain(&self.otherwise);
        steps.all(|step| matches!(step, Step::Get(_)))
    }
}

/// What an operation answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub succeeded: bool,
    /// Of each step: the value read; 1 for a deletion that found its key.
    pub results: Vec<Value>,
}

#[derive(Clone, Debug)]
pub struct Record {
    pub client: usize,
    /// Keys of different partitions never meet in one operation.
    pub partition: usize,
    pub operation: Operation,
    pub called_at: u64,
    /// `u64::MAX`: nobody knows whether it ever took effect.
    pub returned_at: u64,
    /// `None`: it took effect, and its client never heard how.
    pub outcome: Option<Outcome>,
    /// The store's revision in the answer.
    pub revision: Option<i64>,
}
