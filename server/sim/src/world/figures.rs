//! How much happened in a run, for people and for those who see to it that enough does.

use super::SECOND;

#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub digest: u64,
    pub members: usize,
    /// Simulated nanoseconds.
    pub time: u64,
    pub operations: usize,
    pub unknown: usize,
    pub undecided: usize,
    pub elections: usize,
    /// Changes of the members that were acknowledged, machines that joined, and that left.
    pub changes: usize,
    pub joined: usize,
    pub left: usize,
    /// Runs whose last voter never heard that it is alone.
    pub stranded: usize,
    pub entries: usize,
    pub crashes: usize,
    pub partitions: usize,
    pub pauses: usize,
    /// Disks and appliers that were slow for seconds.
    pub slow: usize,
    /// Disks that came back as they were before, and members that noticed.
    pub rolled_back: usize,
    pub complaints: usize,
    /// Disks that were lost, and starts on an empty one that were refused.
    pub wiped: usize,
    pub turned_away: usize,
    /// Disks that rotted, and those of them that were found.
    pub rotten: usize,
    pub found: usize,
    /// Members that went on alone.
    pub forced: usize,
    /// Disks with little room or none, and changes refused for it.
    pub tight: usize,
    pub refused: usize,
    /// Requests that were turned away because there were too many.
    pub busy: usize,
    /// Changes of users and roles, logins, and requests that were denied.
    pub governed: usize,
    pub logins: usize,
    pub denied: usize,
    /// Of the operations that the model alone judges.
    pub reads: usize,
    pub writes: usize,
    pub defragmented: usize,
    /// Changes of keys that were carried through.
    pub reencrypted: usize,
    pub watch_events: u64,
    pub leases_expired: u64,
    /// Entries that others committed, and a leader applied, before its own disk had them.
    pub ahead: usize,
    pub checkpoints: usize,
    pub compactions: usize,
    /// States sent to members too far behind, and those put in place.
    pub snapshots: usize,
    pub installs: usize,
    /// Entries read from the log on disk for members too far behind.
    pub fetched: usize,
    pub states_compared: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Figures) {
        self.digest ^= other.digest;
        self.members += other.members;
        self.time += other.time;
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.undecided += other.undecided;
        self.elections += other.elections;
        self.changes += other.changes;
        self.joined += other.joined;
        self.left += other.left;
        self.stranded += other.stranded;
        self.entries += other.entries;
        self.crashes += other.crashes;
        self.partitions += other.partitions;
        self.pauses += other.pauses;
        self.slow += other.slow;
        self.rolled_back += other.rolled_back;
        self.complaints += other.complaints;
        self.wiped += other.wiped;
        self.turned_away += other.turned_away;
        self.rotten += other.rotten;
        self.found += other.found;
        self.forced += other.forced;
        self.tight += other.tight;
        self.refused += other.refused;
        self.busy += other.busy;
        self.governed += other.governed;
        self.logins += other.logins;
        self.denied += other.denied;
        self.reads += other.reads;
        self.writes += other.writes;
        self.defragmented += other.defragmented;
        self.reencrypted += other.reencrypted;
        self.watch_events += other.watch_events;
        self.leases_expired += other.leases_expired;
        self.ahead += other.ahead;
        self.checkpoints += other.checkpoints;
        self.compactions += other.compactions;
        self.snapshots += other.snapshots;
        self.installs += other.installs;
        self.fetched += other.fetched;
        self.states_compared += other.states_compared;
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} members, {} simulated seconds, {} operations ({} unheard of, {} searches undecided), \
             {} ranges and reads at once, {} changes of any shape, {} changes of users, {} logins, {} requests denied, {} requests turned away, \
             {} entries, {} elections, {} changes of members ({} joined, {} left, {} stranded), {} crashes, {} partitions, {} pauses, {} slow disks and appliers, {} old disks ({} complaints), {} empty disks ({} starts refused), {} times rot ({} disks found), {} forced clusters, {} full disks ({} changes refused), {} defragmentations, {} changes of keys, {} entries ahead of the leader's disk, {} checkpoints, \
             {} compactions, {} snapshots ({} installed), {} entries fed from disk, {} leases expired, {} watch events, {} states compared",
            self.members,
            self.time / SECOND,
            self.operations,
            self.unknown,
            self.undecided,
            self.reads,
            self.writes,
            self.governed,
            self.logins,
            self.denied,
            self.busy,
            self.entries,
            self.elections,
            self.changes,
            self.joined,
            self.left,
            self.stranded,
            self.crashes,
            self.partitions,
            self.pauses,
            self.slow,
            self.rolled_back,
            self.complaints,
            self.wiped,
            self.turned_away,
            self.rotten,
            self.found,
            self.forced,
            self.tight,
            self.refused,
            self.defragmented,
            self.reencrypted,
            self.ahead,
            self.checkpoints,
            self.compactions,
            self.snapshots,
            self.installs,
            self.fetched,
            self.leases_expired,
            self.watch_events,
            self.states_compared,
        )
    }
}
