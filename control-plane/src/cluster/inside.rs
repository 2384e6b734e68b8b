//! Clients of an apiserver in the same process: they call its service directly, without a socket.

use apiserver::Server;
use apiserver::auth::User;
use kube::Client;
use kube::client::Body;
use tower::{ServiceBuilder, ServiceExt as _};

/// A client for a part of the control plane. It is in `system:masters`, so it may do everything, as
/// the controllers together may in a cluster where each has its own account.
pub(super) fn client(server: &Server, part: &str) -> Client {
    let user = User {
        name: format!("system:kube-{part}"),
        groups: vec!["system:masters".into(), "system:authenticated".into()],
        ..User::default()
    };
    let service = ServiceBuilder::new()
        .map_request(move |request: http::Request<Body>| {
            let mut request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(user.clone());
            request
        })
        .service(server.router().into_service().boxed_clone());
    Client::new(service, "default")
}
