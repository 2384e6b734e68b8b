//! Free loopback ports for servers under test.
//!
//! Ports come from below the kernel's ephemeral range. Otherwise the kernel could hand one out for
//! an outgoing connection between our check and the server's bind.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 11_000;
const COUNT: u32 = 20_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port where nobody listens now. Test processes start at different places by their pid, so that
/// two that run side by side seldom look at the same port.
pub fn free() -> u16 {
    let start = std::process::id().wrapping_mul(2_654_435_761) >> 8;
    for _ in 0..COUNT {
        let turn = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(turn) % COUNT;
        let port = u16::try_from(port).expect("the range lies below 65536");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!(
        "no free loopback port between {FIRST} and {}",
        FIRST + COUNT
    );
}
