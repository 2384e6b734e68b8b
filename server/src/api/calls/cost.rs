//! What a call is charged to in the cost metrics: its client and the prefix of its first key.

use crate::telemetry::metrics::cost::{Cost, Costs, Deed, Row};
use crate::telemetry::metrics::{Call, Metrics};
use crate::telemetry::prefix;

/// The client and the kind of work that a call is counted under.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charge {
    client: Row,
    deed: Deed,
}

impl Charge {
    pub(crate) fn begin(call: &Call, client: Row, metrics: &Metrics) -> Charge {
        let deed = call.deed;
        metrics.costs.clients.of(client, deed).requests.inc();
        Charge { client, deed }
    }

    /// Counts the call under the prefix of its first key.
    pub(crate) fn found(self, metrics: &Metrics, key: Option<&[u8]>) -> Row {
        let prefixes = &metrics.costs.prefixes;
        let row = prefixes.row(prefix::of(key.unwrap_or_default()));
        prefixes.of(row, self.deed).requests.inc();
        row
    }

    pub(crate) fn received(self, metrics: &Metrics, prefix: Option<Row>, bytes: usize) {
        for cost in self.costs(metrics, prefix) {
            cost.received.add(bytes as u64);
        }
    }

    pub(crate) fn sent(self, metrics: &Metrics, prefix: Option<Row>, bytes: usize) {
        for cost in self.costs(metrics, prefix) {
            cost.sent.add(bytes as u64);
        }
    }

    /// The client's row, and the prefix's if it is known.
    fn costs(self, metrics: &Metrics, prefix: Option<Row>) -> impl Iterator<Item = &Cost> {
        let Costs { prefixes, clients } = &metrics.costs;
        let of_prefix = prefix.map(|row| prefixes.of(row, self.deed));
        std::iter::once(clients.of(self.client, self.deed)).chain(of_prefix)
    }
}
