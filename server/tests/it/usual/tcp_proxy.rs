//! `stele gateway`: who gets connections, and what becomes of them.
#![expect(
    clippy::disallowed_methods,
    reason = "a test around a process has threads and files"
)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use testkit::free_port;

use crate::harness::fleet::wait;

/// A gateway in front of these ports; ended when dropped.
struct Gateway {
    child: Child,
    log: PathBuf,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Gateway {
    fn start(ports: &[u16], flags: &[&str]) -> Gateway {
        let dir = tempfile::tempdir().unwrap();
        let (log, port) = (dir.path().join("log"), free_port());
        let endpoints: Vec<String> = ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        let child = Command::new(env!("CARGO_BIN_EXE_stele"))
            .args(["gateway", "start", "--endpoints", &endpoints.join(",")])
            .arg(format!("--listen-addr=127.0.0.1:{port}"))
            .args(flags)
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let gateway = Gateway {
            child,
            log,
            port,
            _dir: dir,
        };
        gateway.wait_for("ready to proxy client requests");
        gateway
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn wait_for(&self, line: &str) {
        wait(line, || self.log().contains(line), || self.log());
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap()
    }

    /// What an endpoint answers; empty if there is none.
    fn ask(&self, question: &[u8]) -> String {
        let mut client = self.connect();
        let mut answer = vec![0; 1 + question.len()];
        let asked = client.write_all(question);
        match asked.and_then(|()| client.read_exact(&mut answer)) {
            Ok(()) => String::from_utf8(answer).unwrap(),
            Err(_) => String::new(),
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Answers each question of one byte or more with its name and the question.
struct Endpoint {
    port: u16,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    fn start(name: u8, port: u16) -> Endpoint {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            for client in listener.incoming() {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                let mut client = client.unwrap();
                let mut question = vec![0; 1 << 20];
                std::thread::spawn(move || {
                    while let Ok(1..) = client.read(&mut question[..1]) {
                        let answered = client.write_all(&[name, question[0]]);
                        if answered.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Endpoint {
            port,
            ends,
            thread: Some(thread),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn endpoints_have_their_turn_and_come_back_after_a_failure() {
    let (a, b) = (
        Endpoint::start(b'a', free_port()),
        Endpoint::start(b'b', free_port()),
    );
    let gateway = Gateway::start(&[a.port, b.port], &["--retry-delay=200ms"]);
    let asked = |times: usize| -> String { (0..times).map(|_| gateway.ask(b"?")).collect() };
    assert_eq!(asked(4), "a?b?a?b?");
    let port = b.port;
    drop(b);
    assert_eq!(asked(4), "a?a?a?a?");
    gateway.wait_for("deactivated endpoint");
    gateway.wait_for("failed to activate endpoint (stay inactive for another interval)");
    let log = gateway.log();
    let error = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert!(log.contains(&error), "{log}");
    assert!(log.contains(r#""interval":"200ms""#), "{log}");
    let _b = Endpoint::start(b'b', port);
    gateway.wait_for("activated\",");
    wait(
        "the endpoint that came back",
        || asked(2).contains("b?"),
        || gateway.log(),
    );
    drop(a);
    assert_eq!(asked(2), "b?b?");
}

#[test]
fn a_connection_without_an_endpoint_is_closed() {
    let gateway = Gateway::start(&[free_port()], &[]);
    for _ in 0..3 {
        assert_eq!(gateway.ask(b"?"), "");
    }
    gateway.wait_for("deactivated endpoint");
    assert_eq!(gateway.log().matches("deactivated endpoint").count(), 1);
}

#[test]
fn both_ends_see_that_the_other_has_gone() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let gateway = Gateway::start(&[server.local_addr().unwrap().port()], &[]);
    let mut rest = Vec::new();
    let client = gateway.connect();
    let (mut accepted, _) = server.accept().unwrap();
    drop(client);
    assert_eq!(accepted.read_to_end(&mut rest).unwrap(), 0);
    let mut client = gateway.connect();
    drop(server.accept().unwrap());
    assert_eq!(client.read_to_end(&mut rest).unwrap(), 0);
}
