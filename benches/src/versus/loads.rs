//! The loads: the arguments of etcd's `benchmark`, and the prefill of the store.
//!
//! Keys are always 32 B and values 256 B. Totals are chosen so that real etcd needs some seconds
//! for each on two cores; `--total` and `--short` change them.

use std::ffi::OsString;

/// The key that range loads read.
pub(super) const READ_KEY: &str = "the-key-that-is-read-again-and-again";
pub(super) const VALUE_BYTES: usize = 256;

/// Number of clients per connection, as in programs that use etcd; one connection per client would
/// mainly measure the kernel.
const CLIENTS_PER_CONN: u32 = 10;
/// Number of keys from which puts choose at random.
const KEY_SPACE: &str = "1000000";
/// `--short` divides totals by this.
pub(super) const SHORT: u64 = 20;

/// The type of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    RangeLinearizable,
    RangeSerializable,
    TxnMixed,
    Watch,
    WatchLatency,
    LeaseKeepAlive,
    /// Our own load: etcd's program cannot log in.
    Login,
}

#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) kind: Kind,
    pub(super) clients: u32,
    pub(super) conns: u32,
    /// Number of requests; for the watch loads, of puts.
    pub(super) total: u64,
    /// Number of keys put before the measurement.
    pub(super) prefill: u64,
    /// True if the empty server can answer it.
    pub(super) floor: bool,
    /// True if it also runs on three members.
    pub(super) cluster: bool,
    /// True if it runs without `--loads`.
    pub(super) default: bool,
}

const WATCH_STREAMS: u64 = 10;
const WATCHERS_PER_STREAM: u64 = 100;
/// Puts per second for watch latency: far below the limit of either side.
const WATCH_LATENCY_RATE: u64 = 200;

impl Load {
    /// All loads, in the order they run.
    pub(super) fn all() -> Vec<Load> {
        let mut all = vec![
            Load::put("put-1", 1, 6_000),
            Load::put("put-100", 100, 60_000),
            Load::put("put-1000", 1000, 100_000),
        ];
        all.extend(Load::reads());
        all.extend(Load::watches());
        all.push(Load::other(
            "lease-keepalive",
            "lease keep-alive, 100 clients",
            Kind::LeaseKeepAlive,
            100_000,
            0,
        ));
        all.push(Load {
            default: false,
            ..Load::put("fill", 1000, 600_000)
        });
        all.push(Load {
            floor: false,
            default: false,
            ..Load::other(
                "login-100",
                "login of one user with the same password again, 100 clients",
                Kind::Login,
                2_000,
                0,
            )
        });
        all
    }

    fn reads() -> [Load; 3] {
        [
            Load::other(
                "range-lin-100",
                "linearizable range of one key, 100 clients",
                Kind::RangeLinearizable,
                100_000,
                10_000,
            ),
            Load::other(
                "range-ser-100",
                "serializable range of one key, 100 clients",
                Kind::RangeSerializable,
                100_000,
                10_000,
            ),
            Load::other(
                "txn-mixed-100",
                "half puts, half the first 10 of the whole store and its count, in transactions, 100 clients",
                Kind::TxnMixed,
                40_000,
                20_000,
            ),
        ]
    }

    fn watches() -> [Load; 2] {
        let watch = |name, what, kind, total| Load {
            clients: 10,
            conns: 10,
            floor: false,
            ..Load::other(name, what, kind, total, 0)
        };
        [
            watch(
                "watch-1000",
                "events to 1000 watchers of one key on 10 streams",
                Kind::Watch,
                3_000,
            ),
            watch(
                "watch-latency",
                "events to 100 watchers at 200 puts a second; p50 and p99 from put to event",
                Kind::WatchLatency,
                1_000,
            ),
        ]
    }

    fn put(name: &'static str, clients: u32, total: u64) -> Load {
        Load {
            name,
            what: "put, 32 B key of a million at random, 256 B value",
            kind: Kind::Put,
            clients,
            conns: (clients / CLIENTS_PER_CONN).max(1),
            total,
            prefill: 0,
            floor: true,
            cluster: true,
            default: true,
        }
    }

    /// A load of 100 clients that is not of puts alone.
    fn other(name: &'static str, what: &'static str, kind: Kind, total: u64, prefill: u64) -> Load {
        Load {
            what,
            kind,
            prefill,
            cluster: matches!(kind, Kind::RangeLinearizable),
            ..Load::put(name, 100, total)
        }
    }

    /// Number of operations for the table: requests answered, or events delivered.
    pub(super) fn operations(&self) -> u64 {
        match self.kind {
            Kind::Watch => self.total * WATCH_STREAMS * WATCHERS_PER_STREAM,
            Kind::WatchLatency => self.total * WATCH_STREAMS * 10,
            _ => self.total,
        }
    }

    pub(super) fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Watch | Kind::WatchLatency => "events",
            _ => "requests",
        }
    }

    /// Number of puts among the operations, by which bytes on disk are divided.
    pub(super) fn puts(&self) -> Option<u64> {
        match self.kind {
            Kind::Put => Some(self.total),
            Kind::TxnMixed => Some(self.total / 2),
            _ => None,
        }
    }

    /// Arguments for the measurement.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut args = self.connections();
        let total = self.total.to_string();
        match self.kind {
            Kind::Put => args.extend(put_arguments(&total, false)),
            Kind::RangeLinearizable => args.extend(range_arguments(&total, "l")),
            Kind::RangeSerializable => args.extend(range_arguments(&total, "s")),
            Kind::TxnMixed => {
                // Only the limit bounds its reads: they ignore --end-key, start at the first key
                // and, like every range request, count the whole store.
                args.extend(strings(&["txn-mixed", "--total", &total, "--limit", "10"]));
                args.extend(sizes());
            }
            Kind::Watch => {
                let streams = WATCH_STREAMS.to_string();
                let watchers = WATCHERS_PER_STREAM.to_string();
                args.extend(strings(&["watch", "--put-total", &total]));
                args.extend(strings(&[
                    "--streams",
                    &streams,
                    "--watch-per-stream",
                    &watchers,
                ]));
            }
            Kind::WatchLatency => {
                let rate = WATCH_LATENCY_RATE.to_string();
                let streams = WATCH_STREAMS.to_string();
                args.extend(strings(&[
                    "watch-latency",
                    "--put-total",
                    &total,
                    "--put-rate",
                    &rate,
                ]));
                args.extend(strings(&[
                    "--streams",
                    &streams,
                    "--watchers-per-stream",
                    "10",
                ]));
            }
            Kind::LeaseKeepAlive => {
                args.extend(strings(&["lease-keepalive", "--total", &total]));
            }
            Kind::Login => {}
        }
        args
    }

    /// Arguments for the prefill.
    pub(super) fn prefill_arguments(&self) -> Option<Vec<OsString>> {
        let total = self.prefill.to_string();
        let puts = || put_arguments(&total, true);
        (self.prefill > 0).then(|| self.connections().into_iter().chain(puts()).collect())
    }

    fn connections(&self) -> Vec<OsString> {
        let (clients, conns) = (self.clients.to_string(), self.conns.to_string());
        strings(&["--clients", &clients, "--conns", &conns, "--precise"])
    }
}

fn put_arguments(total: &str, sequential: bool) -> Vec<OsString> {
    let mut args = strings(&["put", "--total", total]);
    args.extend(sizes());
    if sequential {
        args.push(OsString::from("--sequential-keys"));
    }
    args
}

fn range_arguments(total: &str, consistency: &str) -> Vec<OsString> {
    strings(&[
        "range",
        READ_KEY,
        "--total",
        total,
        "--consistency",
        consistency,
    ])
}

fn sizes() -> Vec<OsString> {
    let value = VALUE_BYTES.to_string();
    strings(&[
        "--key-size",
        "32",
        "--val-size",
        &value,
        "--key-space-size",
        KEY_SPACE,
    ])
}

fn strings(args: &[&str]) -> Vec<OsString> {
    args.iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_loads_are_unique() {
        let names: std::collections::BTreeSet<_> =
            Load::all().iter().map(|load| load.name).collect();
        assert_eq!(names.len(), Load::all().len());
    }

    #[test]
    fn connections_come_before_the_command() {
        for load in Load::all() {
            assert_eq!(load.arguments()[0], "--clients", "{}", load.name);
        }
    }
}
