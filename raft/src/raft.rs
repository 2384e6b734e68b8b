//! The state machine of one member.

use crate::io::{Config, Input, Now, Output, PeerStatus, Recovered, Status};
use crate::message::ConfState;

/// One member. All it knows comes through `step`, all it wants leaves through `Output`.
#[derive(Debug)]
pub struct Raft {}

impl Raft {
    /// The hard state and the entries are durable; nothing has been sent yet. Call `step` with
    /// `Input::Tick` when `wake_at` says so.
    pub fn new(_config: Config, _recovered: Recovered, _now: Now) -> Raft {
        unimplemented!()
    }

    /// Clears `out`, takes one input and says in `out` what follows from it.
    pub fn step(&mut self, _now: Now, _input: Input, _out: &mut Output) {
        unimplemented!()
    }

    /// When `Input::Tick` is due.
    pub fn wake_at(&self) -> Option<Now> {
        unimplemented!()
    }

    pub fn status(&self) -> Status {
        unimplemented!()
    }

    /// Empty unless this member leads.
    pub fn peers(&self) -> Vec<PeerStatus> {
        unimplemented!()
    }

    pub fn conf(&self) -> ConfState {
        unimplemented!()
    }
}
