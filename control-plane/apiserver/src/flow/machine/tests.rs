use std::collections::BTreeSet;

use super::hand::deal;
use super::*;

/// Small numbers that look random; one seed gives one sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

const QUEUING: Queuing = Queuing {
    queues: 64,
    hand: 6,
    length: 50,
};

fn level(name: &str, shares: u32, lendable: u32) -> LevelSpec {
    LevelSpec {
        name: name.into(),
        exempt: false,
        shares,
        lendable,
        borrowing: None,
        queuing: Some(QUEUING),
    }
}

fn machine(seats: u32, levels: &[LevelSpec]) -> Machine<u64> {
    let mut machine = Machine::new(seats);
    machine.configure(levels, Duration::ZERO);
    machine
}

/// A hash, in which small numbers are spread as names are.
fn hash(flow: u64) -> u64 {
    (flow + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Asks with a number as the waker.
fn ask(machine: &mut Machine<u64>, level: &str, flow: u64, seats: u32, waker: u64) -> Decision {
    let level: Arc<str> = level.into();
    let asking = Asking {
        level: &level,
        schema: &level,
        flow: hash(flow),
        seats,
        counts: true,
    };
    machine.ask(&asking, Duration::ZERO, || waker)
}

fn runs(decision: Decision) -> Ticket {
    match decision {
        Decision::Runs(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

fn waits(decision: Decision) -> Ticket {
    match decision {
        Decision::Waits(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

fn refused(decision: Decision) -> Refusal {
    match decision {
        Decision::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

/// Fails unless the seats add up.
fn check<W>(machine: &Machine<W>) {
    let mut taken = 0;
    let mut waiting = 0;
    for (name, level) in machine.levels() {
        let seats = level.executing_seats();
        assert!(seats <= level.ceiling(), "{name}: {seats}");
        taken += seats.max(level.floor());
        waiting += level.waiting();
        let counted: u64 = level.counts().map(|(_, one)| one.executing_seats).sum();
        assert_eq!(u64::from(seats), counted);
        let counted: u64 = level.counts().map(|(_, one)| one.in_queue).sum();
        assert_eq!(level.waiting() as u64, counted);
    }
    assert!(taken <= machine.total, "{taken} > {}", machine.total);
    assert_eq!(waiting, machine.waiting);
}

#[test]
fn seats_are_shared_out_by_shares() {
    let levels = [level("a", 30, 33), level("b", 100, 90), level("c", 115, 0)];
    let machine = machine(600, &levels);
    let found: Vec<_> = machine
        .levels()
        .map(|(_, level)| (level.nominal(), level.floor(), level.ceiling()))
        .collect();
    assert_eq!(found, [(74, 50, 674), (245, 24, 845), (282, 282, 882)]);
}

#[test]
fn a_level_borrows_what_others_lend_and_no_more() {
    let levels = [level("a", 1, 50), level("b", 1, 0)];
    let mut machine = machine(20, &levels);
    // The floor of the other level stays free: 10 of 20.
    for at in 0..10 {
        runs(ask(&mut machine, "a", 1, 1, at));
    }
    waits(ask(&mut machine, "a", 1, 1, 10));
    for at in 0..10 {
        runs(ask(&mut machine, "b", 1, 1, at));
    }
    waits(ask(&mut machine, "b", 1, 1, 10));
    check(&machine);
}

#[test]
fn lent_seats_return_to_the_level_that_uses_less_of_its_share() {
    let levels = [level("a", 1, 80), level("b", 1, 80)];
    let mut machine = machine(20, &levels);
    let mut all: Vec<Ticket> = (0..18)
        .map(|at| runs(ask(&mut machine, "a", 1, 1, at)))
        .collect();
    waits(ask(&mut machine, "a", 1, 1, 100));
    for at in 0..2 {
        runs(ask(&mut machine, "b", 2, 1, at));
    }
    for at in 200..208 {
        waits(ask(&mut machine, "b", 2, 1, at));
    }
    // The first came earlier, but its level has more than its share.
    for _ in 0..8 {
        machine.leave(&all.pop().unwrap(), Outcome::Done, Duration::ZERO);
        check(&machine);
    }
    let woken: BTreeSet<u64> = machine.woken().into_iter().collect();
    assert_eq!(woken, (200..208).collect());
}

#[test]
fn a_limit_of_borrowing_is_kept() {
    let bounded = LevelSpec {
        borrowing: Some(50),
        ..level("a", 1, 0)
    };
    let mut machine = machine(20, &[bounded, level("b", 1, 100)]);
    for at in 0..15 {
        runs(ask(&mut machine, "a", 1, 1, at));
    }
    waits(ask(&mut machine, "a", 1, 1, 15));
    check(&machine);
}

#[test]
fn exempt_requests_never_wait_and_take_from_the_pool_only() {
    let exempt = LevelSpec {
        exempt: true,
        queuing: None,
        ..level("exempt", 0, 0)
    };
    let mut machine = machine(10, &[exempt, level("a", 1, 0), level("b", 1, 100)]);
    for at in 0..100 {
        runs(ask(&mut machine, "exempt", 1, 1, at));
    }
    // The floor of a level is left to it; the pool is gone.
    for at in 0..5 {
        runs(ask(&mut machine, "a", 1, 1, at));
    }
    waits(ask(&mut machine, "b", 1, 1, 0));
}

#[test]
fn without_queues_requests_are_refused() {
    let rejecting = LevelSpec {
        queuing: None,
        ..level("a", 1, 0)
    };
    let mut machine = machine(1, &[rejecting]);
    let first = runs(ask(&mut machine, "a", 1, 1, 0));
    let why = refused(ask(&mut machine, "a", 1, 1, 0));
    assert_eq!(why, Refusal::ConcurrencyLimit);
    machine.leave(&first, Outcome::Done, Duration::ZERO);
    runs(ask(&mut machine, "a", 1, 1, 0));
}

#[test]
fn queues_have_a_bound() {
    let queuing = Queuing {
        queues: 4,
        hand: 2,
        length: 3,
    };
    let short = LevelSpec {
        queuing: Some(queuing),
        ..level("a", 1, 0)
    };
    let mut machine = machine(1, &[short]);
    runs(ask(&mut machine, "a", 7, 1, 0));
    for at in 0..6 {
        waits(ask(&mut machine, "a", 7, 1, at));
    }
    let why = refused(ask(&mut machine, "a", 7, 1, 0));
    assert_eq!(why, Refusal::QueueFull);
    check(&machine);
}

#[test]
fn a_level_without_seats_holds_its_requests() {
    let jail = LevelSpec {
        borrowing: Some(0),
        ..level("jail", 0, 0)
    };
    let mut machine = machine(10, &[jail, level("a", 1, 0)]);
    let held = waits(ask(&mut machine, "jail", 1, 1, 0));
    machine.leave(&held, Outcome::TimedOut, Duration::ZERO);
    assert_eq!(machine.woken(), [0; 0]);
    check(&machine);
}

#[test]
fn a_quiet_flow_is_served_before_the_backlog_of_a_noisy_one() {
    let mut machine = machine(10, &[level("a", 1, 0)]);
    let mut running: Vec<Ticket> = (0..10)
        .map(|_| runs(ask(&mut machine, "a", 1, 1, 0)))
        .collect();
    let backlog: Vec<Ticket> = (0..200)
        .map(|_| waits(ask(&mut machine, "a", 1, 1, 1)))
        .collect();
    assert_eq!(backlog.len(), 200);
    for _ in 0..5 {
        waits(ask(&mut machine, "a", 2, 1, 2));
    }
    let mut now = Duration::ZERO;
    for ticket in running.drain(..) {
        now += Duration::from_millis(10);
        machine.leave(&ticket, Outcome::Done, now);
    }
    let quiet = machine.woken().into_iter().filter(|waker| *waker == 2);
    assert_eq!(quiet.count(), 5);
}

#[test]
fn a_flow_that_comes_late_is_not_behind_work_in_progress() {
    let mut machine = machine(10, &[level("a", 1, 0)]);
    let running: Vec<Ticket> = (0..10)
        .map(|_| runs(ask(&mut machine, "a", 1, 1, 0)))
        .collect();
    for _ in 0..100 {
        waits(ask(&mut machine, "a", 1, 1, 1));
    }
    // The requests of the noisy flow have run for three seconds, and none has ended.
    let name: Arc<str> = "a".into();
    let late = Asking {
        level: &name,
        schema: &name,
        flow: hash(2),
        seats: 1,
        counts: true,
    };
    waits(machine.ask(&late, Duration::from_secs(3), || 2));
    for ticket in &running[..3] {
        machine.leave(ticket, Outcome::Done, Duration::from_secs(3));
    }
    let woken = machine.woken();
    assert!(woken.contains(&2), "{woken:?}");
}

#[test]
fn a_wide_request_gets_its_seats_while_narrow_ones_keep_coming() {
    let wide = level("wide", 10, 100);
    let mut machine = machine(200, &[wide, level("narrow", 10, 100)]);
    let mut narrow: Vec<Ticket> = (0..200)
        .map(|_| runs(ask(&mut machine, "narrow", 1, 1, 0)))
        .collect();
    for flow in 0..100 {
        waits(ask(&mut machine, "narrow", flow, 1, 1));
    }
    waits(ask(&mut machine, "wide", 1, 10, 2));
    for _ in 0..10 {
        assert_eq!(machine.woken(), [0; 0]);
        machine.leave(&narrow.pop().unwrap(), Outcome::Done, Duration::ZERO);
        check(&machine);
    }
    assert_eq!(machine.woken(), [2]);
}

#[test]
fn a_retired_level_finishes_its_requests_and_goes() {
    let mut machine = machine(2, &[level("a", 1, 0), level("b", 1, 0)]);
    let first = runs(ask(&mut machine, "a", 1, 1, 0));
    let second = waits(ask(&mut machine, "a", 1, 1, 7));
    machine.configure(&[level("b", 1, 0)], Duration::ZERO);
    assert_eq!(machine.levels().count(), 2);
    machine.leave(&first, Outcome::Done, Duration::ZERO);
    assert_eq!(machine.woken(), [7]);
    machine.leave(&second, Outcome::Done, Duration::ZERO);
    let left: Vec<_> = machine
        .levels()
        .map(|(name, one)| (&**name, one.nominal()))
        .collect();
    assert_eq!(left, [("b", 2)]);
}

#[test]
fn hands_have_different_queues_and_flows_have_different_hands() {
    let mut random = Random(1);
    let mut hands = BTreeSet::new();
    for _ in 0..1000 {
        let queuing = Queuing {
            queues: 128,
            hand: 6,
            length: 1,
        };
        let hand: Vec<u32> = deal(random.below(u64::MAX), queuing).collect();
        let different: BTreeSet<u32> = hand.iter().copied().collect();
        assert_eq!(different.len(), 6, "{hand:?}");
        assert!(hand.iter().all(|queue| *queue < 128), "{hand:?}");
        hands.insert(different);
    }
    assert!(hands.len() > 990);
    let all = Queuing {
        queues: 3,
        hand: 3,
        length: 1,
    };
    let hand: BTreeSet<u32> = deal(12345, all).collect();
    assert_eq!(hand, BTreeSet::from([0, 1, 2]));
}

/// A machine under random load, and what its requests do.
struct Load {
    machine: Machine<u64>,
    random: Random,
    now: Duration,
    running: Vec<(u64, Ticket)>,
    waiting: Vec<(u64, Ticket)>,
    asked: u64,
}

impl Load {
    fn new(seed: u64) -> Load {
        let narrow = Queuing {
            queues: 3,
            hand: 2,
            length: 4,
        };
        let levels = [
            level("a", 10, 50),
            LevelSpec {
                borrowing: Some(20),
                queuing: Some(narrow),
                ..level("b", 5, 100)
            },
            LevelSpec {
                queuing: None,
                ..level("c", 2, 0)
            },
        ];
        Load {
            machine: machine(30, &levels),
            random: Random(seed),
            now: Duration::ZERO,
            running: Vec::new(),
            waiting: Vec::new(),
            asked: 0,
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(self.random.below(3000));
        match self.random.below(8) {
            0..4 => self.arrive(),
            4..7 if !self.running.is_empty() => {
                let at = self.random.below(self.running.len() as u64) as usize;
                let (_, ticket) = self.running.swap_remove(at);
                self.machine.leave(&ticket, Outcome::Done, self.now);
            }
            _ if !self.waiting.is_empty() => {
                let at = self.random.below(self.waiting.len() as u64) as usize;
                let (_, ticket) = self.waiting.swap_remove(at);
                self.machine.leave(&ticket, Outcome::TimedOut, self.now);
            }
            _ => {}
        }
        self.start();
        check(&self.machine);
    }

    fn arrive(&mut self) {
        let level: Arc<str> = ["a", "b", "c"][self.random.below(3) as usize].into();
        let asking = Asking {
            level: &level,
            schema: &level,
            flow: hash(self.random.below(5)),
            seats: 1 + self.random.below(12) as u32,
            counts: true,
        };
        let id = self.asked;
        self.asked += 1;
        match self.machine.ask(&asking, self.now, || id) {
            Decision::Runs(ticket) => self.running.push((id, ticket)),
            Decision::Waits(ticket) => self.waiting.push((id, ticket)),
            Decision::Refused(_) => {}
        }
    }

    /// Moves what has been woken to what runs.
    fn start(&mut self) {
        for id in self.machine.woken() {
            let found = self.waiting.iter().position(|(waiting, _)| *waiting == id);
            // It may have been started within its own arrival.
            if let Some(at) = found {
                let woken = self.waiting.swap_remove(at);
                self.running.push(woken);
            }
        }
    }
}

#[test]
fn random_loads_keep_the_limits_and_leave_nothing_behind() {
    for seed in 1..=50 {
        let mut load = Load::new(seed * 7919);
        for _ in 0..2000 {
            load.step();
        }
        // Whoever waits is served as long as requests end.
        while let Some((_, ticket)) = load.running.pop() {
            load.now += Duration::from_millis(1);
            load.machine.leave(&ticket, Outcome::Done, load.now);
            load.start();
            check(&load.machine);
        }
        assert!(load.waiting.is_empty(), "seed {seed}: a flow starves");
        for (name, level) in load.machine.levels() {
            assert!(level.is_idle(), "seed {seed}: {name}");
            assert_eq!(level.executing_seats(), 0, "seed {seed}: {name}");
            assert_eq!(level.active_queues(), 0, "seed {seed}: {name}");
        }
    }
}
