//! Passes connections on to an apiserver, until the test cuts them.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Default)]
struct State {
    /// Connections are closed at once while there is no target.
    target: Option<SocketAddr>,
    streams: Vec<TcpStream>,
    ended: bool,
}

/// Listens on a free port; stops when dropped.
pub(super) struct Relay {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Relay {
    pub(super) fn start() -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || accept(&listener, &shared));
        Relay { address, state }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn open(&self, target: SocketAddr) {
        self.state.lock().unwrap().target = Some(target);
    }

    /// Breaks all connections and refuses new ones.
    pub(super) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.target = None;
        for stream in state.streams.drain(..) {
            // Fails only if the other side was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
        self.state.lock().unwrap().ended = true;
        // Wakes the listener, so that it sees the end.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, state: &Mutex<State>) {
    for client in listener.incoming() {
        let mut state = state.lock().unwrap();
        if state.ended {
            return;
        }
        // A connection that breaks here is the client's to repeat.
        if let (Ok(client), Some(target)) = (client, state.target)
            && let Ok(streams) = pass(client, target)
        {
            state.streams.extend(streams);
        }
    }
}

/// Copies both directions, each in its thread; returns both ends.
fn pass(client: TcpStream, target: SocketAddr) -> io::Result<[TcpStream; 2]> {
    let server = TcpStream::connect(target)?;
    let ends = [client.try_clone()?, server.try_clone()?];
    copy(client.try_clone()?, server.try_clone()?);
    copy(server, client);
    Ok(ends)
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        // However it ends, the other side learns that nothing more comes.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}
