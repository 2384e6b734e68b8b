//! Discovery by the SRV records of a domain.
#![expect(
    clippy::disallowed_methods,
    reason = "a test around processes has files"
)]

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value as Json;
use testkit::Tools;

use super::{STELE, names, said};
use crate::harness::fleet::{Process, ctl, wait};
use crate::harness::name_server::{Zone, in_own_network};
use crate::harness::subject;
use crate::usual::tls::pki::{Authority, Wish};

const HERE: &str = "beside_etcd::discovery::domain::";

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, last)
}

/// The domain `founders`: three members, whose hosts are `m1` to `m3` there.
fn founders(service: &str) -> Zone {
    (1..=3).fold(Zone::default(), |zone, number| {
        let host = format!("m{number}.founders");
        let name = format!("_{service}._tcp.founders");
        zone.host(&host, address(number))
            .service(&name, [0, 0, 2380], &host)
    })
}

/// etcd and two of Stele, which advertise addresses, and not the names in the domain.
fn members(
    tools: &Tools,
    dir: &Path,
    scheme: &str,
    launcher: &[String],
    flags: &[String],
) -> Vec<Process> {
    let etcd = tools.etcd.to_str().unwrap();
    let start = |(program, number)| {
        let mut member = Process::new(program, dir, &format!("a{number}"));
        let peer = format!("{scheme}://{}:2380", address(number));
        member.launched_by(launcher.to_vec());
        member.flag(format!("--listen-peer-urls={peer}"));
        member.advertise(peer);
        member.flag("--discovery-srv=founders".to_owned());
        flags.iter().for_each(|flag| member.flag(flag.clone()));
        member.start();
        member
    };
    [(STELE, 1), (etcd, 2), (STELE, 3)].map(start).into()
}

/// The tools, if this is the run of a test that has a network for itself.
fn tools_inside(test: &str) -> Option<Tools> {
    let tools = Tools::or_skip(test)?;
    in_own_network(&format!("{HERE}{test}")).then_some(tools)
}

#[test]
fn members_find_each_other_in_dns() {
    let Some(tools) = tools_inside("members_find_each_other_in_dns") else {
        return;
    };
    founders("etcd-server-blue").serve();
    let dir = tempfile::tempdir().unwrap();
    let suffix = ["--discovery-srv-name=blue".to_owned()];
    let members = members(&tools, dir.path(), "http", &[], &suffix);
    assert_eq!(names(&tools, dir.path(), &members), ["a1", "a2", "a3"]);
}

/// Without an authority for members, those are trusted whose certificates are the domain's.
#[test]
fn certificates_of_the_domain_are_good_for_all_its_members() {
    let Some(tools) = tools_inside("certificates_of_the_domain_are_good_for_all_its_members")
    else {
        return;
    };
    founders("etcd-server-ssl").serve();
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("everybody's");
    let wish = Wish {
        hosts: &["founders"],
        ..Wish::default()
    };
    let pair = authority.sign(dir.path(), "member", &wish);
    let flags = [
        format!("--peer-cert-file={}", pair.cert.display()),
        format!("--peer-key-file={}", pair.key.display()),
    ];
    let authorities = authority.write(&dir.path().join("ca.pem"));
    let launcher = [
        "env".to_owned(),
        format!("SSL_CERT_FILE={}", authorities.display()),
    ];
    let members = members(&tools, dir.path(), "https", &launcher, &flags);
    assert_eq!(names(&tools, dir.path(), &members), ["a1", "a2", "a3"]);
}

#[test]
fn a_domain_without_this_member_is_refused_as_by_etcd() {
    let Some(tools) = tools_inside("a_domain_without_this_member_is_refused_as_by_etcd") else {
        return;
    };
    let service = |zone: Zone, service: &str, domain: &str, port| {
        let name = format!("_{service}._tcp.{domain}");
        zone.service(&name, [0, 0, port], "here")
    };
    let zone = Zone::default().host("here", address(1));
    let zone = service(zone, "etcd-server", "others", 1);
    let zone = service(zone, "etcd-server-ssl", "secure", 2380);
    let zone = service(zone, "etcd-server", "lost", 2380);
    let zone = zone.service("_etcd-server._tcp.unknown", [0, 0, 1], "nowhere");
    zone.serve();
    for flags in [
        &["--discovery-srv=nowhere"][..],
        &["--discovery-srv=others"],
        // It advertises a URL without TLS.
        &["--discovery-srv=secure"],
        &["--discovery-srv=lost", "--discovery-srv-name=x"],
        &["--discovery-srv=unknown"],
    ] {
        let mut words = vec!["--initial-advertise-peer-urls=http://127.0.0.1:2380".to_owned()];
        words.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let etcd = said(&tools.etcd, &words);
        assert_eq!(etcd.len(), 1, "{flags:?}: {etcd:?}");
        assert_eq!(said(STELE, &words), etcd, "{flags:?}");
    }
}

/// A gateway or a proxy before a cluster, its log in a file. It is killed when dropped.
struct Between {
    child: Child,
    dir: tempfile::TempDir,
}

impl Between {
    /// Starts one and waits until it has logged `ready`.
    fn start(program: &str, command: &str, flags: &[&str], ready: &str) -> Between {
        let dir = tempfile::tempdir().unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new(program)
            .args([command, "start"])
            .args(flags)
            .stderr(log)
            .spawn()
            .unwrap();
        let between = Between { child, dir };
        wait(command, || between.log().contains(ready), || between.log());
        between
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// What it logged of the endpoints that it found: message, endpoints, error.
    fn found(&self) -> Vec<(String, Json, String)> {
        let log = self.log();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let line = |line: Json| {
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            let endpoints = match line["endpoints"].as_array() {
                // Go's list of nothing.
                None => Json::Array(Vec::new()),
                Some(_) => line["endpoints"].clone(),
            };
            let is_one = line["srv-server"].is_string() || text("msg").starts_with(GATEWAY_READY);
            is_one.then(|| (text("msg"), endpoints, text("error")))
        };
        lines.filter_map(line).collect()
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The exit code and what was printed besides the log.
fn printed(program: &str, words: &[&str]) -> (Option<i32>, Vec<String>) {
    let output = Command::new(program).args(words).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    let printed = printed.lines().filter(|line| !line.starts_with('{'));
    (output.status.code(), printed.map(str::to_owned).collect())
}

const GATEWAY_READY: &str = "ready to proxy";

#[test]
fn a_gateway_finds_the_clients_services() {
    let Some(tools) = tools_inside("a_gateway_finds_the_clients_services") else {
        return;
    };
    Zone::default()
        .host("a.all", address(1))
        .host("b.all", address(2))
        .service("_etcd-client-ssl._tcp.all", [2, 5, 1000], "a.all")
        .service("_etcd-client-ssl._tcp.all", [1, 5, 1000], "b.all")
        .service("_etcd-client._tcp.all", [0, 0, 2000], "a.all")
        .service("_etcd-client-x._tcp.all", [0, 0, 3000], "b.all")
        .serve();
    // An endpoint that can be reached.
    let _listener = std::net::TcpListener::bind((address(1), 1000)).unwrap();
    let etcd = tools.etcd.to_str().unwrap();
    for flags in [
        &["--discovery-srv=all", "--insecure-discovery"][..],
        &["--discovery-srv=all"],
        &["--discovery-srv=all", "--trusted-ca-file=/nowhere"],
        &[
            "--discovery-srv=all",
            "--insecure-discovery",
            "--discovery-srv-name=x",
        ],
        // Nothing is valid; the flags have an endpoint.
        &[
            "--discovery-srv=all",
            "--discovery-srv-name=x",
            "--endpoints=127.0.0.3:1",
        ],
    ] {
        let found = |program| Between::start(program, "gateway", flags, GATEWAY_READY).found();
        assert_eq!(found(STELE), found(etcd), "{flags:?}");
    }
    let words = ["gateway", "start", "--discovery-srv=nowhere"];
    assert_eq!(printed(STELE, &words), printed(etcd, &words));
}

/// The endpoint with TLS has a server behind it whose certificate is that of its name in DNS.
#[test]
fn a_proxy_finds_the_clients_services() {
    let Some(tools) = tools_inside("a_proxy_finds_the_clients_services") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("everybody's");
    // The proxy shows it, too, and may have no name.
    let wish = Wish {
        common_name: "",
        hosts: &["a.all"],
        ..Wish::default()
    };
    let pair = authority.sign(dir.path(), "pair", &wish);
    let authorities = authority.write(&dir.path().join("ca.pem"));
    let (secure, plain) = (testkit::free_port(), testkit::free_port());
    let server = subject::launch()
        .flag(format!(
            "--listen-client-urls=https://127.0.0.1:{secure},http://127.0.0.1:{plain}"
        ))
        .flag(format!("--cert-file={}", pair.cert.display()))
        .flag(format!("--key-file={}", pair.key.display()))
        .start();
    let _server = server.unwrap_or_else(|error| panic!("{error}"));
    Zone::default()
        .host("a.all", address(1))
        .host("b.all", address(2))
        .service("_etcd-client-ssl._tcp.all", [2, 5, secure], "a.all")
        .service("_etcd-client-ssl._tcp.all", [1, 5, 1000], "b.all")
        .service("_etcd-client._tcp.all", [0, 0, 2000], "a.all")
        .service("_etcd-client-x._tcp.all", [0, 0, plain], "a.all")
        .serve();
    let etcd = tools.etcd.to_str().unwrap();
    let (cert, key) = (pair.cert.display(), pair.key.display());
    let (cert, key) = (format!("--cert={cert}"), format!("--key={key}"));
    let cacert = format!("--cacert={}", authorities.display());
    let here = format!("--endpoints=127.0.0.1:{plain}");
    for flags in [
        &["--discovery-srv=all", &cacert, &cert, &key][..],
        &[
            "--discovery-srv=all",
            "--insecure-discovery",
            &cacert,
            &cert,
            &key,
        ],
        &[
            "--discovery-srv=all",
            "--insecure-discovery",
            "--discovery-srv-name=x",
        ],
        // Nothing is valid; the flags have an endpoint.
        &["--discovery-srv=all", "--discovery-srv-name=x", &here],
    ] {
        let found = |program| {
            let proxy = Between::start(program, "grpc-proxy", flags, "started gRPC proxy");
            let put = ctl(&tools, "127.0.0.1:23790", dir.path(), &["put", "a", "b"]);
            assert!(put.is_some(), "{program} {flags:?}: {}", proxy.log());
            proxy.found()
        };
        let expected = found(etcd);
        assert!(!expected.is_empty());
        assert_eq!(found(STELE), expected, "{flags:?}");
    }
    for flags in [
        &["--discovery-srv=nowhere"][..],
        &["--discovery-srv=all", "--cacert=/nowhere", &cert, &key],
    ] {
        let words = [&["grpc-proxy", "start"], flags].concat();
        assert_eq!(printed(STELE, &words), printed(etcd, &words));
    }
}
