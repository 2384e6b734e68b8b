//! Traffic between this member and each other one. As in etcd's labelled families, a member appears
//! in a family once it has a value there.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::text::{Text, Type};
use super::value::{Buckets, Counter, Gauge, Histogram, Unit};

/// Limit on members with separate metrics, because a request may contain any id.
const MEMBERS_MAX: usize = 256;
/// The sender to which etcd attributes link heartbeats.
const NOBODY: u64 = 0;

const SNAPSHOT: Buckets = Buckets {
    first: 0.1,
    count: 10,
};
const ROUND_TRIP: Buckets = Buckets {
    first: 0.0001,
    count: 16,
};

/// Names for successes, failures, transfers in flight, and durations.
const SENDING: [&str; 4] = [
    "etcd_network_snapshot_send_success",
    "etcd_network_snapshot_send_failures",
    "etcd_network_snapshot_send_inflights_total",
    "etcd_network_snapshot_send_total_duration_seconds",
];
const RECEIVING: [&str; 4] = [
    "etcd_network_snapshot_receive_success",
    "etcd_network_snapshot_receive_failures",
    "etcd_network_snapshot_receive_inflights_total",
    "etcd_network_snapshot_receive_total_duration_seconds",
];

/// Snapshots in one direction.
#[derive(Debug)]
pub(crate) struct Transfers {
    pub success: Counter,
    pub failures: Counter,
    pub in_flight: Gauge,
    pub duration: Histogram,
}

impl Default for Transfers {
    fn default() -> Transfers {
        Transfers {
            success: Counter::default(),
            failures: Counter::default(),
            in_flight: Gauge::default(),
            duration: Histogram::new(Unit::Seconds, SNAPSHOT),
        }
    }
}

/// The traffic with one other member.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub active: Gauge,
    pub activated: Counter,
    pub disconnected: Counter,
    pub sent_bytes: Counter,
    pub sent_failures: Counter,
    pub received_bytes: Counter,
    pub received_failures: Counter,
    pub snapshots_sent: Transfers,
    pub snapshots_received: Transfers,
    pub round_trip: Histogram,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic {
            active: Gauge::default(),
            activated: Counter::default(),
            disconnected: Counter::default(),
            sent_bytes: Counter::default(),
            sent_failures: Counter::default(),
            received_bytes: Counter::default(),
            received_failures: Counter::default(),
            snapshots_sent: Transfers::default(),
            snapshots_received: Transfers::default(),
            round_trip: Histogram::new(Unit::Seconds, ROUND_TRIP),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Network(RwLock<BTreeMap<u64, Arc<Traffic>>>);

impl Network {
    pub(crate) fn of(&self, member: u64) -> Arc<Traffic> {
        if let Some(traffic) = self.0.read().get(&member) {
            return Arc::clone(traffic);
        }
        let mut members = self.0.write();
        let member = if members.len() < MEMBERS_MAX {
            member
        } else {
            NOBODY
        };
        Arc::clone(members.entry(member).or_default())
    }

    /// Counts the bytes of a link heartbeat.
    pub(crate) fn sign_of_life(&self, bytes: usize) {
        self.of(NOBODY).received_bytes.add(bytes as u64);
    }

    pub(super) fn write(&self, local: u64, text: &mut Text) {
        let local = format!("{local:x}");
        for (member, traffic) in &*self.0.read() {
            let remote = format!("{member:x}");
            let (pair, to, from) = (
                &[("Local", local.as_str()), ("Remote", remote.as_str())][..],
                &[("To", remote.as_str())][..],
                &[("From", remote.as_str())][..],
            );
            if traffic.activated.get() > 0 {
                let help = "1 while the member can be reached.";
                text.family("etcd_network_active_peers", Type::Gauge, help)
                    .sample(pair, traffic.active.get() as f64);
            }
            let mut count = |name, labels, counter: &Counter, help| {
                if counter.get() > 0 {
                    text.family(name, Type::Counter, help)
                        .sample(labels, counter.get() as f64);
                }
            };
            count(
                "etcd_network_disconnected_peers_total",
                pair,
                &traffic.disconnected,
                "Times the member was lost.",
            );
            count(
                "etcd_network_peer_sent_bytes_total",
                to,
                &traffic.sent_bytes,
                "Bytes sent to the member.",
            );
            count(
                "etcd_network_peer_sent_failures_total",
                to,
                &traffic.sent_failures,
                "Messages that could not be sent.",
            );
            count(
                "etcd_network_peer_received_bytes_total",
                from,
                &traffic.received_bytes,
                "Bytes received from the member.",
            );
            count(
                "etcd_network_peer_received_failures_total",
                from,
                &traffic.received_failures,
                "Messages that came and could not be read.",
            );
            traffic.snapshots_sent.write(SENDING, to, text);
            traffic.snapshots_received.write(RECEIVING, from, text);
            if traffic.round_trip.is_used() {
                let name = "etcd_network_peer_round_trip_time_seconds";
                let help = "Time to reach the member and hear from it.";
                text.family(name, Type::Histogram, help)
                    .histogram(to, &traffic.round_trip);
            }
        }
    }
}

impl Transfers {
    fn write(&self, names: [&'static str; 4], labels: &[(&str, &str)], text: &mut Text) {
        let [success, failures, in_flight, duration] = names;
        for (name, counter) in [(success, &self.success), (failures, &self.failures)] {
            if counter.get() > 0 {
                text.family(name, Type::Counter, "Snapshots by outcome.")
                    .sample(labels, counter.get() as f64);
            }
        }
        let under_way = self.in_flight.get();
        if under_way > 0 || self.success.get() + self.failures.get() > 0 {
            text.family(in_flight, Type::Gauge, "Snapshots under way.")
                .sample(labels, under_way as f64);
        }
        if self.duration.is_used() {
            text.family(duration, Type::Histogram, "Time of a snapshot.")
                .histogram(labels, &self.duration);
        }
    }
}
