//! The proxy's listeners: calls over HTTP/2, pages over HTTP/1.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::calls::Calls;
use super::pages::Pages;
use crate::api::calls::open_calls::OpenCalls;
use crate::api::serve::connection::{http2_builder, is_grpc};
use crate::api::serve::gather::Gather;
use crate::api::serve::pings::Policed;
use crate::api::serve::preface::{self, PREFACE_PATIENCE, Protocol};
use crate::config::{Keepalive, Url};
use crate::net::socket::{BindError, Bound, Listener, Socket};
use crate::net::tls::Acceptor;

/// Pause after a failed accept: most likely the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A bound socket.
pub(super) struct Door {
    bound: Bound,
    tls: Option<Acceptor>,
}

/// What is served behind a door.
#[derive(Clone)]
pub(super) struct House {
    /// `None` on a listener for pages.
    pub(super) calls: Option<Calls>,
    pub(super) pages: Arc<Pages>,
    pub(super) keepalive: Keepalive,
    pub(super) max_concurrent_streams: u32,
}

impl Door {
    /// Must be called inside the runtime.
    pub(super) fn bind(url: &Url, tls: Option<Acceptor>) -> Result<Door, BindError> {
        let bound = Bound::bind(url, false)?;
        Ok(Door { bound, tls })
    }

    /// Serves for ever; returns the error of a socket that cannot be listened on.
    pub(super) async fn serve(self, house: House) -> std::io::Error {
        let listener = match self.bound.listen() {
            Ok(listener) => listener,
            Err(error) => return error,
        };
        loop {
            match Listener::accept(&listener).await {
                Ok(socket) => {
                    tokio::spawn(house.clone().enter(socket, self.tls.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl House {
    async fn enter(self, socket: Socket, tls: Option<Acceptor>) {
        let peer = socket.remote();
        match tls {
            None => self.detect(socket, peer, false).await,
            Some(acceptor) => {
                if let Some(stream) = acceptor.accept_there(socket).await {
                    self.detect(stream, peer, true).await;
                }
            }
        }
    }

    async fn detect<S>(self, stream: S, peer: Option<SocketAddr>, is_secure: bool)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match preface::detect(stream).await {
            Some((Protocol::Http1, stream)) => self.http1(stream, is_secure).await,
            Some((Protocol::Http2, stream)) => self.http2(stream, peer, is_secure).await,
            None => {}
        }
    }

    async fn http1<S>(self, stream: S, is_secure: bool)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let pages = self.pages;
        let service = service_fn(move |request: Request<Incoming>| {
            let pages = Arc::clone(&pages);
            async move { pages.answer(&request, is_secure).await }
        });
        // How a connection ends does not matter to the proxy.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .title_case_headers(true)
            .header_read_timeout(PREFACE_PATIENCE)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn http2<S>(self, stream: S, peer: Option<SocketAddr>, is_secure: bool)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let open = OpenCalls::default();
        let stream = Policed::new(stream, self.keepalive.min_time, open.clone());
        let (calls, pages) = (self.calls, self.pages);
        let service = service_fn(move |request: Request<Incoming>| {
            let (calls, pages, call) = (calls.clone(), Arc::clone(&pages), open.begin());
            Box::pin(async move {
                match calls.filter(|_| is_grpc(&request)) {
                    Some(calls) => calls.answer(request, call, peer).await,
                    None => pages.answer(&request, is_secure).await,
                }
            })
        });
        let _ = http2_builder(self.max_concurrent_streams)
            .keep_alive_interval(Some(self.keepalive.interval))
            .keep_alive_timeout(self.keepalive.timeout)
            .serve_connection(TokioIo::new(Gather::new(stream)), service)
            .await;
    }
}
