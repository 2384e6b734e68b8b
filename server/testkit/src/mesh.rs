//! The network between members, in user space: all traffic between members passes here, and can be
//! held, slowed or cut, each direction separately.
//!
//! Members advertise the address of a proxy, which forwards connections to the port where the
//! member listens. The proxy finds the dialling member by the process that owns the socket, so one
//! proxy per member is enough for all pairs. A connection's bytes obey the path from their sender
//! to their receiver, no matter which of the two dialled.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener as Listener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch::{Receiver, Sender};

const CHUNK_BYTES: usize = 64 << 10;

/// What happens to bytes from one member to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Open,
    /// Every piece is delayed by this much.
    Slow(Duration),
    /// Nothing arrives and no error is reported, as when packets get lost; later all of it arrives.
    Held,
    /// Connections end, and new ones fail, too.
    Cut,
}

/// Links between a number of members. Dropping it ends all connections.
pub struct Mesh {
    shared: Arc<Shared>,
    targets: Vec<Sender<Option<u16>>>,
    ports: Vec<u16>,
    /// `None` only while dropping.
    runtime: Option<Runtime>,
}

struct Shared {
    /// By (from, to).
    paths: BTreeMap<(usize, usize), Sender<Path>>,
    pids: Vec<Sender<u32>>,
}

impl Mesh {
    /// All paths are open; [`Mesh::leads_to`] and [`Mesh::runs_as`] say where the members are.
    pub fn new(members: usize) -> Mesh {
        let pairs = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
        let shared = Arc::new(Shared {
            paths: pairs.map(|pair| (pair, Sender::new(Path::Open))).collect(),
            pids: (0..members).map(|_| Sender::new(0)).collect(),
        });
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let (mut targets, mut ports) = (Vec::new(), Vec::new());
        for to in 0..members {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            let port = listener.local_addr().expect("it is bound").port();
            let target = Sender::new(None);
            runtime.spawn(accept(
                listener,
                to,
                target.subscribe(),
                Arc::clone(&shared),
            ));
            ports.push(port);
            targets.push(target);
        }
        Mesh {
            shared,
            targets,
            ports,
            runtime: Some(runtime),
        }
    }

    /// The URL that the member must advertise.
    pub fn url(&self, member: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[member])
    }

    /// Sets the port where the member listens.
    pub fn leads_to(&self, member: usize, port: u16) {
        self.targets[member].send_replace(Some(port));
    }

    /// Sets the member's current process.
    pub fn runs_as(&self, member: usize, pid: u32) {
        self.shared.pids[member].send_replace(pid);
    }

    pub fn set(&self, from: usize, to: usize, path: Path) {
        self.shared.paths[&(from, to)].send_replace(path);
    }

    /// Sets every path to and from this member.
    pub fn isolate(&self, member: usize, path: Path) {
        for other in (0..self.ports.len()).filter(|other| *other != member) {
            self.set(member, other, path);
            self.set(other, member, path);
        }
    }

    /// Sets all paths.
    pub fn set_all(&self, path: Path) {
        for sender in self.shared.paths.values() {
            sender.send_replace(path);
        }
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        // Without waiting: the last owner may itself be in a runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(
    listener: TcpListener,
    to: usize,
    target: Receiver<Option<u16>>,
    shared: Arc<Shared>,
) {
    listener
        .set_nonblocking(true)
        .expect("sockets can be non-blocking");
    let listener = Listener::from_std(listener).expect("the runtime takes a listener");
    loop {
        let Ok((dialler, from)) = listener.accept().await else {
            continue;
        };
        let own = listener.local_addr().map_or(0, |address| address.port());
        let pids: Vec<u32> = shared.pids.iter().map(|pid| *pid.borrow()).collect();
        let port = *target.borrow();
        // A client that has ended meanwhile waits for no answer.
        let (Some(from), Some(port)) = (owner(from.port(), own, &pids), port) else {
            continue;
        };
        let there = shared.paths[&(from, to)].subscribe();
        let back = shared.paths[&(to, from)].subscribe();
        if *there.borrow() == Path::Cut || *back.borrow() == Path::Cut {
            continue;
        }
        tokio::spawn(pass(dialler, port, there, back));
    }
}

async fn pass(dialler: TcpStream, port: u16, there: Receiver<Path>, back: Receiver<Path>) {
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Ok(target) = TcpStream::connect(target).await else {
        return;
    };
    // Small messages must leave at once, as without the proxy.
    let _ = dialler.set_nodelay(true);
    let _ = target.set_nodelay(true);
    let (from_dialler, to_dialler) = dialler.into_split();
    let (from_target, to_target) = target.into_split();
    tokio::select! {
        () = pump(from_dialler, to_target, there) => {}
        () = pump(from_target, to_dialler, back) => {}
    }
}

/// Runs until the connection ends or is cut.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut path: Receiver<Path>) {
    let mut cut = path.clone();
    let passing = async {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = from.read(&mut chunk).await;
            // The end of a stream is held back, too.
            if path.wait_for(|path| *path != Path::Held).await.is_err() {
                return;
            }
            let slow = match *path.borrow() {
                Path::Slow(delay) => Some(delay),
                _ => None,
            };
            if let Some(delay) = slow {
                tokio::time::sleep(delay).await;
            }
            let Ok(read @ 1..) = read else { return };
            if to.write_all(&chunk[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = passing => {}
        _ = cut.wait_for(|path| *path == Path::Cut) => {}
    }
}

/// The process that holds the connection from local port `from` to local port `to`.
fn owner(from: u16, to: u16, pids: &[u32]) -> Option<usize> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let (local, remote) = (format!("0100007F:{from:04X}"), format!("0100007F:{to:04X}"));
    let inode = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let ours =
            fields.get(1) == Some(&local.as_str()) && fields.get(2) == Some(&remote.as_str());
        ours.then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
    })?;
    let socket = format!("socket:[{inode}]");
    let holds = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd"));
        files.is_ok_and(|files| {
            let mut targets = files
                .flatten()
                .filter_map(|file| fs::read_link(file.path()).ok());
            targets.any(|target| target.as_os_str() == socket.as_str())
        })
    };
    pids.iter().position(holds)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn dial(mesh: &Mesh, member: usize) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, mesh.ports[member])).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream
    }

    /// This process is member 0 and dials member 1.
    fn pair() -> (Mesh, TcpListener) {
        let mesh = Mesh::new(2);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        mesh.leads_to(1, listener.local_addr().unwrap().port());
        mesh.runs_as(0, std::process::id());
        (mesh, listener)
    }

    #[test]
    fn what_is_held_comes_later_and_the_other_way_stays_open() {
        let (mesh, listener) = pair();
        let mut here = dial(&mesh, 1);
        let (mut there, _) = listener.accept().unwrap();
        mesh.set(0, 1, Path::Held);
        here.write_all(b"held").unwrap();
        there.write_all(b"back").unwrap();
        let mut read = [0; 4];
        here.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"back");
        there
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        assert!(there.read(&mut read).is_err(), "it is held");
        there
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        mesh.set_all(Path::Open);
        there.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"held");
    }

    #[test]
    fn a_cut_ends_connections_and_refuses_new_ones() {
        let (mesh, listener) = pair();
        let mut here = dial(&mesh, 1);
        let (_there, _) = listener.accept().unwrap();
        mesh.isolate(1, Path::Cut);
        let ended = |read: std::io::Result<usize>| read.map_or(true, |read| read == 0);
        assert!(ended(here.read(&mut [0])));
        assert!(ended(dial(&mesh, 1).read(&mut [0])));
    }
}
