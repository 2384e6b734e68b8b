use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;

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

fn unmasked(envelope: &Envelope) -> Source {
    let id = envelope.key_id.as_bytes().iter().cycle();
    let seed: Vec<u8> = envelope.source.iter().zip(id).map(|(a, b)| a ^ b).collect();
    Source::seed(&seed).unwrap()
}

/// A provider whose plugin is nowhere.
async fn alone(signals: &Arc<Signals>) -> Kms {
    let config = config::Kms {
        api_version: "v2".into(),
        name: "plug".into(),
        socket: "/nowhere/kms.sock".into(),
        timeout: Duration::from_secs(1),
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

#[tokio::test]
async fn a_plugin_that_hangs_is_asked_for_several_seeds_at_once() {
    const SEEDS: u8 = 32;
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kms.sock");
    // Connections wait for it in vain.
    let _silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let config = config::Kms {
        api_version: "v2".into(),
        name: "plug".into(),
        socket: socket.display().to_string(),
        timeout: Duration::from_millis(100),
    };
    let kms = Kms::start(&config, NEVER, Arc::new(Signals::default())).await;
    let sealed = (1..=SEEDS).map(|seed| {
        let envelope = Envelope {
            source: vec![seed; 40],
            ..golden()
        };
        envelope.encode_to_vec()
    });
    let sealed: Vec<Vec<u8>> = sealed.collect();
    let began = Instant::now();
    let opened = join_all(sealed.iter().map(|sealed| kms.open(KEY, sealed))).await;
    let (took, one_by_one) = (began.elapsed(), config.timeout * u32::from(SEEDS));
    assert!(opened.iter().all(|opened| opened.is_err()));
    assert!(took < one_by_one / 2, "{took:?}");
}
