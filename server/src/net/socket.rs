//! Sockets of both kinds, TCP and unix: binding a URL, accepting from it, connecting to it.
//!
//! A socket belongs to the event loop that first polled it. Parking removes it from its loop, so
//! that another loop can adopt it, together with any protocol state wrapped around it.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::OwnedSemaphorePermit;

use crate::config::{Scheme, Url};

/// Connections that the kernel queues until they are accepted.
const BACKLOG: u32 = 4096;

/// TCP keep-alive interval, as in Go: detects clients that vanished.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);

/// An address that cannot be bound; the text names it.
#[derive(Debug)]
pub struct BindError(pub(crate) String);

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BindError {}

/// A listening socket that does not belong to an event loop yet.
pub(crate) enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, SocketFile),
}

/// A listening socket on the event loop where it was created.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(
        UnixListener,
        #[expect(dead_code, reason = "the name goes when nobody listens any more")] SocketFile,
    ),
}

/// The path of a unix socket. Dropping this removes the path.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        remove_name(&self.0);
    }
}

impl Bound {
    /// Must be called inside an event loop. The errors have Go's texts.
    pub(crate) fn bind(url: &Url, reuse_port: bool) -> Result<Bound, BindError> {
        match url.scheme() {
            Scheme::Unix | Scheme::Unixs => bind_unix(url),
            Scheme::Http | Scheme::Https => bind_tcp(url, reuse_port),
        }
    }

    /// `None` for a unix socket.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Bound::Tcp(listener) => listener.local_addr().ok(),
            Bound::Unix(..) => None,
        }
    }

    /// The address, for log lines.
    pub(crate) fn name(&self) -> String {
        match self {
            Bound::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|error| error.to_string(), |address| address.to_string()),
            Bound::Unix(_, file) => file.0.display().to_string(),
        }
    }

    /// Registers the socket with the current event loop.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        Ok(match self {
            Bound::Tcp(listener) => Listener::Tcp(TcpListener::from_std(listener)?),
            Bound::Unix(listener, file) => Listener::Unix(UnixListener::from_std(listener)?, file),
        })
    }
}

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, remote) = listener.accept().await?;
                // Optimizations only; a socket that refuses them still works.
                let _ = stream.set_nodelay(true);
                let _ = keep_alive(&stream);
                // A dual-stack listener reports IPv4 addresses in IPv6 form.
                let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
                Ok(Socket(Inner::Tcp(stream), Some(remote), None))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok(Socket(Inner::Unix(stream), None, None))
            }
        }
    }
}

fn bind_tcp(url: &Url, reuse_port: bool) -> Result<Bound, BindError> {
    let Ok(port) = url.port().parse::<u16>() else {
        let port = url.port();
        return Err(BindError(format!(
            "listen tcp: address {port}: invalid port"
        )));
    };
    let any = || {
        bind_address(Ipv6Addr::UNSPECIFIED.into(), port, reuse_port)
            // The machine may have no IPv6.
            .or_else(|_| bind_address(Ipv4Addr::UNSPECIFIED.into(), port, reuse_port))
    };
    let bound = match url.host() {
        "" => any(),
        "localhost" => bind_address(Ipv4Addr::LOCALHOST.into(), port, reuse_port),
        host => match host.parse::<IpAddr>() {
            // Like Go, listens on both families if either unspecified address is given.
            Ok(ip) if ip.is_unspecified() => any(),
            Ok(ip) => bind_address(ip, port, reuse_port),
            Err(_) => {
                let text = format!("listen tcp: lookup {host}: no such host");
                return Err(BindError(text));
            }
        },
    };
    bound.map(Bound::Tcp).map_err(|error| {
        let address = url.address().replace("localhost", "127.0.0.1");
        let reason = in_gos_words(&error);
        BindError(format!("listen tcp {address}: bind: {reason}"))
    })
}

fn bind_address(ip: IpAddr, port: u16, reuse_port: bool) -> io::Result<std::net::TcpListener> {
    let socket = if ip.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    if ip.is_unspecified() && ip.is_ipv6() {
        rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
    }
    // Go sets this on every listener; without it, a restart would have to wait until the kernel
    // forgets old connections.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(reuse_port)?;
    socket.bind(SocketAddr::new(ip, port))?;
    socket.listen(BACKLOG)?.into_std()
}

fn bind_unix(url: &Url) -> Result<Bound, BindError> {
    let path = PathBuf::from(url.socket_path());
    // Removes a socket file left behind by a former process.
    remove_name(&path);
    let bound = std::os::unix::net::UnixListener::bind(&path).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    match bound {
        Ok(listener) => Ok(Bound::Unix(listener, SocketFile(path))),
        Err(error) => {
            let (path, reason) = (path.display(), in_gos_words(&error));
            Err(BindError(format!("listen unix {path}: bind: {reason}")))
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the name of a socket is no file of the store"
)]
fn remove_name(path: &std::path::Path) {
    // If the path cannot be removed, binding reports the error.
    let _ = std::fs::remove_file(path);
}

/// The text of an error as Go has it.
pub(crate) fn in_gos_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::AddrInUse => "address already in use".into(),
        io::ErrorKind::AddrNotAvailable => "cannot assign requested address".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::NotFound => "no such file or directory".into(),
        _ => error.to_string(),
    }
}

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(stream, TCP_KEEPALIVE)?;
    rustix::net::sockopt::set_tcp_keepintvl(stream, TCP_KEEPALIVE)?;
    Ok(())
}

/// One end of a connection, the remote address, and its place among the open connections.
pub(crate) struct Socket(
    Inner,
    Option<SocketAddr>,
    #[expect(dead_code, reason = "the place is given back when the socket closes")]
    Option<OwnedSemaphorePermit>,
);

enum Inner {
    Tcp(TcpStream),
    Unix(UnixStream),
    ParkedTcp(std::net::TcpStream),
    ParkedUnix(std::os::unix::net::UnixStream),
    /// Moving to another event loop failed; reads and writes fail.
    Lost,
}

impl Socket {
    pub(crate) async fn connect(url: &Url) -> io::Result<Socket> {
        if let Scheme::Unix | Scheme::Unixs = url.scheme() {
            let stream = UnixStream::connect(url.socket_path()).await?;
            return Ok(Socket(Inner::Unix(stream), None, None));
        }
        let stream = TcpStream::connect(url.address()).await?;
        // Optimization only.
        let _ = stream.set_nodelay(true);
        let remote = stream.peer_addr().ok();
        Ok(Socket(Inner::Tcp(stream), remote, None))
    }

    /// The same socket, which gives `place` back when it closes: the end of HTTP on it may be too
    /// early, because a WebSocket keeps the socket.
    pub(crate) fn holding(self, place: OwnedSemaphorePermit) -> Socket {
        Socket(self.0, self.1, Some(place))
    }

    /// `None` for a unix socket.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.1
    }

    /// The local address. `None` for a unix socket, and while parked.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match &self.0 {
            Inner::Tcp(stream) => stream.local_addr().ok(),
            _ => None,
        }
    }

    /// Removes the socket from its event loop.
    pub(crate) fn park(&mut self) -> io::Result<()> {
        self.0 = match std::mem::replace(&mut self.0, Inner::Lost) {
            Inner::Tcp(stream) => Inner::ParkedTcp(stream.into_std()?),
            Inner::Unix(stream) => Inner::ParkedUnix(stream.into_std()?),
            parked => parked,
        };
        Ok(())
    }

    /// Adds the socket to the current event loop.
    pub(crate) fn unpark(&mut self) -> io::Result<()> {
        self.0 = match std::mem::replace(&mut self.0, Inner::Lost) {
            Inner::ParkedTcp(stream) => Inner::Tcp(TcpStream::from_std(stream)?),
            Inner::ParkedUnix(stream) => Inner::Unix(UnixStream::from_std(stream)?),
            running => running,
        };
        Ok(())
    }
}

fn parked() -> io::Error {
    io::Error::other("the socket is on no event loop")
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Inner::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            _ => Poll::Ready(Err(parked())),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Inner::Tcp(stream) => Pin::new(stream).poll_write(context, data),
            Inner::Unix(stream) => Pin::new(stream).poll_write(context, data),
            _ => Poll::Ready(Err(parked())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Inner::Unix(stream) => Pin::new(stream).poll_flush(context),
            _ => Poll::Ready(Err(parked())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Inner::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            _ => Poll::Ready(Err(parked())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Inner::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Inner::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            _ => Poll::Ready(Err(parked())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Inner::Tcp(stream) => stream.is_write_vectored(),
            Inner::Unix(stream) => stream.is_write_vectored(),
            _ => false,
        }
    }
}
