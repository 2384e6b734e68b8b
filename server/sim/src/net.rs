//! The links between members: how long a message takes, whether it comes, and how often.

use std::collections::{BTreeMap, BTreeSet};

use testkit::Rng;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

/// Hosts by number.
type Link = (usize, usize);

#[derive(Debug)]
pub(crate) struct Net {
    rng: Rng,
    /// Nanoseconds a message takes at least, and on top of that at most.
    base: u64,
    jitter: u64,
    /// In a thousand.
    loss: u64,
    copies: u64,
    /// Of a state on its way, nanoseconds.
    per_byte: u64,
    /// Messages of one link arrive in the order of sending, as on a connection.
    in_order: bool,
    last_arrival: BTreeMap<Link, u64>,
    /// One way each.
    cut: BTreeSet<Link>,
    /// Links that are slow now, by so many nanoseconds.
    slow: BTreeMap<Link, u64>,
}

impl Net {
    /// Chance decides what kind of network it is.
    pub(crate) fn new(mut rng: Rng) -> Net {
        let base = *rng.pick(&[50 * MICRO, 200 * MICRO, MILLI, 5 * MILLI]);
        let jitter = base * rng.between(1, 8);
        let wild = rng.chance(400);
        Net {
            base,
            jitter,
            loss: if wild { rng.below(60) } else { 0 },
            copies: if wild { rng.below(60) } else { 0 },
            per_byte: *rng.pick(&[1, 1_000, 10_000]),
            in_order: !wild,
            last_arrival: BTreeMap::new(),
            cut: BTreeSet::new(),
            slow: BTreeMap::new(),
            rng,
        }
    }

    /// When a message sent now arrives: never, once, or twice if it is one that `may_come_twice`.
    pub(crate) fn arrivals(&mut self, now: u64, link: Link, may_come_twice: bool) -> Vec<u64> {
        if self.cut.contains(&link) || self.rng.chance(self.loss) {
            return Vec::new();
        }
        let mut arrivals = vec![self.arrival(now, link)];
        if self.rng.chance(self.copies) && may_come_twice {
            arrivals.push(self.arrival(now, link));
        }
        arrivals
    }

    fn arrival(&mut self, now: u64, link: Link) -> u64 {
        let slow = self.slow.get(&link).copied().unwrap_or(0);
        let at = now + self.base + self.rng.below(self.jitter) + slow;
        if !self.in_order {
            return at;
        }
        let last = self.last_arrival.entry(link).or_default();
        *last = at.max(*last + 1);
        *last
    }

    /// How long a state of so many bytes travels.
    pub(crate) fn transfer(&mut self, bytes: usize, link: Link) -> u64 {
        let slow = self.slow.get(&link).copied().unwrap_or(0);
        let mean = 2 * (self.base + self.jitter) + bytes as u64 * self.per_byte;
        self.rng.about(mean) + slow
    }

    pub(crate) fn is_cut(&self, link: Link) -> bool {
        self.cut.contains(&link)
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.cut.insert((from, to));
    }

    /// Nothing passes between a host of `part` and one outside.
    pub(crate) fn split(&mut self, hosts: usize, part: &[usize]) {
        for a in part {
            for b in (0..hosts).filter(|b| !part.contains(b)) {
                self.cut.insert((*a, b));
                self.cut.insert((b, *a));
            }
        }
    }

    pub(crate) fn slow_down(&mut self, link: Link, by: u64) {
        self.slow.insert(link, by);
    }

    /// All links carry what is sent, as fast as ever.
    pub(crate) fn mend(&mut self) {
        self.cut.clear();
        self.slow.clear();
    }

    /// From here on nothing gets lost either.
    pub(crate) fn heal(&mut self) {
        self.mend();
        self.loss = 0;
        self.copies = 0;
    }
}
