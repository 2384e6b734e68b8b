//! Users named by certificates, compared with etcd.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use testkit::{Launch, Tools};
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;

use super::pki::Wish;
use super::{Pki, connect, connector};
use crate::beside_etcd::auth::CHEAP;
use crate::beside_etcd::auth::ask::{Request, ask};
use crate::beside_etcd::auth::cluster::{add_users, get, login, put};
use crate::harness::subject;

/// Of the token `nonsense`, as logs show it.
const NONSENSE: &str = "999aaa8645bb";

/// Headers that are the server's own affair.
const OWN_HEADERS: [&str; 3] = ["date", "content-length", "transfer-encoding"];

/// Connections with the certificates of several clients to one server.
struct Side {
    port: u16,
    /// By common name: for calls, and for pages.
    connectors: BTreeMap<&'static str, [TlsConnector; 2]>,
    said: Vec<String>,
}

impl Side {
    async fn client(&self, name: &str) -> Client {
        let (connector, port) = (self.connectors[name][0].clone(), self.port);
        let dial = tower::service_fn(move |_| {
            let connector = connector.clone();
            async move { Ok::<_, io::Error>(TokioIo::new(connect(&connector, port).await)) }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        Client::new(endpoint.connect_with_connector(dial).await.unwrap())
    }

    async fn ask(&mut self, name: &str, request: &Request, token: Option<&str>) {
        let client = self.client(name).await;
        let asked = ask(&client, request, token).await.shown;
        let with = token.map_or("", |_| " and a token");
        self.said
            .push(format!("{name}{with}: {request:?}: {asked:?}"));
    }

    /// Over HTTP/1.1.
    async fn page(&mut self, name: &str, verb: &str, path: &str, token: Option<&str>) {
        let stream = connect(&self.connectors[name][1], self.port).await;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut request = http::Request::builder().method(verb).uri(path);
        // Who says nothing about this comes to etcd in the name of its own certificate.
        request = request.header("Host", "localhost").header("Accept", "*/*");
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        let body = Full::new(Bytes::from_static(br#"{"key":"YQ=="}"#));
        let answer = sender
            .send_request(request.body(body).unwrap())
            .await
            .unwrap();
        let (head, body) = answer.into_parts();
        let names = head.headers.iter();
        let headers: BTreeMap<_, _> = names
            .map(|(name, value)| (name.as_str(), value))
            // Over TLS etcd's own calls come by the door of its pages, and bring their headers.
            .filter(|(name, _)| !OWN_HEADERS.contains(name) && !name.starts_with("grpc-metadata-"))
            .collect();
        let headers = format!("{headers:?}");
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        // Of an answer from the store only that there is one: it names the server.
        let body = if head.status == 200 { "" } else { &body };
        let status = head.status;
        self.said
            .push(format!("{name}: {verb} {path}: {status} {headers} {body}"));
    }
}

/// What each may who comes with a certificate, and with what else.
async fn scene(side: &mut Side) {
    let range = "/v3/kv/range";
    // Nobody is asked for before there are users.
    side.page("alice", "POST", range, None).await;
    add_users(&side.client("alice").await).await;
    let watch = |key: &'static [u8]| {
        Request::Watch(pb::WatchCreateRequest {
            key: Bytes::from_static(key),
            ..Default::default()
        })
    };
    for name in ["alice", "root", "mallory", ""] {
        for request in [
            get(b"a", false),
            put(b"a"),
            put(b"b"),
            watch(b"a"),
            watch(b"b"),
            Request::UserList,
            Request::Status,
            Request::Defragment,
        ] {
            side.ask(name, &request, None).await;
        }
    }
    // The token counts, even if it is none.
    let root = login(&side.client("alice").await, "root", "root").await;
    for name in ["alice", ""] {
        side.ask(name, &put(b"b"), Some(&root)).await;
        side.ask(name, &put(b"a"), Some("nonsense")).await;
    }
    for name in ["alice", "mallory", ""] {
        side.page(name, "POST", range, None).await;
        side.page(name, "POST", range, Some(&root)).await;
    }
    for (verb, path) in [
        ("POST", "/v3beta/kv/range"),
        ("POST", "/v3/nowhere"),
        ("OPTIONS", range),
        ("GET", "/v3"),
        ("GET", "/v3/watch"),
        ("GET", "/version"),
        ("GET", "/health"),
    ] {
        side.page("alice", verb, path, None).await;
    }
}

#[tokio::test]
async fn certificates_name_users_but_not_at_the_gateway() {
    let Some(tools) = Tools::or_skip("users by certificate beside etcd") else {
        return;
    };
    let pki = Pki::new();
    let connectors = || {
        let named = ["alice", "root", "mallory", ""].map(|common_name| {
            let wish = Wish {
                common_name,
                ..Wish::default()
            };
            let own = pki.client(&format!("client-{common_name}"), &wish);
            (
                common_name,
                ["h2", "http/1.1"].map(|protocol| connector(&pki, &own, &[protocol])),
            )
        });
        BTreeMap::from(named)
    };
    let mut said = Vec::new();
    for launch in [Launch::etcd(&tools), subject::launch()] {
        let flags = [
            pki.trust(),
            "--client-cert-auth".to_owned(),
            CHEAP.to_owned(),
        ];
        let (server, port) = pki.serve_by(launch, &flags);
        let mut side = Side {
            port,
            connectors: connectors(),
            said: Vec::new(),
        };
        scene(&mut side).await;
        let log = server.log();
        let told = format!("\"token-fingerprint\":\"{NONSENSE}\"");
        assert!(log.contains(&told), "{log}");
        said.push(side.said);
    }
    assert_eq!(said[0].len(), said[1].len());
    let both = said[0].iter().zip(&said[1]);
    let differ: Vec<_> = both.filter(|(etcd, stele)| etcd != stele).collect();
    assert!(differ.is_empty(), "{differ:#?}");
    let refusals = said[1]
        .iter()
        .filter(|line| line.contains("CommonName of client"));
    assert!(refusals.count() >= 6, "{:#?}", said[1]);

    // Without the flag a certificate says only that its owner is let in.
    let (_server, port) = pki.serve(&[pki.trust(), CHEAP.to_owned()]);
    let mut side = Side {
        port,
        connectors: connectors(),
        said: Vec::new(),
    };
    add_users(&side.client("alice").await).await;
    side.ask("alice", &put(b"a"), None).await;
    assert!(
        side.said[0].contains("user name is empty"),
        "{:?}",
        side.said
    );
}
