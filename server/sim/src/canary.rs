//! Bugs put in on purpose, one per checker: a checker that stays green with its canary is blind.
//! They sit at the seams of the simulation; the server's own code has no switches.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Whoever refuses a vote is heard to grant it.
    BoughtVotes,
    /// A member's log shows one entry with a bit flipped.
    FlippedEntry,
    /// What is committed is missing in the log of the next leader.
    LeaderWithGap,
    /// The applier of one member gets another member's name than the log has.
    DivergingApply,
    /// The appliers of all members take a put of nothing for a deletion.
    SharedMistake,
    /// A log is said to be durable, and was not synced.
    LyingDisk,
    /// A checkpoint does not wait for the log.
    HastyCheckpoint,
    /// A read is answered from what is applied here, without asking the leader.
    LocalRead,
    /// The same of ranges, which no search judges.
    LocalRange,
    /// A range leaves out its last row.
    ShortRange,
    /// An answer to a change has another revision than the change.
    WrongRevision,
    /// A request enters the log though its client was told that it was refused.
    RefusedButProposed,
    /// A watch response is lost on the way.
    LostEvents,
    /// Events come without what the key was before.
    LostPrevKv,
    /// A watch that comes back begins one revision late.
    LateResume,
    /// The applier's clock runs three times as fast.
    HastyLeases,
    /// A lease is said to have one key less.
    LostLeaseKey,
    /// Expired leases are not revoked.
    EternalLeases,
    /// A space alarm is never taken back.
    StuckAlarm,
    /// One member's raft is never told of a change of the members.
    DeafMember,
    /// The others do not say that a member with an empty disk has been there.
    ForgottenMember,
    /// Who asked is forgotten when an entry is applied.
    UncheckedEntries,
    /// Whoever asks reads.
    UncheckedRead,
    /// Whoever asks renews a lease and sees its keys.
    UncheckedLease,
    /// Whoever asks does what only root may do.
    UncheckedAdmin,
    /// A token outlives its user.
    EternalToken,
    /// Users and roles of a state that came are stored, and not judged by.
    UnloadedUsers,
    /// A state comes without its roles.
    RolelessState,
    /// A log that has rotted is read as if nothing had happened.
    UncheckedLog,
    /// A member with a damaged disk does not say which file it is.
    NamelessRot,
    /// A link stays cut after healing.
    UnhealedLinks,
    /// Chance from outside the seed.
    Nondeterminism,
}

pub const ALL: [Canary; 32] = [
    Canary::BoughtVotes,
    Canary::FlippedEntry,
    Canary::LeaderWithGap,
    Canary::DivergingApply,
    Canary::SharedMistake,
    Canary::LyingDisk,
    Canary::HastyCheckpoint,
    Canary::LocalRead,
    Canary::LocalRange,
    Canary::ShortRange,
    Canary::WrongRevision,
    Canary::RefusedButProposed,
    Canary::LostEvents,
    Canary::LostPrevKv,
    Canary::LateResume,
    Canary::HastyLeases,
    Canary::LostLeaseKey,
    Canary::EternalLeases,
    Canary::StuckAlarm,
    Canary::DeafMember,
    Canary::ForgottenMember,
    Canary::UncheckedEntries,
    Canary::UncheckedRead,
    Canary::UncheckedLease,
    Canary::UncheckedAdmin,
    Canary::EternalToken,
    Canary::UnloadedUsers,
    Canary::RolelessState,
    Canary::UncheckedLog,
    Canary::NamelessRot,
    Canary::UnhealedLinks,
    Canary::Nondeterminism,
];

impl Canary {
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The checks that this bug must turn red: one of them is enough.
    pub fn caught_by(self) -> &'static [&'static str] {
        match self {
            Canary::BoughtVotes => &["election safety"],
            Canary::FlippedEntry => &["log matching"],
            Canary::LeaderWithGap => &["leader completeness"],
            Canary::DivergingApply => &["agreement"],
            Canary::SharedMistake => &["model"],
            Canary::LyingDisk | Canary::HastyCheckpoint => &["durable prefix"],
            Canary::LocalRead => &["linearizability"],
            Canary::LocalRange => &["real time"],
            Canary::ShortRange | Canary::WrongRevision => &["model"],
            Canary::RefusedButProposed => &["refusals"],
            Canary::LostEvents | Canary::LostPrevKv | Canary::LateResume => &["watches"],
            Canary::HastyLeases | Canary::LostLeaseKey | Canary::EternalLeases => &["leases"],
            Canary::StuckAlarm => &["space"],
            Canary::DeafMember => &["membership"],
            Canary::ForgottenMember => &["empty disks"],
            Canary::UncheckedEntries => &["model"],
            Canary::UncheckedRead | Canary::UncheckedLease | Canary::UncheckedAdmin => &["users"],
            Canary::EternalToken | Canary::UnloadedUsers => &["users"],
            Canary::RolelessState => &["agreement", "model", "users"],
            Canary::UncheckedLog => &["durable prefix"],
            Canary::NamelessRot => &["bit rot"],
            Canary::UnhealedLinks => &["liveness"],
            Canary::Nondeterminism => &["determinism"],
        }
    }
}
