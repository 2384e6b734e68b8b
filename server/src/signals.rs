//! Signals, and the readiness message to the init system.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tokio::signal::unix::{SignalKind, signal};

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Interrupt,
    Terminate,
}

impl Signal {
    pub fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "interrupt",
            Signal::Terminate => "terminated",
        }
    }

    fn number(self) -> i32 {
        match self {
            Signal::Interrupt => SignalKind::interrupt().as_raw_value(),
            Signal::Terminate => SignalKind::terminate().as_raw_value(),
        }
    }
}

/// Watches for signals from now on.
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Needs a tokio runtime around it.
    pub fn install() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one; logs it.
    pub async fn next(&mut self) -> Signal {
        let signal = tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        };
        tracing::info!(signal = signal.name(), "received signal; shutting down");
        signal
    }
}

/// Ends the process by the signal that stopped it, so that its parent sees 130 or 143. As the
/// first process of a container there is no default action to fall back on: it ends with 0.
pub fn exit_by(signal: Signal) -> ! {
    if std::process::id() != 1 {
        let _ = signal_hook::low_level::emulate_default_handler(signal.number());
    }
    std::process::exit(0)
}

/// Tells systemd that the server serves, if it waits for that.
pub fn notify_ready() {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    tracing::info!("notifying init daemon");
    match send_ready(&socket) {
        Ok(()) => tracing::info!("successfully notified init daemon"),
        Err(error) => tracing::error!(%error, "failed to notify systemd for readiness"),
    }
}

fn send_ready(socket: &std::ffi::OsStr) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let name = socket.as_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_reaches_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send_ready(path.as_os_str()).unwrap();
        let mut buffer = [0; 16];
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1");
    }
}
