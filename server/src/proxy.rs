//! `etcd grpc-proxy start`: a server without data in front of a cluster. Clients' calls go on to the
//! members, and what many clients ask alike is asked once.
//!
//! A process of its own: no part of a member runs in it.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;

mod cache;
mod calls;
mod forward;
mod kv;
mod leader;
mod lease;
mod listen;
mod members;
mod namespace;
mod ordering;
mod pages;
mod settings;
mod upstream;
mod watch;

use calls::Calls;
use kv::Kv;
use leader::Leader;
use lease::KeepAlives;
use listen::{Door, House};
use members::Members;
use namespace::Namespace;
use ordering::Ordering;
use pages::Pages;
use settings::{DialKeepalive, Settings};
use upstream::{Endpoint, How, Upstream};
use watch::Watches;

use crate::api::calls::counted::Counting;
use crate::config::{Exit, LogConfig, TlsVersion, Url};
use crate::lifecycle::signals;
use crate::member::cluster::peer::Dialer;
use crate::member::event::admission::{Admission, Limits};
use crate::net::tls::{self, Acceptor, Dialing, End, Identity, Protocol, Security};
use crate::telemetry;
use crate::telemetry::logging;
use crate::telemetry::metrics::Metrics;

/// Largest message of a client: the limit of gRPC, which etcd's proxy leaves as it is.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Bytes of messages that are being received at the same time.
const RECEIVING: Limits = Limits {
    requests: usize::MAX,
    bytes: 256 << 20,
};

/// Runs a proxy until a signal ends the process. `args` follow the word `grpc-proxy`.
pub fn run(args: &[String]) -> ExitCode {
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Exit::Print {
            stdout,
            stderr,
            code,
        }) => {
            logging::flush();
            print!("{stdout}");
            eprint!("{stderr}");
            ExitCode::from(code)
        }
        Err(exit) => unreachable!("{exit:?}"),
    }
}

/// A problem that etcd's proxy reports in plain text.
fn plain(error: impl Display) -> Exit {
    Exit::Print {
        stdout: String::new(),
        stderr: format!("{error}\n"),
        code: 1,
    }
}

fn start(args: &[String]) -> Result<(), Exit> {
    let settings = Settings::parse(args)?;
    let level = if settings.debug { "debug" } else { "info" };
    let log = LogConfig {
        level: level.to_owned(),
        ..LogConfig::default()
    };
    logging::init(&log).map_err(plain)?;
    if let Err(error) = crate::net::descriptors::raise_limit() {
        tracing::warn!(%error, "failed to raise the limit on open files");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.map_err(plain)?.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<(), Exit> {
    let secure = listening(&settings)?;
    let acceptor = secure.as_ref().map(acceptor_of);
    let listen = format!("http://{}", settings.listen_addr);
    let listen = Url::parse(&listen).map_err(plain)?;
    let door = Door::bind(&listen, acceptor.clone()).map_err(plain)?;
    let address = settings.listen_addr.as_str();
    tracing::info!(address, "listening for gRPC proxy client requests");
    let addresses = addresses(&settings).await?;
    let (how, dialer) = dialing(&settings)?;
    let endpoints = addresses.iter();
    let endpoints = endpoints.map(|text| Endpoint::parse(text, how.tls_is_usual));
    let endpoints: Vec<_> = endpoints.collect::<Result<_, _>>().map_err(plain)?;
    let Some(member) = addresses.first().cloned() else {
        return Err(plain("etcdclient: no available endpoints"));
    };
    let upstream = Upstream::new(how, endpoints);
    if !settings.auto_sync.is_zero() {
        tokio::spawn(upstream::sync::follow(upstream.clone(), settings.auto_sync));
    }
    let metrics = Arc::new(Metrics::default());
    let calls = calls(&settings, upstream.clone(), Arc::clone(&metrics));
    if settings.ordering {
        calls.kv.recover_ordering().await;
    }
    let pages = Arc::new(Pages {
        metrics,
        dialer,
        member,
        cluster: upstream,
        myself: myself(&settings, secure.as_ref())?,
        pprof: settings.pprof,
        args: settings.args.clone(),
    });
    if settings.pprof {
        tracing::info!(path = "/debug/pprof", "gRPC proxy enabled pprof");
    }
    let house = House {
        calls: Some(calls),
        pages,
        keepalive: settings.keepalive,
        max_concurrent_streams: settings.max_concurrent_streams,
    };
    serve_metrics(&settings, acceptor, &house)?;
    let serving = tokio::spawn(door.serve(house));
    tracing::info!(address, "started gRPC proxy");
    signals::notify_ready();
    let error = serving
        .await
        .map_or_else(|e| e.to_string(), |e| e.to_string());
    Err(plain(error))
}

/// The cluster's addresses: those in DNS, or if there are none, those of the flags.
async fn addresses(settings: &Settings) -> Result<Vec<String>, Exit> {
    let found = settings.domain.endpoints().await.map_err(plain)?;
    if found.is_empty() {
        return Ok(settings.endpoints.clone());
    }
    Ok(found.into_iter().map(|found| found.url).collect())
}

/// The services, and their tasks. Must be called inside the runtime.
fn calls(settings: &Settings, upstream: Upstream, metrics: Arc<Metrics>) -> Calls {
    let namespace = Namespace(settings.namespace.clone());
    let ordering = Ordering::new(settings.ordering);
    let kv = Kv::new(upstream.clone(), namespace, ordering, Arc::clone(&metrics));
    let leader = Leader::follow(upstream.clone());
    let advertised = settings.advertise_client_url.clone();
    let members = Members::new(upstream.clone(), kv.clone(), advertised);
    if let Some(resolver) = &settings.resolver {
        members.start(resolver);
    }
    Calls {
        counting: Counting {
            metrics: Arc::clone(&metrics),
            max_message_bytes: MESSAGE_BYTES_MAX,
            admission: Admission::new(RECEIVING),
        },
        log: settings.log_calls,
        keep_alives: KeepAlives::new(upstream.clone(), leader.clone()),
        watches: Watches::new(upstream.clone(), kv.clone(), leader, metrics),
        upstream,
        kv,
        members,
    }
}

/// TLS for clients; `None` if clients come in clear text.
fn listening(settings: &Settings) -> Result<Option<Security>, Exit> {
    let files = &settings.listen_tls;
    let none_given = files.is_empty() && files.trusted_ca_file.is_empty();
    if none_given && !settings.auto_tls {
        return Ok(None);
    }
    let mut identity = Identity {
        files: files.clone(),
        is_made_up: false,
    };
    if none_given {
        let dir = settings.data_dir.join("fixtures").join("proxy");
        let url = Url::parse(&format!("https://{}", settings.listen_addr)).map_err(plain)?;
        identity =
            Identity::self_signed(&dir, &[&url], settings.self_signed_validity).map_err(plain)?;
        identity.files.crl_file.clone_from(&files.crl_file);
    }
    let protocol = Protocol::new(&settings.cipher_suites, settings.tls_versions).map_err(plain)?;
    tracing::info!("tls-info" = %identity.files, "gRPC proxy server TLS");
    Ok(Some(Security::of_one_end(End::Client, identity, protocol)))
}

fn acceptor_of(secure: &Security) -> Acceptor {
    Acceptor::new(secure, End::Client, false).unwrap_or_else(|error| {
        telemetry::fatal("failed to create TLS listener", &error);
    })
}

/// How the cluster is dialed, for calls and for pages.
fn dialing(settings: &Settings) -> Result<(How, Dialer), Exit> {
    let files = &settings.dial_tls;
    let given = !(files.is_empty() && files.trusted_ca_file.is_empty());
    if given && files.cert_file.is_empty() != files.key_file.is_empty() {
        return Err(plain(format!(
            "KeyFile and CertFile must both be present[key: {}, cert: {}]",
            files.key_file, files.cert_file
        )));
    }
    if !files.cert_file.is_empty() {
        // Such a name would be a user, and all clients of the proxy would be that user.
        let name = tls::common_name_in(&files.cert_file).map_err(plain)?;
        if !name.is_empty() {
            let file = &files.cert_file;
            return Err(plain(format!(
                "cert has non empty Common Name ({name}): {file}"
            )));
        }
    }
    let identity = Identity {
        files: files.clone(),
        is_made_up: settings.insecure_skip_verify,
    };
    let dialing = dial_as(identity)?;
    if given || settings.insecure_skip_verify {
        dialing.0.check().map_err(plain)?;
        if settings.insecure_skip_verify {
            tracing::warn!(
                "--insecure-skip-tls-verify was given, this grpc proxy process skips authentication of etcd server TLS certificates. This option should be enabled only for testing purposes."
            );
        }
        tracing::info!("tls-info" = %files, "gRPC proxy client TLS");
    }
    let how = How {
        tls: dialing.0,
        tls_is_usual: given || settings.insecure_skip_verify,
        keepalive: settings.dial_keepalive,
        max_send_bytes: settings.max_send_bytes,
        max_recv_bytes: settings.max_recv_bytes,
    };
    Ok((how, dialing.1))
}

fn dial_as(identity: Identity) -> Result<(Arc<Dialing>, Dialer), Exit> {
    let protocol = Protocol::new(&[], (TlsVersion::Tls12, None)).map_err(plain)?;
    let security = Security::of_one_end(End::Peer, identity, protocol);
    let dialing = Dialing::to_cluster(&security);
    Ok((Arc::new(dialing), Dialer::new(&security)))
}

/// The way of a client to this proxy, by its advertised address and with the proxy's own
/// certificate.
fn myself(settings: &Settings, secure: Option<&Security>) -> Result<Option<Upstream>, Exit> {
    let address = &settings.advertise_client_url;
    if address.is_empty() {
        return Ok(None);
    }
    let identity = match secure {
        Some(security) => security.client.clone(),
        None => Identity::default(),
    };
    let how = How {
        tls: dial_as(identity)?.0,
        tls_is_usual: secure.is_some(),
        keepalive: DialKeepalive::NONE,
        max_send_bytes: settings.max_send_bytes,
        max_recv_bytes: settings.max_recv_bytes,
    };
    let endpoint = Endpoint::parse(address, how.tls_is_usual).map_err(plain)?;
    tracing::info!(grpcProxyAdvertiseClientURL = address, "create proxy client");
    Ok(Some(Upstream::new(how, vec![endpoint])))
}

/// `--metrics-addr`: one more listener, for pages alone.
fn serve_metrics(
    settings: &Settings,
    acceptor: Option<Acceptor>,
    house: &House,
) -> Result<(), Exit> {
    if settings.metrics_addr.is_empty() {
        return Ok(());
    }
    let address = settings.metrics_addr.as_str();
    let url = Url::parse(address).map_err(plain)?;
    let acceptor = acceptor.filter(|_| url.is_secure());
    if url.is_secure() && acceptor.is_none() {
        return Err(plain(format!(
            "cannot listen on TLS for {}: KeyFile and CertFile are not presented",
            url.address()
        )));
    }
    let door = Door::bind(&url, acceptor).map_err(plain)?;
    tracing::info!(address, "gRPC proxy listening for metrics");
    let house = House {
        calls: None,
        ..house.clone()
    };
    tracing::info!("gRPC proxy server metrics URL serving");
    tokio::spawn(async move {
        let error = door.serve(house).await;
        telemetry::fatal("gRPC proxy server metrics URL returned", &error);
    });
    Ok(())
}
