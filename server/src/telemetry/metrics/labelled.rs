//! Families with labels.

use super::Metrics;
use super::text::{Text, Type};
use super::value::Counter;

impl Metrics {
    pub(super) fn write_labelled(&self, text: &mut Text) {
        self.apply_duration.write(
            "op",
            &[("version", "v3")],
            &mut text.family(
                "etcd_server_apply_duration_seconds",
                Type::Histogram,
                "Time to apply an entry.",
            ),
        );
        self.request_duration.write(
            "type",
            &[],
            &mut text.family(
                "etcd_server_request_duration_seconds",
                Type::Histogram,
                "Time to answer a request.",
            ),
        );
        let mut family = text.family(
            "etcd_server_range_duration_seconds",
            Type::Histogram,
            "Time to read a range.",
        );
        for (histogram, success) in self.range_duration.iter().zip(["false", "true"]) {
            if success == "true" || histogram.read().0.last().is_some_and(|bucket| bucket.1 > 0) {
                family.histogram(&[("success", success)], histogram);
            }
        }
        let mut family = text.family(
            "etcd_server_client_requests_total",
            Type::Counter,
            "Calls by the client's API version.",
        );
        for (version, counters) in &*self.clients.read() {
            for (counter, kind) in counters.iter().zip(["unary", "stream"]) {
                if counter.get() > 0 {
                    let labels = [("client_api_version", version.as_str()), ("type", kind)];
                    family.sample(&labels, counter.get() as f64);
                }
            }
        }
        for (reason, counter) in &*self.promote_failures.read() {
            let name = "etcd_server_learner_promote_failures";
            let help = "Learners not promoted while this member led.";
            text.family(name, Type::Counter, help)
                .sample(&[("Reason", reason)], counter.get() as f64);
        }
        let broken = &self.broken_streams;
        for (api, counter) in [
            ("lease-keepalive", &broken.keep_alive),
            ("watch", &broken.watch),
        ] {
            if counter.get() > 0 {
                let name = "etcd_network_server_stream_failures_total";
                let help = "Streams of clients that broke.";
                let labels = [("API", api), ("Type", "receive")];
                text.family(name, Type::Counter, help)
                    .sample(&labels, counter.get() as f64);
            }
        }
        let mut family = text.family(
            "promhttp_metric_handler_requests_total",
            Type::Counter,
            "Scrapes by HTTP status.",
        );
        // Rendering cannot fail, so there are no other codes.
        family.sample(&[("code", "200")], self.scrapes.get() as f64);
        family
            .sample(&[("code", "500")], 0.0)
            .sample(&[("code", "503")], 0.0);
    }

    pub(super) fn write_health_checks(&self, text: &mut Text) {
        let checks = self.health_checks.read();
        let mut family = text.family(
            "etcd_server_healthcheck",
            Type::Gauge,
            "1 if the check passed last time.",
        );
        for ((name, probe), check) in &*checks {
            family.sample(
                &[("name", name), ("type", probe)],
                f64::from(u8::from(check.passing)),
            );
        }
        let mut family = text.family(
            "etcd_server_healthchecks_total",
            Type::Counter,
            "Outcomes of health checks.",
        );
        for ((name, probe), check) in &*checks {
            for (status, counter) in [("error", &check.error), ("success", &check.success)] {
                if counter.get() > 0 {
                    let labels = [("name", *name), ("status", status), ("type", *probe)];
                    family.sample(&labels, counter.get() as f64);
                }
            }
        }
    }

    /// Counts a call under its client's API version.
    pub(crate) fn client_request(&self, streaming: bool, version: &str) {
        if let Some(counters) = self.clients.read().get(version) {
            counters[usize::from(streaming)].inc();
            return;
        }
        let mut clients = self.clients.write();
        let version = if clients.len() < CLIENT_VERSIONS_MAX {
            version
        } else {
            "other"
        };
        clients.entry(version.into()).or_default()[usize::from(streaming)].inc();
    }

    /// Records the result of a check behind `/livez` or `/readyz`.
    pub(crate) fn health_check(&self, probe: &'static str, check: &'static str, passing: bool) {
        let mut checks = self.health_checks.write();
        let entry = checks.entry((check, probe)).or_default();
        entry.passing = passing;
        if passing {
            entry.success.inc()
        } else {
            entry.error.inc()
        }
    }

    /// The reasons come from the table of errors, so their number is bounded.
    pub(crate) fn promote_failed(&self, reason: String) {
        self.promote_failures
            .write()
            .entry(reason)
            .or_default()
            .inc();
    }
}

#[derive(Debug, Default)]
pub(super) struct HealthCheck {
    passing: bool,
    success: Counter,
    error: Counter,
}

/// Distinct values of `client-api-version` with a separate counter; further values share one.
pub(super) const CLIENT_VERSIONS_MAX: usize = 32;
