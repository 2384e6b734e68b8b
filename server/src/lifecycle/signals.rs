//! The process's duties to its parent: it ends by the signal that stopped it, and reports when it
//! is ready.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Ends the process by the signal that stopped it, so that its parent sees exit code 130 or 143.
/// For process 1 of a container signals have no default action, so it exits with 0.
pub fn exit_by(signal: i32) -> ! {
    if std::process::id() != 1 {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    std::process::exit(0)
}

/// Tells systemd that the server is ready, if systemd expects it.
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
