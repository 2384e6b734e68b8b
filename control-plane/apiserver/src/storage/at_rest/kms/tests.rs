use std::collections::HashSet;
use std::convert::Infallible;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::try_join_all;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tokio::sync::Barrier;
use tonic_prost::ProstCodec;

use super::contract::{DecryptRequest, DecryptResponse};
use super::*;

const KEY: &str = "/registry/secrets/n/s";
const PLAIN: &[u8] = b"a secret of seventeen";
/// Sealed by Kubernetes with the plugin of `benches/peers/kubernetes/sealed`, which masks seeds with
/// the id of its key.
const GOLDEN: &str = "azhzOmVuYzprbXM6djI6cGx1ZzoKUdE1AFj3WgGClELzlGeS9588qaMPqhgvZJE5ihFzx52x3twBsi/oN+WP0AZV20EqVwv+qMWlXsW10f0EjjvkPBQ9s7swEorfd92wwNoimRQrQBIFZmlyc3QaIJ/JuKnEWAhcgkv16+53Z/2cYaYV+xsI673GMZp3ZtXOIhoKEXBsdWdpbi5zdGVsZS50ZXN0EgVmaXJzdCgB";
const PREFIX: &[u8] = b"k8s:enc:kms:v2:plug:";

const NEVER: Intervals = Intervals {
    healthy: Duration::from_secs(3600),
    failing: Duration::from_secs(3600),
    write_for: Duration::from_secs(3600),
};

fn golden() -> Envelope {
    let bytes = STANDARD.decode(GOLDEN).unwrap();
    Envelope::read(bytes.strip_prefix(PREFIX).unwrap()).unwrap()
}

/// The seed that the plugin masked.
fn seed_of(envelope: &Envelope) -> Vec<u8> {
    let id = envelope.key_id.as_bytes().iter().cycle();
    envelope.source.iter().zip(id).map(|(a, b)| a ^ b).collect()
}

fn unmasked(envelope: &Envelope) -> Source {
    Source::seed(&seed_of(envelope)).unwrap()
}

/// A provider whose plugin is nowhere.
async fn alone(signals: &Arc<Signals>) -> Kms {
    let socket = Path::new("/nowhere/kms.sock");
    at(socket, Duration::from_secs(1), signals).await
}

/// A provider with the plugin at a socket, which has `timeout` for each call.
async fn at(socket: &Path, timeout: Duration, signals: &Arc<Signals>) -> Kms {
    let config = config::Kms {
        api_version: "v2".into(),
        name: "plug".into(),
        socket: socket.display().to_string(),
        timeout,
    };
    Kms::start(&config, NEVER, Arc::clone(signals)).await
}

/// Takes the seed of the golden value as if the plugin had encrypted it.
fn take(kms: &Kms, until: Instant) {
    let envelope = Envelope {
        data: Vec::new(),
        ..golden()
    };
    *kms.inner.current.write() = Some(Current {
        source: Arc::new(unmasked(&envelope)),
        envelope,
        until,
    });
}

#[test]
fn what_kubernetes_sealed_with_a_seed_is_opened() {
    let envelope = golden();
    assert_eq!(
        (envelope.key_id.as_str(), envelope.source_type),
        ("first", 1)
    );
    let source = unmasked(&envelope);
    assert_eq!(source.open(KEY, &envelope.data).unwrap(), PLAIN);
    // The store's key is authenticated.
    assert!(
        source
            .open("/registry/secrets/n/t", &envelope.data)
            .is_err()
    );
    let (one, other) = (
        source.seal(KEY, PLAIN).unwrap(),
        source.seal(KEY, PLAIN).unwrap(),
    );
    assert_ne!(one, other);
    assert_eq!(one.len(), envelope.data.len());
    assert_eq!(source.open(KEY, &one).unwrap(), PLAIN);
    for end in 0..one.len() {
        assert!(source.open(KEY, &one[..end]).is_err(), "{end}");
    }
}

#[test]
fn a_source_that_is_a_key_opens_too() {
    let source = Source::key(&[7; 32]).unwrap();
    let sealed = source.seal(KEY, PLAIN).unwrap();
    assert_eq!(source.open(KEY, &sealed).unwrap(), PLAIN);
    assert!(Source::key(&[7; 5]).is_err());
    assert!(Source::seed(&[7; 31]).is_err());
}

#[test]
fn envelopes_are_validated() {
    let encoded = |change: fn(&mut Envelope)| {
        let mut envelope = golden();
        change(&mut envelope);
        Envelope::read(&envelope.encode_to_vec()).err()
    };
    assert_eq!(encoded(|_| {}), None);
    let refused = |change, why: &str| {
        let error: String = encoded(change).unwrap();
        assert!(error.contains(why), "{error}");
    };
    refused(|one| one.data.clear(), "encrypted data is empty");
    refused(|one| one.source.clear(), "encrypted DEK source is empty");
    refused(
        |one| one.source = vec![1; 1025],
        "exceeds the max size of 1024",
    );
    refused(|one| one.key_id.clear(), "keyID is empty");
    refused(
        |one| one.key_id = "k".repeat(1025),
        "exceeds the max size of 1024",
    );
    refused(
        |one| one.source_type = 2,
        "unknown encryptedDEKSourceType: 2",
    );
    refused(
        |one| drop(one.annotations.insert("short".into(), Vec::new())),
        "at least two segments",
    );
    refused(
        |one| drop(one.annotations.insert("a.b".into(), vec![0; 32 << 10])),
        "exceeds the max size of 32768",
    );
    assert!(Envelope::read(b"\xff").is_err());
}

#[tokio::test]
async fn without_a_plugin_nothing_is_sealed_and_only_known_seeds_open() {
    let signals = Arc::new(Signals::default());
    let kms = alone(&signals).await;
    let health = kms.health().unwrap_err();
    assert!(
        health.contains("status section of the healthz check for KMS Provider plug"),
        "{health}"
    );
    let why = kms.seal(KEY, PLAIN).await.unwrap_err();
    assert!(
        why.contains("has no key yet") && why.contains(&health),
        "{why}"
    );
    let bytes = STANDARD.decode(GOLDEN).unwrap();
    let sealed = bytes.strip_prefix(PREFIX).unwrap();
    let why = kms.open(KEY, sealed).await.unwrap_err();
    assert!(why.starts_with("failed to decrypt DEK"), "{why}");

    // With a seed from before the plugin failed.
    take(&kms, Instant::now() + Duration::from_secs(3600));
    let ours = kms.seal(KEY, PLAIN).await.unwrap();
    let envelope = Envelope {
        data: Vec::new(),
        ..golden()
    };
    let known = Known::Opened(Arc::new(unmasked(&envelope)));
    kms.inner.keep(envelope.encode_to_vec(), known);
    for sealed in [sealed, ours.as_slice()] {
        assert_eq!(
            kms.open(KEY, sealed).await.unwrap(),
            (PLAIN.to_vec(), false)
        );
    }
    // Under another key of the plugin the value is stale.
    if let Some(current) = &mut *kms.inner.current.write() {
        current.envelope.key_id = "second".into();
    }
    assert_eq!(kms.open(KEY, sealed).await.unwrap(), (PLAIN.to_vec(), true));

    // It expires for writes, and not for reads.
    take(&kms, Instant::now() - Duration::from_millis(1));
    let why = kms.seal(KEY, PLAIN).await.unwrap_err();
    assert!(
        why.contains("a key that expired while its plugin failed"),
        "{why}"
    );
    assert!(kms.open(KEY, sealed).await.is_ok());
}

#[tokio::test]
async fn a_plugin_that_fails_altogether_is_asked_for_a_seed_less_often() {
    let signals = Arc::new(Signals::default());
    let kms = alone(&signals).await;
    let bytes = STANDARD.decode(GOLDEN).unwrap();
    let sealed = bytes.strip_prefix(PREFIX).unwrap();
    let failed_until = async || {
        kms.inner.sources.lock().clear();
        kms.open(KEY, sealed).await.unwrap_err();
        let sources = kms.inner.sources.lock();
        match sources.values().next() {
            Some(Known::Failed { until, .. }) => *until,
            _ => panic!("it has no seed"),
        }
    };
    let unhealthy = failed_until().await;
    *kms.inner.health.write() = Ok(());
    let healthy = failed_until().await;
    assert!(healthy < unhealthy, "{healthy:?} {unhealthy:?}");
}

/// A plugin that only decrypts, every source to the same seed, and answers calls only in groups of
/// [`DECRYPTING_MAX`]: a call gets no answer until all calls of its group are open.
async fn answer_in_groups(listener: UnixListener, seed: Vec<u8>) {
    let group = Arc::new(Barrier::new(DECRYPTING_MAX));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (group, seed) = (Arc::clone(&group), seed.clone());
        let service = service_fn(move |request: http::Request<Incoming>| {
            let (group, seed) = (Arc::clone(&group), seed.clone());
            async move { Ok::<_, Infallible>(decrypted(request, group, seed).await) }
        });
        tokio::spawn(async move {
            // The connection ends with the provider.
            let _ = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// The answer to one call of that plugin.
async fn decrypted(
    request: http::Request<Incoming>,
    group: Arc<Barrier>,
    plaintext: Vec<u8>,
) -> http::Response<tonic::body::Body> {
    if !request.uri().path().ends_with("/Decrypt") {
        return tonic::Status::unimplemented("it only decrypts").into_http();
    }
    let decrypt = tower::service_fn(move |_: tonic::Request<DecryptRequest>| {
        let (group, plaintext) = (Arc::clone(&group), plaintext.clone());
        async move {
            group.wait().await;
            Ok::<_, tonic::Status>(tonic::Response::new(DecryptResponse { plaintext }))
        }
    });
    let codec = ProstCodec::<DecryptResponse, DecryptRequest>::default();
    tonic::server::Grpc::new(codec)
        .unary(decrypt, request)
        .await
}

/// Values with different encrypted seeds: one for each of the locks that readers wait for.
fn one_for_each_turn(kms: &Kms) -> Vec<Vec<u8>> {
    let (mut turns, mut values) = (HashSet::new(), Vec::new());
    for byte in 0..=u8::MAX {
        let envelope = Envelope {
            data: Vec::new(),
            source: vec![byte; 40],
            ..golden()
        };
        let turn = kms.inner.turn(&envelope.encode_to_vec());
        if turns.insert(std::ptr::from_ref(turn)) {
            let value = Envelope {
                data: golden().data,
                ..envelope
            };
            values.push(value.encode_to_vec());
        }
    }
    values
}

/// Seeds that are asked for one after the other never fill a group, and a seed that is asked for
/// twice is alone in a second one: either way a call gets no answer.
#[tokio::test]
async fn a_plugin_is_asked_for_several_seeds_at_once_and_once_for_each() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kms.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(answer_in_groups(listener, seed_of(&golden())));
    let signals = Arc::new(Signals::default());
    let kms = at(&socket, Duration::from_secs(60), &signals).await;
    let sealed = one_for_each_turn(&kms);
    assert_eq!(sealed.len(), DECRYPTING_MAX);
    let readers = sealed.iter().chain(&sealed);
    let opened = try_join_all(readers.map(|sealed| kms.open(KEY, sealed))).await;
    let opened = opened.unwrap();
    assert_eq!(opened, vec![(PLAIN.to_vec(), false); 2 * DECRYPTING_MAX]);
}

#[tokio::test]
async fn a_plugin_that_hangs_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kms.sock");
    // Connections wait for it in vain.
    let _silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let signals = Arc::new(Signals::default());
    let kms = at(&socket, Duration::from_millis(100), &signals).await;
    let sealed = golden();
    let why = kms.open(KEY, &sealed.encode_to_vec()).await.unwrap_err();
    assert!(why.contains("no answer within"), "{why}");
}
