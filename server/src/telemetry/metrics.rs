//! Everything on `/metrics`, under etcd's names.
//!
//! [`Metrics`] holds what the actors count while they work. Values read only when metrics are
//! scraped (sizes, revisions, leadership) come from a [`Scrape`]. Metric families of features that
//! do not exist here are present with the value zero.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::RwLock;

mod calls;
mod chores;
pub(crate) mod cost;
mod labelled;
mod network;
mod operation;
pub(crate) mod process;
mod scrape;
mod text;
mod value;

#[cfg(test)]
mod tests;

pub(crate) use calls::{
    CODES, Call, CallType, Calls, METHODS, Method, Service, find as find_method,
};
pub(crate) use chores::Chore;
pub(crate) use chores::Chores;
pub(crate) use network::{Network, Traffic, Transfers};
pub(crate) use operation::{Durations, Operation};
pub(crate) use value::{Buckets, Counter, Gauge, Histogram, Unit};

use crate::state::Tally;
use cost::Costs;
use labelled::HealthCheck;
pub(crate) use scrape::Scrape;
use scrape::write_scrape;
use text::{Text, Type};

/// Reported in place of etcd's Go version.
pub(crate) const GO_VERSION: &str = "none";

/// 1 ms to 8 s: the buckets of most durations in etcd.
const MILLIS: Buckets = Buckets {
    first: 0.001,
    count: 14,
};
/// 0.1 ms to 52 s.
const APPLY: Buckets = Buckets {
    first: 0.0001,
    count: 20,
};
const HASH: Buckets = Buckets {
    first: 0.01,
    count: 15,
};

/// What a turn of the applier did.
#[derive(Debug, Default)]
pub struct Counts {
    pub tally: Tally,
    /// Entries by operation, and whether they succeeded.
    pub applied: Vec<(Operation, bool)>,
    /// Times to live in seconds, of new leases.
    pub leases_granted: Vec<i64>,
    pub leases_revoked: u64,
    pub leases_renewed: u64,
    pub leases_expired: u64,
    pub compacted_rows: Option<usize>,
    /// Steps of chores, and the time of each.
    pub chores: Vec<(Chore, Duration)>,
    /// A compaction ended, so long after it began.
    pub compaction_took: Option<Duration>,
}

/// How a field of [`Metrics`] is rendered.
trait Render {
    const TYPE: Type;
    fn render(&self, family: &mut text::Family<'_>);
}

impl Render for Counter {
    const TYPE: Type = Type::Counter;
    fn render(&self, family: &mut text::Family<'_>) {
        family.sample(&[], self.get() as f64);
    }
}

impl Render for Gauge {
    const TYPE: Type = Type::Gauge;
    fn render(&self, family: &mut text::Family<'_>) {
        family.sample(&[], self.get() as f64);
    }
}

impl Render for Histogram {
    const TYPE: Type = Type::Histogram;
    fn render(&self, family: &mut text::Family<'_>) {
        family.histogram(&[], self);
    }
}

/// Declares the unlabelled families once: field, type, constructor, name, help.
macro_rules! families {
    ($($field:ident: $type:ty = $make:expr, $name:literal, $help:literal;)*) => {
        #[derive(Debug)]
        pub(crate) struct Metrics {
            $(#[doc = $help] pub $field: $type,)*
            /// gRPC calls by method.
            pub calls: Calls,
            /// Calls by key prefix and by client.
            pub(crate) costs: Costs,
            /// Time to apply an entry, by operation.
            pub apply_duration: Durations,
            /// Time to answer a client, by operation.
            pub request_duration: Durations,
            /// Time to read a range, failed and successful.
            pub range_duration: [Histogram; 2],
            /// Calls by kind (`unary`, `stream`) and `client-api-version`.
            clients: RwLock<BTreeMap<String, [Counter; 2]>>,
            pub chores: Chores,
            /// Traffic by remote member.
            pub network: Network,
            /// Failed promotions of learners on this member, by reason.
            promote_failures: RwLock<BTreeMap<String, Counter>>,
            /// Scrapes answered.
            pub scrapes: Counter,
            health_checks: RwLock<BTreeMap<(&'static str, &'static str), HealthCheck>>,
            /// Client streams that broke while being read, by kind.
            pub broken_streams: BrokenStreams,
        }

        impl Default for Metrics {
            fn default() -> Self {
                Metrics {
                    $($field: $make,)*
                    calls: Calls::default(),
                    costs: Costs::default(),
                    apply_duration: Durations::new(APPLY),
                    request_duration: Durations::new(MILLIS),
                    range_duration: [seconds(APPLY), seconds(APPLY)],
                    clients: RwLock::default(),
                    chores: Chores::default(),
                    network: Network::default(),
                    promote_failures: RwLock::default(),
                    scrapes: Counter::default(),
                    health_checks: RwLock::default(),
                    broken_streams: BrokenStreams::default(),
                }
            }
        }

        impl Metrics {
            fn write_plain(&self, text: &mut Text) {
                $(self.$field.render(&mut text.family($name, <$type as Render>::TYPE, $help));)*
            }
        }
    };
}

families! {
    backend_commit: Histogram = seconds(MILLIS), "etcd_disk_backend_commit_duration_seconds", "Time to make durable what a checkpoint has written.";
    backend_commit_rebalance: Histogram = seconds(MILLIS), "etcd_debugging_disk_backend_commit_rebalance_duration_seconds", "A step of etcd's commits that does not exist here.";
    backend_commit_spill: Histogram = seconds(MILLIS), "etcd_debugging_disk_backend_commit_spill_duration_seconds", "A step of etcd's commits that does not exist here.";
    backend_commit_write: Histogram = seconds(MILLIS), "etcd_debugging_disk_backend_commit_write_duration_seconds", "Time to write and sync the end of a checkpoint: all of a commit here.";
    backend_snapshot: Histogram = seconds(Buckets { first: 0.01, count: 17 }), "etcd_disk_backend_snapshot_duration_seconds", "Time to send a snapshot of the data.";
    client_received_bytes: Counter = Counter::default(), "etcd_network_client_grpc_received_bytes_total", "Bytes of messages received from clients.";
    client_sent_bytes: Counter = Counter::default(), "etcd_network_client_grpc_sent_bytes_total", "Bytes of messages sent to clients.";
    compaction_keys: Counter = Counter::default(), "etcd_debugging_mvcc_db_compaction_keys_total", "Revisions removed by compactions.";
    compaction_last: Gauge = Gauge::default(), "etcd_debugging_mvcc_db_compaction_last", "When the last compaction ended, in Unix time.";
    compaction_pause: Histogram = Histogram::new(Unit::Milliseconds, Buckets { first: 1.0, count: 13 }), "etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds", "Time of one step of a compaction.";
    compaction_total: Histogram = Histogram::new(Unit::Milliseconds, Buckets { first: 100.0, count: 14 }), "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds", "Time of a whole compaction.";
    defrag: Histogram = seconds(Buckets { first: 0.1, count: 13 }), "etcd_disk_backend_defrag_duration_seconds", "Time of a defragmentation.";
    defrag_inflight: Gauge = Gauge::default(), "etcd_disk_defrag_inflight", "1 while a defragmentation runs.";
    delete_total: Counter = Counter::default(), "etcd_mvcc_delete_total", "Range deletions, those in transactions included.";
    disk_available: Gauge = Gauge::default(), "stele_disk_available_bytes", "Space on the disk of the store that this process may use.";
    encryption_key: Gauge = Gauge::default(), "stele_encryption_key_id", "Id of the key that new data is sealed under; 0: it is not.";
    encryption_left_bytes: Gauge = Gauge::default(), "stele_encryption_reseal_left_bytes", "Bytes of pages that re-sealing has not looked at.";
    reencryption_in_progress: Gauge = Gauge::default(), "stele_encryption_reseal_in_progress", "1 while data may be left that is sealed otherwise than new data is.";
    events_total: Counter = Counter::default(), "etcd_debugging_mvcc_events_total", "Events sent to watches.";
    hash: Histogram = seconds(HASH), "etcd_mvcc_hash_duration_seconds", "Time to hash the whole store.";
    hash_revision: Histogram = seconds(HASH), "etcd_mvcc_hash_rev_duration_seconds", "Time to hash the store up to a revision.";
    health_failures: Counter = Counter::default(), "etcd_server_health_failures", "Health checks failed.";
    health_success: Counter = Counter::default(), "etcd_server_health_success", "Health checks passed.";
    heartbeat_send_failures: Counter = Counter::default(), "etcd_server_heartbeat_send_failures_total", "Heartbeats the leader sent too late.";
    index_compaction_pause: Histogram = Histogram::new(Unit::Milliseconds, Buckets { first: 0.5, count: 14 }), "etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds", "A step of etcd's compactions that does not exist here.";
    is_learner: Gauge = Gauge::default(), "etcd_server_is_learner", "1 if this member is a learner.";
    learner_promote_successes: Counter = Counter::default(), "etcd_server_learner_promote_successes", "Learners promoted while this member led.";
    lease_expired: Counter = Counter::default(), "etcd_debugging_server_lease_expired_total", "Leases that expired.";
    lease_granted: Counter = Counter::default(), "etcd_debugging_lease_granted_total", "Leases granted.";
    lease_renewed: Counter = Counter::default(), "etcd_debugging_lease_renewed_total", "Leases renewed while this member led.";
    lease_revoked: Counter = Counter::default(), "etcd_debugging_lease_revoked_total", "Leases revoked.";
    lease_ttl: Histogram = Histogram::new(Unit::One, Buckets { first: 1.0, count: 24 }), "etcd_debugging_lease_ttl_total", "Times to live of leases, in seconds.";
    log_disk_available: Gauge = Gauge::default(), "stele_log_disk_available_bytes", "Space on the disk of the log that this process may use.";
    metrics_in_flight: Gauge = Gauge::default(), "promhttp_metric_handler_requests_in_flight", "Scrapes under way.";
    pending_events: Gauge = Gauge::default(), "etcd_debugging_mvcc_pending_events_total", "Events waiting to be sent.";
    proposals_pending: Gauge = Gauge::default(), "etcd_server_proposals_pending", "Proposals waiting.";
    proposals_failed: Counter = Counter::default(), "etcd_server_proposals_failed_total", "Proposals that failed.";
    proxy_cache_hits: Gauge = Gauge::default(), "etcd_grpc_proxy_cache_hits_total", "Of a proxy; zero on a member.";
    proxy_cache_keys: Gauge = Gauge::default(), "etcd_grpc_proxy_cache_keys_total", "Of a proxy; zero on a member.";
    proxy_cache_misses: Gauge = Gauge::default(), "etcd_grpc_proxy_cache_misses_total", "Of a proxy; zero on a member.";
    proxy_events_coalescing: Counter = Counter::default(), "etcd_grpc_proxy_events_coalescing_total", "Of a proxy; zero on a member.";
    proxy_watchers_coalescing: Gauge = Gauge::default(), "etcd_grpc_proxy_watchers_coalescing_total", "Of a proxy; zero on a member.";
    put_bytes: Gauge = Gauge::default(), "etcd_debugging_mvcc_total_put_size_in_bytes", "Bytes of keys and values put.";
    put_total: Counter = Counter::default(), "etcd_mvcc_put_total", "Puts, those in transactions included.";
    range_total: Counter = Counter::default(), "etcd_mvcc_range_total", "Ranges read, those in transactions included.";
    read_indexes_failed: Counter = Counter::default(), "etcd_server_read_indexes_failed_total", "Read index requests that failed.";
    replies_held: Gauge = Gauge::default(), "stele_replies_held_bytes", "Bytes of large replies that are being made or sent.";
    slow_apply: Counter = Counter::default(), "etcd_server_slow_apply_total", "Entries that took long to apply.";
    slow_read_indexes: Counter = Counter::default(), "etcd_server_slow_read_indexes_total", "Read index requests that took long.";
    slow_watchers: Gauge = Gauge::default(), "etcd_debugging_mvcc_slow_watcher_total", "Watches that read history to catch up.";
    snapshot_apply_in_progress: Gauge = Gauge::default(), "etcd_server_snapshot_apply_in_progress_total", "1 while a snapshot is applied.";
    snapshot_db_fsync: Histogram = seconds(MILLIS), "etcd_snap_db_fsync_duration_seconds", "Time to sync a received snapshot.";
    snapshot_db_save: Histogram = seconds(Buckets { first: 0.1, count: 10 }), "etcd_snap_db_save_total_duration_seconds", "Time to save a received snapshot.";
    snapshot_fsync: Histogram = seconds(MILLIS), "etcd_snap_fsync_duration_seconds", "Time to sync the end of a checkpoint.";
    snapshot_marshalling: Histogram = seconds(MILLIS), "etcd_debugging_snap_save_marshalling_duration_seconds", "A step of etcd's snapshot files that does not exist here.";
    snapshot_save: Histogram = seconds(MILLIS), "etcd_debugging_snap_save_total_duration_seconds", "Time of a whole checkpoint, with its rests.";
    store_expires: Counter = Counter::default(), "etcd_debugging_store_expires_total", "Of etcd's old store; always zero here.";
    store_watch_requests: Counter = Counter::default(), "etcd_debugging_store_watch_requests_total", "Of etcd's old store; always zero here.";
    store_watchers: Gauge = Gauge::default(), "etcd_debugging_store_watchers", "Of etcd's old store; always zero here.";
    txn_total: Counter = Counter::default(), "etcd_mvcc_txn_total", "Transactions of more than one operation.";
    views_held_bytes: Gauge = Gauge::default(), "stele_views_held_back_bytes", "Bytes of the store's file that would be free if no view could read them.";
    views_oldest: Gauge = Gauge::default(), "stele_views_oldest_age_seconds", "Age of the oldest view of an older state of the store, since the checkpoint after it.";
    views_open: Gauge = Gauge::default(), "stele_views_open", "Older states of the store that readers still hold.";
    wal_bytes: Gauge = Gauge::default(), "etcd_disk_wal_write_bytes_total", "Bytes written to the log.";
    wal_entries_fetched: Counter = Counter::default(), "stele_wal_entries_fetched_total", "Entries read from the log on disk for members that were away.";
    wal_fsync: Histogram = seconds(MILLIS), "etcd_disk_wal_fsync_duration_seconds", "Time to sync the log.";
    wal_kept: Gauge = Gauge::default(), "stele_wal_kept_bytes", "Bytes of the log that only members that were away may need.";
    wal_write: Histogram = seconds(MILLIS), "etcd_disk_wal_write_duration_seconds", "Time to write to the log.";
    watch_control_stream: Histogram = seconds(MILLIS), "etcd_debugging_server_watch_send_loop_control_stream_duration_seconds", "Time to send a control message of a watch stream.";
    watch_progress: Histogram = seconds(MILLIS), "etcd_debugging_server_watch_send_loop_progress_duration_seconds", "Time to send progress notifications.";
    watch_send: Histogram = seconds(MILLIS), "etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds", "Time to send events.";
    watch_send_per_event: Histogram = seconds(MILLIS), "etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds", "Time to send events, divided by their number.";
    watch_streams: Gauge = Gauge::default(), "etcd_debugging_mvcc_watch_stream_total", "Watch streams open.";
    watchers: Gauge = Gauge::default(), "etcd_debugging_mvcc_watcher_total", "Watches open.";
}

#[derive(Debug, Default)]
pub(crate) struct BrokenStreams {
    pub watch: Counter,
    pub keep_alive: Counter,
}

impl Metrics {
    /// Adds the operations on keys that requests have made.
    pub(crate) fn tally(&self, tally: &Tally) {
        self.range_total.add(tally.ranges);
        self.put_total.add(tally.puts);
        self.delete_total.add(tally.deletes);
        self.txn_total.add(tally.txns);
        self.put_bytes.add(tally.put_bytes as i64);
    }

    /// Adds what the applier did in a turn that took `elapsed` and ended at `unix`. The turn's time
    /// is divided evenly among its entries: reading the clock for each would cost a tenth of a put.
    pub(crate) fn applied(&self, counts: &mut Counts, elapsed: Duration, unix: Duration) {
        self.tally(&std::mem::take(&mut counts.tally));
        let each = elapsed / u32::try_from(counts.applied.len().max(1)).unwrap_or(u32::MAX);
        for same in counts.applied.chunk_by(|a, b| a == b) {
            let (operation, success) = same[0];
            let histogram = self.apply_duration.of(operation, success);
            histogram.observe_each(each, same.len() as u64);
        }
        counts.applied.clear();
        for ttl in counts.leases_granted.drain(..) {
            self.lease_granted.inc();
            self.lease_ttl.observe_count(ttl.unsigned_abs());
        }
        self.lease_revoked
            .add(std::mem::take(&mut counts.leases_revoked));
        self.lease_renewed
            .add(std::mem::take(&mut counts.leases_renewed));
        self.lease_expired
            .add(std::mem::take(&mut counts.leases_expired));
        for (chore, took) in counts.chores.drain(..) {
            self.chores.worked(chore, took);
        }
        if let Some(rows) = counts.compacted_rows.take() {
            self.compaction_keys.add(rows as u64);
            self.compaction_pause.observe(elapsed);
        }
        if let Some(took) = counts.compaction_took.take() {
            self.compaction_total.observe(took);
            self.compaction_last.set(unix.as_secs() as i64);
        }
    }

    /// A checkpoint corresponds to etcd's backend commits and snapshot files. It is slow on
    /// purpose, so only its `end`, the sync that makes it durable, shows whether the disk is slow.
    pub(crate) fn checkpointed(&self, whole: Duration, end: Duration) {
        self.backend_commit.observe(end);
        self.backend_commit_write.observe(end);
        self.snapshot_fsync.observe(end);
        self.snapshot_save.observe(whole);
    }

    /// Renders everything in Prometheus' text format.
    pub(crate) fn render(&self, scrape: &Scrape) -> String {
        let mut text = Text::default();
        self.write_plain(&mut text);
        self.write_labelled(&mut text);
        self.write_health_checks(&mut text);
        self.network.write(scrape.member_id, &mut text);
        self.calls.write(scrape.extensive, &mut text);
        self.costs.write(&mut text);
        self.chores.write(&mut text);
        write_scrape(scrape, &mut text);
        process::write(&mut text);
        text.finish()
    }
}

fn seconds(buckets: Buckets) -> Histogram {
    Histogram::new(Unit::Seconds, buckets)
}
