//! TLS between clients and the server, with etcd's own command line as the client.
#![expect(
    clippy::disallowed_methods,
    reason = "replaces files under a running server, as operators do"
)]

mod cluster;
pub(crate) mod pki;
mod users;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use testkit::{Launch, Server, Tools};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::subject;
use pki::{Authority, Pair, Wish};

const REJECTED: &str = "rejected connection on client endpoint";
/// For a log line that follows what was seen.
const SOON: Duration = Duration::from_secs(60);

/// A directory with an authority, and a server's certificate that it signed.
struct Pki {
    dir: tempfile::TempDir,
    authority: Authority,
    ca: PathBuf,
    server: Pair,
}

impl Pki {
    fn new() -> Pki {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("authority");
        let ca = authority.write(&dir.path().join("ca.pem"));
        let server = authority.sign(dir.path(), "server", &Wish::default());
        Pki {
            dir,
            authority,
            ca,
            server,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn client(&self, name: &str, wish: &Wish) -> Pair {
        self.authority.sign(self.dir.path(), name, wish)
    }

    /// Starts a server with the certificate; returns its port for TLS.
    fn serve(&self, flags: &[String]) -> (Server, u16) {
        self.serve_by(subject::launch(), flags)
    }

    fn serve_by(&self, launch: Launch, flags: &[String]) -> (Server, u16) {
        let port = testkit::free_port();
        let server = launch
            .flag(format!("--listen-client-urls=https://127.0.0.1:{port}"))
            .flag(format!("--cert-file={}", self.server.cert.display()))
            .flag(format!("--key-file={}", self.server.key.display()))
            .flags(flags)
            .start();
        (server.unwrap_or_else(|error| panic!("{error}")), port)
    }

    fn trust(&self) -> String {
        format!("--trusted-ca-file={}", self.ca.display())
    }
}

/// etcd's command line against one endpoint.
struct Ctl<'a> {
    tools: &'a Tools,
    endpoint: String,
    ca: Option<&'a Path>,
    own: Option<&'a Pair>,
}

impl Ctl<'_> {
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(&self.tools.etcdctl);
        command
            .arg(format!("--endpoints={}", self.endpoint))
            .args(["--dial-timeout=5s", "--command-timeout=5s"]);
        match self.ca {
            Some(ca) => command.arg("--cacert").arg(ca),
            None if self.endpoint.starts_with("https") => command.arg("--insecure-skip-tls-verify"),
            None => &mut command,
        };
        if let Some(Pair { cert, key }) = self.own {
            command.arg("--cert").arg(cert).arg("--key").arg(key);
        }
        command.args(words).output().unwrap()
    }

    fn works(&self) {
        for (words, answer) in [
            (["put", "a", "b"].as_slice(), "OK\n"),
            (&["get", "a", "--print-value-only"], "b\n"),
        ] {
            let output = self.run(words);
            let (out, error) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success() && out == answer, "{out}{error}");
        }
    }

    fn is_refused(&self) {
        let output = self.run(&["put", "a", "refused"]);
        assert!(!output.status.success(), "{}", text(&output.stdout));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn logs(server: &Server, what: &str) {
    assert!(server.wait_for_log(what, SOON), "{what}:\n{}", server.log());
    assert!(server.wait_for_log(REJECTED, SOON), "{}", server.log());
}

#[test]
fn a_trusted_authority_alone_makes_clients_show_a_certificate() {
    let Some(tools) = Tools::or_skip("mutual TLS with etcdctl") else {
        return;
    };
    let pki = Pki::new();
    // The server's own certificate as a client changes nothing for those that call it.
    let own = [
        format!("--client-cert-file={}", pki.server.cert.display()),
        format!("--client-key-file={}", pki.server.key.display()),
    ];
    let [cert, key] = own;
    let (server, port) = pki.serve(&[pki.trust(), cert, key]);
    let ctl = |own| Ctl {
        tools: &tools,
        endpoint: format!("https://127.0.0.1:{port}"),
        ca: Some(&pki.ca),
        own,
    };
    let good = pki.client("good", &Wish::default());
    ctl(Some(&good)).works();
    ctl(None).is_refused();
    logs(&server, "tls: client didn't provide a certificate");
    let other = Authority::new("authority");
    let stranger = other.sign(pki.dir.path(), "stranger", &Wish::default());
    ctl(Some(&stranger)).is_refused();
    logs(&server, "x509: certificate signed by unknown authority");
    let expired = Wish {
        is_expired: true,
        ..Wish::default()
    };
    let expired = pki.client("expired", &expired);
    ctl(Some(&expired)).is_refused();
    logs(&server, "x509: certificate has expired or is not yet valid");
    // Who speaks no TLS gets no answer.
    let plain = Ctl {
        tools: &tools,
        endpoint: format!("http://127.0.0.1:{port}"),
        ca: None,
        own: None,
    };
    plain.is_refused();
    logs(
        &server,
        "tls: first record does not look like a TLS handshake",
    );
    ctl(Some(&good)).works();
}

#[test]
fn revoked_certificates_are_refused_as_soon_as_the_list_says_so() {
    let Some(tools) = Tools::or_skip("a revocation list with etcdctl") else {
        return;
    };
    let pki = Pki::new();
    let list = pki.path("list.crl");
    pki.authority.revoke(&list, &[7]);
    let crl = format!("--client-crl-file={}", list.display());
    let (server, port) = pki.serve(&[pki.trust(), crl]);
    let numbered = |serial| Wish {
        serial,
        ..Wish::default()
    };
    let (seven, eight) = (
        pki.client("seven", &numbered(7)),
        pki.client("eight", &numbered(8)),
    );
    let ctl = |own| Ctl {
        tools: &tools,
        endpoint: format!("https://127.0.0.1:{port}"),
        ca: Some(&pki.ca),
        own: Some(own),
    };
    ctl(&eight).works();
    ctl(&seven).is_refused();
    logs(&server, "transport: certificate serial 07 revoked");
    pki.authority.revoke(&list, &[8]);
    ctl(&seven).works();
    ctl(&eight).is_refused();
    logs(&server, "transport: certificate serial 08 revoked");
}

#[test]
fn only_allowed_names_are_let_in() {
    let Some(tools) = Tools::or_skip("allowed names with etcdctl") else {
        return;
    };
    let pki = Pki::new();
    let named = |common_name, hosts| Wish {
        common_name,
        hosts,
        ..Wish::default()
    };
    let inside = pki.client("inside", &named("in", &["a.example.com"]));
    let outside = pki.client("outside", &named("out", &["a.example.org"]));
    let by_host = "--client-cert-allowed-hostname=b.example.net,a.example.com";
    let mut flags = vec![by_host];
    if !subject::is_etcd() {
        // etcd has no flag for this, only a key of its file.
        flags.push("--client-cert-allowed-cn=other,in");
    }
    for flag in flags {
        let (server, port) = pki.serve(&[pki.trust(), flag.to_owned()]);
        let ctl = |own| Ctl {
            tools: &tools,
            endpoint: format!("https://127.0.0.1:{port}"),
            ca: Some(&pki.ca),
            own: Some(own),
        };
        ctl(&inside).works();
        ctl(&outside).is_refused();
        logs(&server, "client certificate authentication failed");
    }
}

#[test]
fn a_made_up_certificate_serves_and_is_kept() {
    let Some(tools) = Tools::or_skip("--auto-tls with etcdctl") else {
        return;
    };
    let port = testkit::free_port();
    let mut server = subject::launch()
        .flag(format!("--listen-client-urls=https://127.0.0.1:{port}"))
        .flags(&["--auto-tls", "--self-signed-cert-validity=2"])
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    let ctl = Ctl {
        tools: &tools,
        endpoint: format!("https://127.0.0.1:{port}"),
        ca: None,
        own: None,
    };
    ctl.works();
    assert!(server.log().contains("automatically generate certificates"));
    let fixtures = server.data_dir().join("fixtures/client");
    let made = std::fs::read_to_string(fixtures.join("cert.pem")).unwrap();
    assert!(fixtures.join("key.pem").exists());
    server.kill_and_restart();
    ctl.works();
    let kept = std::fs::read_to_string(fixtures.join("cert.pem")).unwrap();
    assert_eq!(made, kept);
}

/// Both the server's certificate and the authority of its clients, in place and by renaming, as
/// tools and as Kubernetes' mounts do it.
#[test]
fn an_authority_is_replaced_under_a_running_server() {
    let Some(tools) = Tools::or_skip("rotation with etcdctl") else {
        return;
    };
    let pki = Pki::new();
    let (server, port) = pki.serve(&[pki.trust()]);
    fn ctl<'a>(tools: &'a Tools, port: u16, ca: &'a Path, own: &'a Pair) -> Ctl<'a> {
        Ctl {
            tools,
            endpoint: format!("https://127.0.0.1:{port}"),
            ca: Some(ca),
            own: Some(own),
        }
    }
    let old_client = pki.client("old", &Wish::default());
    // The server reads and writes its own; clients keep a copy.
    let old_ca = pki.authority.write(&pki.path("old-ca.pem"));
    ctl(&tools, port, &old_ca, &old_client).works();
    let mut last = (old_ca, old_client);
    for round in ["first", "second"] {
        let next = Authority::new(round);
        let ca = next.write(&pki.path(&format!("{round}-ca.pem")));
        let client = next.sign(pki.dir.path(), round, &Wish::default());
        if round == "first" {
            next.write(&pki.ca);
            next.sign(pki.dir.path(), "server", &Wish::default());
        } else {
            let aside = next.sign(pki.dir.path(), "aside", &Wish::default());
            std::fs::rename(aside.key, &pki.server.key).unwrap();
            std::fs::rename(aside.cert, &pki.server.cert).unwrap();
            std::fs::rename(next.write(&pki.path("aside-ca.pem")), &pki.ca).unwrap();
        }
        ctl(&tools, port, &ca, &client).works();
        // The server is another now, and so are those it believes.
        ctl(&tools, port, &last.0, &last.1).is_refused();
        ctl(&tools, port, &ca, &last.1).is_refused();
        last = (ca, client);
    }
    logs(&server, "x509: certificate signed by unknown authority");
}

#[test]
fn clear_text_and_tls_are_served_on_one_port_and_on_several() {
    let Some(tools) = Tools::or_skip("http and https with etcdctl") else {
        return;
    };
    let pki = Pki::new();
    let (one, two) = (testkit::free_port(), testkit::free_port());
    // etcd's client takes the name of the file for that of the server.
    let socket = format!("unixs://{}", pki.path("localhost").display());
    let urls = format!("http://127.0.0.1:{one},https://127.0.0.1:{one},https://localhost:{two}");
    let (server, _) = pki.serve(&[format!("--listen-client-urls={urls},{socket}")]);
    for endpoint in [
        format!("http://127.0.0.1:{one}"),
        format!("https://127.0.0.1:{one}"),
        format!("https://127.0.0.1:{two}"),
        socket,
    ] {
        let is_secure = !endpoint.starts_with("http:");
        let ctl = Ctl {
            tools: &tools,
            endpoint,
            ca: is_secure.then_some(pki.ca.as_path()),
            own: None,
        };
        ctl.works();
    }
    for line in ["serving client traffic securely", "traffic insecurely"] {
        assert!(server.log().contains(line), "{}", server.log());
    }
}

/// What a connection from within the test shows and believes.
fn connector(pki: &Pki, own: &Pair, protocols: &[&str]) -> TlsConnector {
    TlsConnector::from(Arc::new(client_config(&pki.ca, own, protocols)))
}

fn client_config(ca: &Path, own: &Pair, protocols: &[&str]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(ca).unwrap())
        .unwrap();
    let chain = vec![CertificateDer::from_pem_file(&own.cert).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    config
}

async fn connect(connector: &TlsConnector, port: u16) -> TlsStream<TcpStream> {
    let socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    connector.connect(name, socket).await.unwrap()
}

#[tokio::test]
async fn http2_over_tls_carries_pages_too_and_sessions_are_resumed() {
    let pki = Pki::new();
    let metrics = testkit::free_port();
    let (_server, port) = pki.serve(&[
        pki.trust(),
        format!("--listen-metrics-urls=https://127.0.0.1:{metrics}"),
    ]);
    let own = pki.client("own", &Wish::default());
    let connector = connector(&pki, &own, &["h2"]);
    for (port, page) in [(metrics, "/health"), (port, "/version"), (port, "/health")] {
        let stream = connect(&connector, port).await;
        let io = hyper_util::rt::TokioIo::new(stream);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io)
            .await
            .unwrap();
        tokio::spawn(connection);
        let request = http::Request::get(format!("https://127.0.0.1:{port}{page}"))
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200, "{page}");
    }
    let stream = connect(&connector, port).await;
    let kind = stream.get_ref().1.handshake_kind();
    assert_eq!(kind, Some(HandshakeKind::Resumed));
}

/// Half-open handshakes cost neither a thread nor the clients that come after them.
#[tokio::test]
async fn handshakes_that_never_end_are_in_nobodys_way() {
    let Some(tools) = Tools::or_skip("idle handshakes beside etcdctl") else {
        return;
    };
    let pki = Pki::new();
    let (_server, port) = pki.serve(&[]);
    let mut idle = Vec::new();
    let own = pki.client("own", &Wish::default());
    let config = Arc::new(client_config(&pki.ca, &own, &["h2"]));
    for begun in 0..200_usize {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        // Nothing at all, a few bytes, all that a client says first; never what it says last.
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut client = rustls::ClientConnection::new(Arc::clone(&config), name).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        let sent = match begun % 8 {
            7 => &hello[..],
            few => &hello[..few],
        };
        tokio::io::AsyncWriteExt::write_all(&mut stream, sent)
            .await
            .unwrap();
        idle.push(stream);
    }
    let ctl = Ctl {
        tools: &tools,
        endpoint: format!("https://127.0.0.1:{port}"),
        ca: Some(&pki.ca),
        own: None,
    };
    ctl.works();
}

#[tokio::test]
async fn what_cannot_serve_is_refused_at_start() {
    let pki = Pki::new();
    let port = testkit::free_port();
    let cert = format!("--cert-file={}", pki.server.cert.display());
    let key = format!("--key-file={}", pki.server.key.display());
    let other = pki.client("other", &Wish::default());
    let cases: [(&[String], &str); 4] = [
        (
            &[],
            "TLS key/cert (--cert-file, --key-file) must be provided for client url",
        ),
        (
            std::slice::from_ref(&cert),
            "KeyFile and CertFile must both be present",
        ),
        (
            &[cert.clone(), format!("--key-file={}", other.key.display())],
            "tls: private key does not match public key",
        ),
        (
            &[cert.clone(), key, "--cipher-suites=TLS_NONE".to_owned()],
            "unexpected TLS cipher suite",
        ),
    ];
    for (flags, reason) in cases {
        let started = subject::launch()
            .flag(format!("--listen-client-urls=https://127.0.0.1:{port}"))
            .flags(flags)
            .start();
        let error = started.err().unwrap();
        assert_eq!(error.status.and_then(|status| status.code()), Some(1));
        assert!(error.log.contains(reason), "{reason}: {error}");
    }
}
