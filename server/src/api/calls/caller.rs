//! The remote end of a connection, as far as the connection itself knows it, and the client that its
//! calls are charged to: the user named by the token or the certificate, or else the host.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::auth::Credentials;
use crate::runtime::etcd_server::EtcdServer;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::cost::{CLIENT_BYTES_MAX, Row};

/// The name for clients without an address.
const UNIX: &str = "unix";

/// The calls of a connection share its caller; other requests have it in their extensions. A request
/// without one was made inside the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// `None`: a unix socket, or an in-memory connection.
    pub remote: Option<SocketAddr>,
    /// The local address of the connection; `None` as for `remote`.
    pub local: Option<SocketAddr>,
    /// True if the connection is encrypted.
    pub tls: bool,
    /// Subject common name of the client certificate that the handshake verified, if
    /// `--client-cert-auth` says that certificates name users.
    pub common_name: Option<Arc<str>>,
    /// The row of the metrics that calls are charged to.
    pub(crate) payer: Arc<Payer>,
}

/// The row that a connection's calls are charged to.
#[derive(Debug, Default)]
pub(crate) struct Payer {
    /// For calls without a token.
    row: Row,
    /// The last token used on the connection, with its user's row: clients keep a token for long.
    user: Mutex<Option<(String, Row)>>,
}

impl Caller {
    /// Adds the row of the client that the connection identifies.
    pub(super) fn named(mut self, metrics: &Metrics) -> Caller {
        let name = match (&self.common_name, self.remote) {
            (Some(name), _) => name.to_string(),
            (None, Some(remote)) => remote.ip().to_canonical().to_string(),
            (None, None) => UNIX.to_owned(),
        };
        self.payer = Arc::new(Payer {
            row: row_of(&name, metrics),
            user: Mutex::default(),
        });
        self
    }
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
