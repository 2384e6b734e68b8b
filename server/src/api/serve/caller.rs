//! The remote end of a connection, as far as the connection itself knows it.

use std::net::SocketAddr;
use std::sync::Arc;

use super::cost::Payer;

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
