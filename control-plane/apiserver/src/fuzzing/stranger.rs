//! What anybody may send before it is known who they are: a method with a path and parameters,
//! headers, and a certificate.

use std::str::from_utf8;
use std::sync::{Arc, LazyLock};

use futures_util::FutureExt as _;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::Value;

use crate::auth::User;
use crate::auth::authenticate::config::Anonymous;
use crate::auth::authenticate::front_proxy::{self, FrontProxy};
use crate::auth::authenticate::jwt::Key;
use crate::auth::authenticate::jwt::foreign::Unchecked;
use crate::auth::authenticate::openid::Providers;
use crate::auth::authenticate::token::{Issuer, Objects};
use crate::auth::authenticate::{Credentials, StaticTokens};
use crate::auth::certificate::{Bearer, Peer, Subject};
use crate::auth::impersonate;
use crate::auth::notes::Notes;
use crate::http::media::{self, Accept};
use crate::http::question::request::{self, Info, Query, Target};
use crate::registry::strategy;
use crate::resources::catalogue::Catalogue;

const NOW: Timestamp = Timestamp {
    seconds: 1_800_000_000,
    nanos: 0,
};

/// Upper bound of the headers of a request in HTTP/1.1.
const HEADERS_MAX: usize = 100;

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::new(strategy::builtin().iter().cloned()));

/// Knows the tokens of a new key, and nobody else.
static CREDENTIALS: LazyLock<Credentials> = LazyLock::new(|| {
    let pair = rcgen::KeyPair::generate().expect("the system is random");
    let key = Key::from_pem(&pair.serialize_pem()).expect("what was written reads again");
    let name = "https://kubernetes.default.svc".to_owned();
    Credentials {
        tokens: StaticTokens::default(),
        issuer: Arc::new(Issuer::new(name.clone(), vec![name], key)),
        bootstrap: true,
        openid: Providers::default(),
        reviewer: None,
        proxies: None,
        anonymous: Anonymous::all(true),
    }
});

/// A proxy that names users in the usual headers.
static PROXY: LazyLock<FrontProxy> = LazyLock::new(|| {
    let one = |name: &str| vec![name.to_owned()];
    let options = front_proxy::Options {
        user_headers: one("X-Remote-User"),
        uid_headers: one("X-Remote-Uid"),
        group_headers: one("X-Remote-Group"),
        extra_prefixes: one("X-Remote-Extra-"),
        ..front_proxy::Options::default()
    };
    FrontProxy::new(options, String::new())
});

/// A store without objects.
struct Nothing;

impl Objects for Nothing {
    fn cached(&self, _: &'static str, _: &str, _: &str) -> Option<Arc<Value>> {
        None
    }

    async fn find(
        &self,
        _: &'static str,
        _: &str,
        _: &str,
        _: Option<&str>,
    ) -> Result<Option<Arc<Value>>, Status> {
        Ok(None)
    }
}

/// Reads a line `METHOD target`, lines `name: value`, an empty line, and a certificate in DER. Nobody
/// gets in, and what would be served is what would be authorized.
pub fn stranger(data: &[u8]) {
    let end = data.windows(2).position(|two| two == b"\n\n");
    let (head, certificate) = data.split_at(end.unwrap_or(data.len()));
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let headers: HeaderMap = lines.filter_map(header).take(HEADERS_MAX).collect();
    let _ = asks(first);
    shows(&headers);
    let certificate = certificate.get(2..).unwrap_or_default();
    // Only termination without a panic is tested.
    let _ = (Bearer::of(certificate), Subject::of(certificate));
}

fn header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = line.split_at(colon);
    let value = HeaderValue::from_bytes(value[1..].trim_ascii()).ok()?;
    Some((HeaderName::from_bytes(name).ok()?, value))
}

/// Checks a request for objects; `None` if it is none that would be served.
fn asks(line: &[u8]) -> Option<()> {
    let (method, target) = from_utf8(line).ok()?.split_once(' ')?;
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let uri: Uri = target.parse().ok()?;
    let query = Query::parse(uri.query().unwrap_or_default());
    let path = request::decoded(uri.path())?;
    let segments = request::segments(&path);
    let info = Info::read(&method, &path, &segments, &query);
    let target = request::route(&CATALOGUE, &info).ok()??;
    if request::takes(&method, &info, &target) {
        check(&method, &info, &target, &query);
    }
    Some(())
}

/// What is served is what is authorized.
fn check(method: &Method, info: &Info, target: &Target, query: &Query) {
    let asked = &info.attributes;
    let kind = &target.resource.kind;
    assert!(info.is_resource(), "{info:?}");
    assert_eq!(
        (kind.group(), kind.plural(), target.subresource.as_str()),
        (&*asked.api_group, &*asked.resource, &*asked.subresource)
    );
    // A namespace is authorized as one in itself.
    let is_itself = target.namespace.is_empty() && asked.namespace == target.name;
    assert!(target.namespace == asked.namespace || is_itself, "{info:?}");
    let reads = ["get", "list", "watch"].contains(&&*asked.verb);
    assert_eq!(reads, *method == Method::GET, "{info:?}");
    if asked.name != target.name {
        // Who may see one object may list it by a selector, which then selects nothing else.
        assert!(reads && target.name.is_empty(), "{info:?}");
        if let Ok(selectors) = query.selectors(&target.resource) {
            assert!(
                selectors.fields.requires("metadata.name", &asked.name),
                "{info:?}"
            );
        }
    }
}

/// Checks whom headers name.
fn shows(headers: &HeaderMap) {
    let notes = Notes::default();
    let asked = ("/", headers);
    let known = CREDENTIALS.known(&Nothing, &Peer::Nobody, asked, &notes, NOW);
    let known = known.now_or_never().expect("it waits for nothing");
    // No input can guess a signature.
    assert!(
        known.as_ref().is_ok_and(|user| *user == User::anonymous()) || known.is_err(),
        "{known:?}"
    );
    // Only this process itself is a user without a name.
    let named = [
        PROXY.user(headers),
        impersonate::requested(headers).unwrap_or_default(),
    ];
    for user in named.into_iter().flatten() {
        assert!(!user.is_this_process(), "{user:?}");
    }
    if let Some(token) = headers.get(AUTHORIZATION) {
        let _ = Unchecked::of(&String::from_utf8_lossy(token.as_bytes()));
    }
    let _ = (
        Accept::negotiate(headers, true),
        media::content_type(headers),
    );
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    /// Damaged is one byte in so many.
    const STEP: usize = 7;
    const HEADERS: &str = "\
        Authorization: Bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMifQ.YQ\n\
        Connection: Upgrade\nUpgrade: websocket\n\
        Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ, a\n\
        Impersonate-User: system:serviceaccount:a:b\nImpersonate-Group: c\n\
        Impersonate-Extra-Example.com%2fkey: d\n\
        X-Remote-User: e\nX-Remote-Extra-Acme.com%2fkey: f\n\
        Accept: application/json;as=Table;v=v1;g=meta.k8s.io,*/*;q=0.1\n\
        Content-Type: application/json; charset=utf-8";

    const TARGETS: [&str; 9] = [
        "GET /api/v1/namespaces/a/pods/b/log",
        "GET /api/v1/secrets?fieldSelector=metadata.name%3Da&limit=5&labelSelector=b%20in%20(c)",
        "GET /api/v1/watch/namespaces/a/pods/b",
        "POST /api/v1/namespaces/a/secrets?fieldSelector=metadata.name=b",
        "DELETE /apis/apps/v1/namespaces/a/deployments?watch=true",
        "PUT /api/v1/namespaces/a/finalize",
        "GET /api/v1//namespaces/a%2fsecrets/..",
        "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        "PATCH /api/v1/namespaces/a/serviceaccounts/b/token",
    ];

    #[test]
    fn strangers_stay_strangers_whatever_they_send() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(rcgen::DnType::CommonName, "jane");
        name.push(rcgen::DnType::OrganizationName, "devs");
        let certificate = params.self_signed(&pair).unwrap().pem();
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        for target in TARGETS {
            let whole = [target.as_bytes(), b"\n", HEADERS.as_bytes(), b"\n\n"].concat();
            let whole = [&whole, &*certificate].concat();
            stranger(&whole);
            for at in (0..whole.len()).step_by(STEP) {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << (at % 8);
                stranger(&damaged);
                stranger(&whole[..at]);
            }
        }
    }

    #[test]
    fn requests_of_the_seeds_reach_the_check() {
        let reached = TARGETS
            .iter()
            .filter(|target| asks(target.as_bytes()).is_some());
        // One is about no resource.
        assert_eq!(reached.count(), TARGETS.len() - 1);
    }
}
