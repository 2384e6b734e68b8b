//! TCP keep-alive: finds connections whose other end vanished, which a watch could wait for
//! forever.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// Idle time before the first probe, interval of probes, and their number.
const IDLE: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
/// Longest time that sent data may stay unacknowledged.
const UNANSWERED: Duration = Duration::from_secs(60);

/// Sets keep-alive on a listener; on Linux its connections inherit it.
pub(crate) fn set(listener: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_keepalive(&listener, true)?;
    sockopt::set_tcp_keepidle(&listener, IDLE)?;
    sockopt::set_tcp_keepintvl(&listener, EVERY)?;
    sockopt::set_tcp_keepcnt(&listener, PROBES)?;
    let millis = u32::try_from(UNANSWERED.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(&listener, millis)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn accepted_connections_are_asked_whether_they_live() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set(&listener).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&accepted).unwrap(), IDLE);
        assert_eq!(sockopt::tcp_keepcnt(&accepted).unwrap(), PROBES);
        assert_eq!(sockopt::tcp_user_timeout(&accepted).unwrap(), 60_000);
    }
}
