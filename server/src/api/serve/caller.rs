//! Who is at the other end of a connection, as far as the connection itself knows.

use std::net::SocketAddr;
use std::sync::Arc;

use super::cost::Payer;

/// Travels in the extensions of every request that came over the connection. A request without one
/// was made inside the process.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// `None`: a unix socket, or a connection through memory.
    pub remote: Option<SocketAddr>,
    /// Where the connection ends here; `None` as for `remote`.
    pub local: Option<SocketAddr>,
    /// True if the connection is encrypted.
    pub tls: bool,
    /// Subject common name of the client certificate that the handshake verified, if
    /// `--client-cert-auth` says that certificates name users.
    pub common_name: Option<Arc<str>>,
    /// Who pays.
    pub(crate) payer: Arc<Payer>,
}
