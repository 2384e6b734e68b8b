//! A name server for a test, in a network that the test has for itself: the files that say where name
//! servers are belong to the whole machine.
#![expect(
    clippy::disallowed_methods,
    reason = "a test tool has threads and files"
)]

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;

const INSIDE: &str = "STELE_TEST_NETWORK";

const A: u16 = 1;
const SRV: u16 = 33;
const NAME_ERROR: u8 = 3;

/// Runs the test `name` again in a network with nothing but loopback, and with this machine as its
/// name server. True if this is that run.
pub(crate) fn in_own_network(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = [
        "--map-root-user",
        "--net",
        "--mount",
        "ip",
        "link",
        "set",
        "lo",
        "up",
    ];
    if !testkit::has_or_skip("unshare", &unshare, name) {
        return false;
    }
    let dir = tempfile::tempdir().unwrap();
    let servers = dir.path().join("resolv.conf");
    std::fs::write(&servers, "nameserver 127.0.0.1\n").unwrap();
    let enter = "ip link set lo up && mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    let status = Command::new("unshare")
        .args(&unshare[..3])
        .args(["sh", "-c", enter])
        .arg(servers)
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{name} failed in its own network");
    false
}

/// What a name server knows: names end without a dot.
#[derive(Clone, Default)]
pub(crate) struct Zone {
    addresses: Vec<(String, Ipv4Addr)>,
    /// Name, priority, weight, port, host.
    services: Vec<(String, [u16; 3], String)>,
}

impl Zone {
    pub(crate) fn host(mut self, name: &str, address: Ipv4Addr) -> Zone {
        self.addresses.push((name.to_owned(), address));
        self
    }

    /// With priority, weight and port.
    pub(crate) fn service(mut self, name: &str, numbers: [u16; 3], host: &str) -> Zone {
        let service = (name.to_owned(), numbers, host.to_owned());
        self.services.push(service);
        self
    }

    /// Answers questions until the process ends.
    pub(crate) fn serve(self) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).unwrap();
        std::thread::spawn(move || {
            let mut question = [0; 512];
            loop {
                let (length, from) = socket.recv_from(&mut question).unwrap();
                let answer = self.answer(&question[..length]);
                socket.send_to(&answer, from).unwrap();
            }
        });
    }

    /// The answer to a question of one name.
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let mut name = Vec::new();
        let mut rest = &question[12..];
        while rest[0] > 0 {
            let (label, after) = rest[1..].split_at(rest[0].into());
            name.push(String::from_utf8_lossy(label).to_ascii_lowercase());
            rest = after;
        }
        let name = name.join(".");
        let kind = u16::from_be_bytes([rest[1], rest[2]]);
        let end = question.len() - rest.len() + 5;
        let data: Vec<Vec<u8>> = match kind {
            A => {
                let found = self.addresses.iter().filter(|(host, _)| *host == name);
                found
                    .map(|(_, address)| address.octets().to_vec())
                    .collect()
            }
            SRV => {
                let found = self
                    .services
                    .iter()
                    .filter(|(service, ..)| *service == name);
                let data = |numbers: &[u16; 3], host: &str| {
                    let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
                    numbers.chain(labels(host)).collect()
                };
                found
                    .map(|(_, numbers, host)| data(numbers, host))
                    .collect()
            }
            _ => Vec::new(),
        };
        let is_known = self.addresses.iter().any(|(host, _)| *host == name)
            || self.services.iter().any(|(service, ..)| *service == name);
        let code = if is_known { 0 } else { NAME_ERROR };
        let count = u16::try_from(data.len()).unwrap().to_be_bytes();
        // A response of the one who knows, with recursion.
        let mut answer = [&question[..2], &[0x85, 0x80 | code, 0, 1], &count, &[0; 4]].concat();
        answer.extend(&question[12..end]);
        for data in data {
            let length = u16::try_from(data.len()).unwrap();
            // The name of the question; its kind; a minute.
            answer.extend([0xc0, 12]);
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 60]);
            answer.extend(length.to_be_bytes());
            answer.extend(data);
        }
        answer
    }
}

fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes
}
