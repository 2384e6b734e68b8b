//! TLS between members, both etcd and Stele.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::ServerName;
use testkit::{Minor, Tools};

use super::client_config;
use super::pki::{Authority, Pair, Wish};
use crate::harness::fleet::{self, Process};

const STELE: &str = env!("CARGO_BIN_EXE_stele");
const OK: &[u8; 15] = b"HTTP/1.1 200 OK";
/// Each waits for the end of its patience.
const CALLS_OF_A_MUTE: usize = 6;

/// Flags of a member whose peers must show a certificate of the authority.
fn mutual(ca: &Path, own: &Pair) -> [String; 4] {
    [
        format!("--peer-trusted-ca-file={}", ca.display()),
        format!("--peer-cert-file={}", own.cert.display()),
        format!("--peer-key-file={}", own.key.display()),
        "--peer-client-cert-auth".to_owned(),
    ]
}

fn member(program: &Path, dir: &Path, name: &str, flags: &[String]) -> Process {
    let mut member = Process::new(program, dir, name);
    let peer_url = member.peer_url.replace("http://", "https://");
    listen(&mut member, peer_url, flags);
    member
}

fn listen(member: &mut Process, peer_url: String, flags: &[String]) {
    member.flag(format!("--listen-peer-urls={peer_url}"));
    member.advertise(peer_url);
    flags.iter().for_each(|flag| member.flag(flag.clone()));
}

fn ctl(tools: &Tools, member: &Process, words: &[&str]) -> Option<String> {
    fleet::ctl(tools, &member.url, Path::new("."), words)
}

/// A put at each member is read at each.
fn agree(tools: &Tools, members: &[Process]) {
    let log = || {
        let logs = members.iter().map(|m| format!("{}:\n{}", m.name, m.log()));
        logs.collect::<Vec<_>>().join("\n")
    };
    let ctl = |member: &Process, words: &[&str]| ctl(tools, member, words);
    for writer in members {
        let put = || ctl(writer, &["put", "from", &writer.name]).is_some();
        fleet::wait("a put", put, log);
        for reader in members {
            let expected = format!("{}\n", writer.name);
            let read = || ctl(reader, &["get", "from", "--print-value-only"]);
            fleet::wait("a read", || read().as_ref() == Some(&expected), log);
        }
    }
}

#[test]
fn three_members_agree_over_mutual_tls() {
    let Some(tools) = Tools::or_skip("etcdctl on a cluster over TLS") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("peers");
    let ca = authority.write(&dir.path().join("ca.pem"));
    let named = Wish {
        common_name: "peer.example.com",
        ..Wish::default()
    };
    let member = |i: usize| {
        let name = format!("m{i}");
        let own = authority.sign(dir.path(), &name, &named);
        let mut flags = mutual(&ca, &own).to_vec();
        flags.push("--peer-cert-allowed-cn=peer.example.com".to_owned());
        if i < 2 {
            return member(STELE.as_ref(), dir.path(), &name, &flags);
        }
        // Where there is no address nothing is asked about it.
        let mut member = Process::new(STELE, dir.path(), &name);
        let peer_url = format!("unixs://{}/peer.sock", dir.path().display());
        listen(&mut member, peer_url, &flags);
        member
    };
    let mut members: Vec<Process> = (0..3).map(member).collect();
    fleet::start_all(&mut members, &[]);
    agree(&tools, &members);
    // A member that comes back with a certificate of another name is shut out.
    members[2].kill();
    authority.sign(dir.path(), "m2", &Wish::default());
    members[2].start();
    let rejected = || {
        let log = members[0].log();
        log.contains("rejected connection on peer endpoint")
            && log.contains("client certificate authentication failed")
    };
    fleet::wait("a rejection", rejected, || members[0].log());
    // Nor do the others send anything to whoever has its place and its address.
    let shunned = || {
        let log = members[2].log();
        log.contains("remote error: tls: bad certificate")
    };
    fleet::wait("a refusal to dial", shunned, || members[2].log());
    agree(&tools, &members[..2]);
    // It takes the right one without another start.
    authority.sign(dir.path(), "m2", &named);
    agree(&tools, &members);
}

#[test]
fn members_call_each_other_with_certificates_for_that_and_revoked_ones_are_refused() {
    let Some(tools) = Tools::or_skip("etcdctl on a cluster over TLS") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("peers");
    let ca = authority.write(&dir.path().join("ca.pem"));
    let list = dir.path().join("list.crl");
    authority.revoke(&list, &[7]);
    let member = |i: usize| {
        let name = format!("m{i}");
        let own = Wish {
            hosts: &["127.0.0.1", "peer.example.com"],
            ..Wish::default()
        };
        let own = authority.sign(dir.path(), &name, &own);
        // It names no address, so that it must not be looked for.
        let caller = Wish {
            hosts: &["peer.example.com"],
            serial: 10 + i as u64,
            ..Wish::default()
        };
        let caller = authority.sign(dir.path(), &format!("{name}-caller"), &caller);
        let mut flags = mutual(&ca, &own).to_vec();
        flags.extend([
            format!("--peer-client-cert-file={}", caller.cert.display()),
            format!("--peer-client-key-file={}", caller.key.display()),
            format!("--peer-crl-file={}", list.display()),
            "--peer-cert-allowed-hostname=peer.example.com".to_owned(),
            "--peer-skip-client-san-verification".to_owned(),
        ]);
        member(STELE.as_ref(), dir.path(), &name, &flags)
    };
    let mut members: Vec<Process> = (0..3).map(member).collect();
    fleet::start_all(&mut members, &[]);
    agree(&tools, &members);
    members[2].kill();
    authority.revoke(&list, &[12]);
    members[2].start();
    let rejected = || members[0].log().contains("certificate serial 0c revoked");
    fleet::wait("a rejection", rejected, || members[0].log());
    agree(&tools, &members[..2]);
}

#[test]
fn etcd_37_and_stele_are_members_over_mutual_tls() {
    etcd_and_stele_are_members_over_mutual_tls(Minor::V3_7);
}

#[test]
fn etcd_36_and_stele_are_members_over_mutual_tls() {
    etcd_and_stele_are_members_over_mutual_tls(Minor::V3_6);
}

#[test]
fn etcd_35_and_stele_are_members_over_mutual_tls() {
    etcd_and_stele_are_members_over_mutual_tls(Minor::V3_5);
}

fn etcd_and_stele_are_members_over_mutual_tls(minor: Minor) {
    let (Some(program), Some(tools)) = (
        minor.etcd_or_skip("etcd beside Stele over TLS"),
        Tools::or_skip("etcdctl on a cluster over TLS"),
    ) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("peers");
    let ca = authority.write(&dir.path().join("ca.pem"));
    let programs: [&Path; 3] = [STELE.as_ref(), &program, STELE.as_ref()];
    let member = |(i, program): (usize, &&Path)| {
        let name = format!("m{i}");
        let own = authority.sign(dir.path(), &name, &Wish::default());
        member(program, dir.path(), &name, &mutual(&ca, &own))
    };
    let mut members: Vec<Process> = programs.iter().enumerate().map(member).collect();
    fleet::start_all(&mut members, &[]);
    agree(&tools, &members);
    // Whom a certificate lets in that names a host: not only here, but as etcd decides.
    let cases: [(&'static [&'static str], Option<&str>); 6] = [
        (&[], None),
        (&["localhost"], None),
        (&["10.1.2.3", "localhost"], None),
        (&["*.example.com", "127.0.0.1"], None),
        (
            &["10.1.2.3", "10.1.2.4"],
            Some("x509: certificate is valid for 10.1.2.3, 10.1.2.4, not 127.0.0.1"),
        ),
        (
            &["*.example.com", "10.1.2.3"],
            Some("does not match any of DNSNames"),
        ),
    ];
    for (hosts, refusal) in cases {
        let wish = Wish {
            hosts,
            ..Wish::default()
        };
        let own = authority.sign(dir.path(), "knocks", &wish);
        for member in &members[..2] {
            let is_in = knock(member, &ca, &own);
            assert_eq!(is_in, refusal.is_none(), "{} {hosts:?}", member.name);
            if let Some(refusal) = refusal {
                let told = || member.log().contains(refusal);
                fleet::wait(refusal, told, || member.log());
            }
        }
    }
    members[0].kill();
    agree(&tools, &members[1..]);
}

/// Whether a member answers one who comes with this certificate.
fn knock(member: &Process, ca: &Path, own: &Pair) -> bool {
    let config = Arc::new(client_config(ca, own, &["http/1.1"]));
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = rustls::ClientConnection::new(config, name).unwrap();
    let address = member.peer_url.trim_start_matches("https://");
    let mut stream = rustls::StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    // That it is cut off is an answer, too.
    let _ = stream.write_all(b"GET /version HTTP/1.1\r\nHost: m\r\n\r\n");
    let mut head = [0; OK.len()];
    stream.read_exact(&mut head).is_ok() && head == *OK
}

#[test]
fn members_agree_with_certificates_that_they_made() {
    let Some(tools) = Tools::or_skip("etcd beside Stele with --peer-auto-tls") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let programs: [&Path; 3] = [STELE.as_ref(), STELE.as_ref(), &tools.etcd];
    let auto = ["--peer-auto-tls".to_owned()];
    let member =
        |(i, program): (usize, &&Path)| member(program, dir.path(), &format!("m{i}"), &auto);
    let mut members: Vec<Process> = programs.iter().enumerate().map(member).collect();
    fleet::start_all(&mut members, &[]);
    agree(&tools, &members);

    // One that takes connections and never says a word is in nobody's way.
    members[2].kill();
    let address = members[2].peer_url.trim_start_matches("https://");
    let mute = TcpListener::bind(address).unwrap();
    agree(&tools, &members[..2]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok(call) = mute.accept() {
            kept.push(call);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let term = || {
        let status = ctl(&tools, &members[0], &["endpoint", "status", "-w", "fields"]);
        let status = status.expect("a member that serves has a status");
        let term = status.lines().find(|line| line.starts_with("\"RaftTerm\""));
        term.expect("a term").to_owned()
    };
    let before = term();
    while calls.load(Ordering::Relaxed) < CALLS_OF_A_MUTE {
        for member in &members[..2] {
            let put = ctl(&tools, member, &["put", "a", "b"]);
            assert!(put.is_some(), "{}", member.log());
        }
    }
    assert_eq!(term(), before, "{}", members[0].log());
}
