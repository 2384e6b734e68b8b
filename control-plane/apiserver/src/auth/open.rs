//! Lets everybody of this machine in, for plain HTTP on loopback.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::{Authority, Uri};
use machinery::status::Status;

use super::notes::Notes;
use super::{Answer, Attributes, Authenticator, Authorizer, User};
use crate::storage::reader::Reader;

/// The name of this machine, and the end of others for it.
const LOCALHOST: &str = "localhost";

/// Treats every requester as the cluster's owner and allows everything, for plain HTTP on loopback.
///
/// Pages of other sites are no requesters: a browser here would send what any page asks for, and show
/// it the events of a watch over WebSocket. Nor is one whose own name leads here: for the browser
/// this server would be its site. So the host that is asked for must be an address, a name of this
/// machine, or a known one.
#[derive(Debug, Default)]
pub struct Open {
    names: Vec<String>,
}

impl Open {
    /// Lets in who asks for one of these names, too.
    pub fn to(names: impl IntoIterator<Item = String>) -> Open {
        let names = names.into_iter().map(|name| name.to_ascii_lowercase());
        Open {
            names: names.collect(),
        }
    }

    fn knows(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        address(&host).is_some() || is_local_name(&host) || self.names.contains(&host)
    }

    /// Refuses a request that a page of another site may have sent.
    fn check(&self, request: &Parts) -> Result<(), Status> {
        let host = host(request);
        let is_known =
            |host: &[u8]| Authority::try_from(host).is_ok_and(|one| self.knows(one.host()));
        if let Some(host) = host.filter(|host| !is_known(host)) {
            let host = String::from_utf8_lossy(host);
            tracing::warn!(%host, "a request for an unknown host is refused");
            let why = format!(
                "the host {host:?} is not known to this server, which lets everybody of this \
                 machine in: ask for an address or localhost, or set --external-hostname"
            );
            return Err(Status::new(403, "Forbidden", why));
        }
        if is_foreign(request, host) {
            tracing::warn!("a request of a page of another site is refused");
            return Err(Status::unauthorized());
        }
        Ok(())
    }
}

impl Authenticator for Open {
    fn authenticate<'a>(
        &'a self,
        _: &'a Reader,
        request: &'a Parts,
        _: &'a Notes,
    ) -> Answer<'a, User> {
        let checked = self.check(request);
        Box::pin(async move {
            checked?;
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
fn is_foreign(request: &Parts, host: Option<&[u8]>) -> bool {
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

/// The host that a request is for, with its port. Browsers always say it.
fn host(request: &Parts) -> Option<&[u8]> {
    let header = request.headers.get(HOST).map(|host| host.as_bytes());
    let authority = request.uri.authority();
    let host = header.or(authority.map(|authority| authority.as_str().as_bytes()));
    host.filter(|host| !host.is_empty())
}

fn is_this_machine(host: &str) -> bool {
    address(host).is_some_and(|address| address.is_loopback()) || is_local_name(host)
}

fn address(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

fn is_local_name(host: &str) -> bool {
    let before = host.strip_suffix(LOCALHOST);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}
