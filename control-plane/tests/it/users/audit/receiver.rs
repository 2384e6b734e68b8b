//! A webhook for events.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::cluster::WITHIN;

/// A running webhook. Its threads end with the test's process.
pub(super) struct Receiver {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Requests that are still to be refused.
    refusals: AtomicUsize,
    events: Mutex<Vec<Value>>,
}

impl Receiver {
    pub(super) fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Receiver { address, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/events", self.address)
    }

    /// Answers the next requests with 500.
    pub(super) fn refuse(&self, count: usize) {
        self.state.refusals.store(count, Ordering::SeqCst);
    }

    /// Waits for so many events of a request.
    pub(super) fn events(&self, id: &str, count: usize) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let all = self.state.events.lock().unwrap();
            let found = all.iter().filter(|event| event["auditID"] == id);
            let found: Vec<Value> = found.cloned().collect();
            drop(all);
            if found.len() >= count {
                assert_eq!(self.state.refusals.load(Ordering::SeqCst), 0);
                assert_eq!(found.len(), count);
                return found;
            }
            assert!(begun.elapsed() < WITHIN, "{id}: only {found:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn serve(stream: TcpStream, state: &State) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        // The client closes the connection when it ends.
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or_default() == 0 {
                return;
            }
        }
        assert!(
            head.starts_with("POST /events?timeout=30s HTTP/1.1\r\n"),
            "{head}"
        );
        let head = head.to_ascii_lowercase();
        assert!(head.contains("authorization: bearer secret\r\n"), "{head}");
        let length = head.split_once("content-length: ").unwrap().1;
        let length = length.split_once("\r\n").unwrap().0.parse().unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let refusals = &state.refusals;
        let fewer = |left: usize| left.checked_sub(1);
        let refused = refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
        let code = if refused.is_ok() { 500 } else { 200 };
        if code == 200 {
            let list: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(list["kind"], "EventList");
            assert_eq!(list["apiVersion"], "audit.k8s.io/v1");
            let items = list["items"].as_array().unwrap();
            state.events.lock().unwrap().extend(items.iter().cloned());
        }
        let answer = format!("HTTP/1.1 {code} x\r\nContent-Length: 0\r\n\r\n");
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}
