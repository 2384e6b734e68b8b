//! A proxy with TLS on both sides: to its clients and to the server.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::{Server, Tools};

use super::process::{self, Proxy};
use crate::harness::subject;
use crate::usual::tls::pki::{Authority, Pair, Wish};

const NAMELESS: Wish = Wish {
    common_name: "",
    hosts: &["127.0.0.1", "localhost"],
    serial: 7,
    is_expired: false,
};

struct Secure {
    dir: tempfile::TempDir,
    authority: Authority,
    ca: PathBuf,
    pair: Pair,
}

impl Secure {
    fn new() -> Secure {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("authority");
        Secure {
            ca: authority.write(&dir.path().join("ca.pem")),
            pair: authority.sign(dir.path(), "pair", &Wish::default()),
            authority,
            dir,
        }
    }

    /// A server that wants certificates; its port.
    fn serve(&self) -> (Server, u16) {
        let port = testkit::free_port();
        let server = subject::launch()
            .flag(format!("--listen-client-urls=https://127.0.0.1:{port}"))
            .flag(format!("--cert-file={}", self.pair.cert.display()))
            .flag(format!("--key-file={}", self.pair.key.display()))
            .flag(format!("--trusted-ca-file={}", self.ca.display()))
            .flag("--client-cert-auth")
            .start();
        (server.unwrap_or_else(|error| panic!("{error}")), port)
    }

    /// The flags of a proxy's way to the server.
    fn dial(&self, port: u16, own: &Pair) -> Vec<String> {
        vec![
            format!("--endpoints=https://127.0.0.1:{port}"),
            format!("--cacert={}", self.ca.display()),
            format!("--cert={}", own.cert.display()),
            format!("--key={}", own.key.display()),
        ]
    }
}

fn start(flags: &[String]) -> Proxy {
    Proxy::start(&flags.iter().map(String::as_str).collect::<Vec<_>>())
}

fn ctl(tools: &Tools, proxy: &Proxy, ca: Option<&Path>, own: Option<&Pair>) -> Output {
    let mut command = Command::new(&tools.etcdctl);
    command
        .arg(format!("--endpoints=https://{}", proxy.address()))
        .args(["--dial-timeout=5s", "--command-timeout=5s"]);
    match ca {
        Some(ca) => command.arg("--cacert").arg(ca),
        None => command.arg("--insecure-skip-tls-verify"),
    };
    if let Some(Pair { cert, key }) = own {
        command.arg("--cert").arg(cert).arg("--key").arg(key);
    }
    command.args(["put", "a", "b"]).output().unwrap()
}

#[test]
fn certificates_are_shown_and_asked_for_on_both_sides() {
    let Some(tools) = Tools::or_skip("a proxy with TLS") else {
        return;
    };
    let secure = Secure::new();
    let (_server, port) = secure.serve();
    let own = secure
        .authority
        .sign(secure.dir.path(), "nameless", &NAMELESS);
    let mut flags = secure.dial(port, &own);
    flags.extend([
        format!("--cert-file={}", secure.pair.cert.display()),
        format!("--key-file={}", secure.pair.key.display()),
        format!("--trusted-ca-file={}", secure.ca.display()),
        "--tls-max-version=TLS1.2".to_owned(),
        "--listen-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".to_owned(),
    ]);
    let proxy = start(&flags);
    let put = ctl(&tools, &proxy, Some(&secure.ca), Some(&secure.pair));
    assert!(put.status.success(), "{put:?}");
    let without = ctl(&tools, &proxy, Some(&secure.ca), None);
    assert!(!without.status.success(), "{without:?}");
    let made_up = start(&[secure.dial(port, &own), vec!["--auto-tls".to_owned()]].concat());
    let put = ctl(&tools, &made_up, None, None);
    assert!(put.status.success(), "{put:?}");
    let healthy = Command::new("curl")
        .args(["--http1.1", "-s", "-k"])
        .arg(format!("https://{}/proxy/health", made_up.address()))
        .output();
    if let Ok(healthy) = healthy {
        let text = String::from_utf8_lossy(&healthy.stdout).into_owned();
        assert!(text.contains(r#""health":"true""#), "{text}");
    }
}

#[test]
fn a_certificate_with_a_name_is_refused() {
    let secure = Secure::new();
    let mut words = vec!["start".to_owned()];
    words.push(format!("--listen-addr=127.0.0.1:{}", testkit::free_port()));
    words.extend(secure.dial(1, &secure.pair));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let refused = process::run(&words);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    let expected = format!(
        "cert has non empty Common Name (root): {}",
        secure.pair.cert.display()
    );
    assert!(
        !refused.status.success() && text.contains(&expected),
        "{text}"
    );
}
