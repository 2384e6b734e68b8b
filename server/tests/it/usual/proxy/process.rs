//! A proxy as a child process, its log in a file.
#![expect(
    clippy::disallowed_methods,
    reason = "a test runs processes and reads their logs"
)]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use testkit::Tools;

use crate::harness::{fleet, subject};

pub(crate) struct Proxy {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
}

fn program() -> PathBuf {
    if subject::is_etcd() {
        let tools = Tools::locate().unwrap_or_else(|missing| panic!("{missing}"));
        return tools.etcd;
    }
    env!("CARGO_BIN_EXE_stele").into()
}

/// Runs `grpc-proxy` with these words to its end.
pub(crate) fn run(words: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.arg("grpc-proxy").args(words);
    command.output().unwrap()
}

impl Proxy {
    /// Starts one on a free port, and waits until it serves.
    pub(crate) fn start(flags: &[&str]) -> Proxy {
        let port = testkit::free_port();
        let dir = tempfile::tempdir().unwrap();
        let log = File::create(dir.path().join("log")).unwrap();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new(program())
            .args(["grpc-proxy", "start"])
            .arg(format!("--listen-addr={address}"))
            .arg(format!("--advertise-client-url={address}"))
            .arg(format!("--data-dir={}", dir.path().display()))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let proxy = Proxy { child, port, dir };
        let ready = || proxy.log().contains("started gRPC proxy");
        fleet::wait("the proxy", ready, || proxy.log());
        proxy
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn log(&self) -> String {
        let text = fs::read(self.dir.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Status and text of a page.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        page(&self.url(), path)
    }
}

impl Proxy {
    /// A metric of the proxy's own, without labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (_, text) = self.page("/proxy/metrics");
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let value = lines.find_map(|(found, value)| (found == name).then_some(value));
        value.unwrap().parse().unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the proxy at {} logged:\n{}", self.port, self.log());
        }
        // One that has ended already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and text of a page at a URL without TLS.
pub(crate) fn page(url: &str, path: &str) -> (u16, String) {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}
