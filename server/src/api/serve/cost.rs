//! Which rows of the cost metrics a call is charged to: the prefix of its first key, and its
//! client. A client is the user named by its token or certificate, or else the host it calls from.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Caller;
use crate::auth::Credentials;
use crate::runtime::etcd_server::EtcdServer;
use crate::telemetry::metrics::cost::{CLIENT_BYTES_MAX, Cost, Costs, Deed, Row};
use crate::telemetry::metrics::{Call, Metrics};
use crate::telemetry::prefix;

/// The name for clients without an address.
const UNIX: &str = "unix";

/// The row that a connection's calls are charged to.
#[derive(Debug, Default)]
pub(crate) struct Payer {
    /// For calls without a token.
    row: Row,
    /// The last token used on the connection, with its user's row: clients keep a token for long.
    user: Mutex<Option<(String, Row)>>,
}

/// Adds to the caller the row of the client that its connection identifies.
pub(super) fn named(mut caller: Caller, metrics: &Metrics) -> Caller {
    let name = match (&caller.common_name, caller.remote) {
        (Some(name), _) => name.to_string(),
        (None, Some(remote)) => remote.ip().to_canonical().to_string(),
        (None, None) => UNIX.to_owned(),
    };
    caller.payer = Arc::new(Payer {
        row: row_of(&name, metrics),
        user: Mutex::default(),
    });
    caller
}

/// The row of the client that makes this call.
pub(super) fn payer(
    caller: Option<&Caller>,
    who: Option<&Credentials>,
    server: &EtcdServer,
    metrics: &Metrics,
) -> Row {
    let Some(caller) = caller else {
        return Row::OTHER;
    };
    let payer = &caller.payer;
    let token = who.and_then(|who| who.token.as_deref());
    let Some(token) = token.filter(|_| server.is_auth_enabled()) else {
        return payer.row;
    };
    let mut last = payer.user.lock();
    if let Some((known, row)) = &*last
        && known == token
    {
        return *row;
    }
    let Some(user) = server.user_of_token(token) else {
        return payer.row;
    };
    let row = row_of(&user, metrics);
    *last = Some((token.to_owned(), row));
    row
}

fn row_of(name: &str, metrics: &Metrics) -> Row {
    let name = &name.as_bytes()[..name.len().min(CLIENT_BYTES_MAX)];
    metrics.costs.clients.row(name)
}

/// The client and the kind of work that a call is counted under.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Charge {
    client: Row,
    deed: Deed,
}

impl Charge {
    pub(super) fn begin(call: &Call, client: Row, metrics: &Metrics) -> Charge {
        let deed = call.deed;
        metrics.costs.clients.of(client, deed).requests.inc();
        Charge { client, deed }
    }

    /// Counts the call under the prefix of its first key.
    pub(super) fn found(self, metrics: &Metrics, key: Option<&[u8]>) -> Row {
        let prefixes = &metrics.costs.prefixes;
        let row = prefixes.row(prefix::of(key.unwrap_or_default()));
        prefixes.of(row, self.deed).requests.inc();
        row
    }

    pub(super) fn received(self, metrics: &Metrics, prefix: Option<Row>, bytes: usize) {
        for cost in self.costs(metrics, prefix) {
            cost.received.add(bytes as u64);
        }
    }

    pub(super) fn sent(self, metrics: &Metrics, prefix: Option<Row>, bytes: usize) {
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
