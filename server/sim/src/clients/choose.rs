//! What a client asks for next.

use super::explore::Explorer;
use super::{Ask, Clients, PARTITIONS};
use crate::history::{Operation, Step, Value};
use crate::model::Revisions;

/// Most compactions leave so many revisions at least.
const KEPT_REVISIONS: u64 = 40;

impl Clients {
    /// What `client` does next.
    pub(super) fn choose(&mut self, client: usize, revisions: Revisions) -> Ask {
        let own = &self.clients[client].leases;
        let leases = if self.shares { &self.leases } else { own };
        let leases = leases.clone();
        if self.keepers && self.rng.chance(600) {
            return match self.rng.pick(&[None, leases.first(), leases.last()]) {
                Some(lease) => Ask::KeepAlive { lease: **lease },
                None if leases.len() < 2 => self.grant(),
                None => self.choose_operation(client, &leases, revisions),
            };
        }
        match self.rng.below(100) {
            0..4 => self.grant(),
            4..8 if !leases.is_empty() => Ask::Attach {
                lease: *self.rng.pick(&leases),
            },
            8..18 if !leases.is_empty() => Ask::KeepAlive {
                lease: *self.rng.pick(&leases),
            },
            18 if !leases.is_empty() => Ask::Revoke {
                lease: *self.rng.pick(&leases),
            },
            21..24 if !leases.is_empty() => Ask::TimeToLive {
                lease: *self.rng.pick(&leases),
            },
            19 => {
                let kept = if self.rng.chance(200) {
                    self.rng.below(5)
                } else {
                    self.rng.between(KEPT_REVISIONS, 2 * KEPT_REVISIONS)
                };
                let revision = (revisions.current - kept as i64).max(1);
                Ask::Compact { revision }
            }
            20 => Ask::Defragment,
            _ => self.choose_operation(client, &leases, revisions),
        }
    }

    /// What one answers that only learns.
    pub(super) fn local_read(&mut self, revisions: Revisions) -> Ask {
        let mut explorer = Explorer {
            rng: &mut self.rng,
            leases: &[],
            revisions,
            only_ranges: self.directory.is_used,
        };
        let (read, _) = explorer.read();
        Ask::Read {
            read,
            serializable: true,
        }
    }

    fn grant(&mut self) -> Ask {
        let ttl = self.rng.between(1, 6) as i64;
        if self.rng.chance(50) && !self.leases.is_empty() {
            // It exists already, or did.
            let id = *self.rng.pick(&self.leases);
            return Ask::Grant { id, ttl };
        }
        self.last_lease += 1;
        let id = self.last_lease;
        Ask::Grant { id, ttl }
    }

    fn choose_operation(&mut self, client: usize, leases: &[i64], revisions: Revisions) -> Ask {
        if self.rng.chance(self.explores) {
            return self.explore(leases, revisions);
        }
        let partition = self.rng.below(PARTITIONS.len() as u64) as usize;
        let keys = PARTITIONS[partition];
        let key = self.rng.below(keys as u64) as usize;
        let seen = self.clients[client].seen.get(&partition).cloned();
        let seen = seen.unwrap_or_else(|| vec![0; keys]);
        let all = || (0..keys).map(Step::Get).collect::<Vec<Step>>();
        let operation = match self.rng.below(10) {
            0..3 => Operation::of(Step::Put(key, self.next_value())),
            3 => Operation::of(Step::Delete(key)),
            4..7 => Operation {
                then: all(),
                ..Operation::default()
            },
            // All keys at once, and what they were with them.
            7 => {
                let mut then = all();
                then.extend((0..keys).map(|key| Step::Put(key, self.next_value())));
                Operation {
                    then,
                    ..Operation::default()
                }
            }
            // As a lock, a counter, or an election does it.
            _ => Operation {
                when: vec![(key, seen[key])],
                then: vec![Step::Put(key, self.next_value()), Step::Get(keys - 1 - key)],
                otherwise: all(),
            },
        };
        Ask::Operation {
            partition,
            operation,
        }
    }

    fn explore(&mut self, leases: &[i64], revisions: Revisions) -> Ask {
        let reads = self.rng.chance(500);
        let mut explorer = Explorer {
            rng: &mut self.rng,
            leases,
            revisions,
            only_ranges: self.directory.is_used,
        };
        if reads {
            let (read, serializable) = explorer.read();
            Ask::Read { read, serializable }
        } else {
            Ask::Change(explorer.change())
        }
    }

    fn next_value(&mut self) -> Value {
        self.last_value += 1;
        self.last_value
    }
}
