//! Lets everybody of this machine in, for plain HTTP on loopback.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderValue, Uri};
use machinery::status::Status;

use super::notes::Notes;
use super::{Answer, Attributes, Authenticator, Authorizer, User};
use crate::storage::reader::Reader;

/// The name of this machine, and the end of others for it.
const LOCALHOST: &str = "localhost";

/// Treats every requester as the cluster's owner and allows everything, for plain HTTP on loopback.
///
/// Pages of other sites are no requesters: a browser here would send what any page asks for, and show
/// it the events of a watch over WebSocket.
#[derive(Debug, Default)]
pub struct Open;

impl Authenticator for Open {
    fn authenticate<'a>(
        &'a self,
        _: &'a Reader,
        request: &'a Parts,
        _: &'a Notes,
    ) -> Answer<'a, User> {
        let is_foreign = is_foreign(request);
        Box::pin(async move {
            if is_foreign {
                tracing::warn!("a request of a page of another site is refused");
                return Err(Status::unauthorized());
            }
            Ok(User {
                name: "system:admin".into(),
                groups: vec!["system:masters".into(), "system:authenticated".into()],
                ..User::default()
            })
        })
    }
}

impl Authorizer for Open {
    fn authorize<'a>(&'a self, _: &'a Reader, _: &'a Attributes) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Every requester would be exempt.
    fn is_exempt(&self, _: &User) -> bool {
        false
    }
}

/// True if a page of another site asks. Browsers say whose page it is with all that changes something,
/// and with WebSockets; other clients name this server, if anything.
fn is_foreign(request: &Parts) -> bool {
    let host = request.headers.get(HOST).map(HeaderValue::as_bytes);
    let authority = request.uri.authority();
    let host = host.or(authority.map(|authority| authority.as_str().as_bytes()));
    let mut origins = request.headers.get_all(ORIGIN).iter();
    origins.any(|origin| {
        let Ok(uri) = Uri::try_from(origin.as_bytes()) else {
            return !origin.is_empty();
        };
        let authority = uri.authority().filter(|_| uri.scheme().is_some());
        authority.is_none_or(|authority| {
            Some(authority.as_str().as_bytes()) != host && !is_this_machine(authority.host())
        })
    })
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    address.is_ok_and(|address| address.is_loopback())
        || host == LOCALHOST
        || host
            .strip_suffix(LOCALHOST)
            .is_some_and(|name| name.ends_with('.'))
}
