use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

use machinery::time::Timestamp;
use parking_lot::Mutex;

use super::super::authenticate::front_proxy;
use super::super::pki::Pki;
use super::*;

const NOW: i64 = 1_800_000_000;

fn world() -> (tempfile::TempDir, Pki, Tls) {
    let directory = tempfile::tempdir().unwrap();
    let now = Timestamp {
        seconds: NOW,
        nanos: 0,
    };
    let pki = Pki::open(directory.path(), &[], now).unwrap();
    let tls = Tls::new(&pki.server, Some(&pki.authority)).unwrap();
    (directory, pki, tls)
}

fn at(seconds: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds as u64))
}

#[test]
fn a_certificate_of_ours_names_its_bearer() {
    let (_directory, pki, tls) = world();
    let shown = certificates(&pki.admin.certificate).unwrap();
    let Peer::Bearer(bearer) = tls.peer(Some(&shown), at(NOW)) else {
        panic!("it was not believed");
    };
    assert_eq!(bearer.user.name, "kubernetes-admin");
    assert_eq!(tls.peer(None, at(NOW)), Peer::Nobody);
    assert_eq!(tls.peer(Some(&[]), at(NOW)), Peer::Nobody);
}

#[test]
fn others_expired_ones_and_those_of_servers_are_refused() {
    let (_directory, pki, tls) = world();
    let (_other_directory, other, _) = world();
    let cases = [
        (&other.admin.certificate, NOW),
        (&pki.admin.certificate, NOW + 400 * 24 * 3600),
        (&pki.server.certificate, NOW),
    ];
    for (pem, now) in cases {
        let peer = tls.peer(Some(&certificates(pem).unwrap()), at(now));
        assert!(matches!(peer, Peer::Refused(_)), "{peer:?}");
    }
}

#[test]
fn a_proxy_has_a_certificate_of_its_authority_and_an_allowed_name() {
    let (_directory, pki, _) = world();
    let (_other_directory, other, _) = world();
    let options = |name: &str| front_proxy::Options {
        allowed_names: vec![name.to_owned()],
        ..front_proxy::Options::default()
    };
    let peer = |name: &str, pem: &str, now: i64| {
        let proxies = FrontProxy::new(options(name), other.authority.clone());
        let shown = Certificates {
            identity: pki.server.clone(),
            clients: Some(pki.authority.clone()),
            proxies: Some(other.authority.clone()),
        };
        let read = Box::new(|| Err("nobody reads them again".to_owned()));
        let tls = Tls::reading(shown, read, Some(Arc::new(proxies)), false);
        tls.unwrap()
            .peer(Some(&certificates(pem).unwrap()), at(now))
    };
    let (ours, theirs) = (&pki.admin.certificate, &other.admin.certificate);
    let Peer::Proxy { own, .. } = peer("kubernetes-admin", theirs, NOW) else {
        panic!("it was not believed");
    };
    assert!(matches!(*own, Peer::Refused(_)), "it is no client: {own:?}");
    let expired = NOW + 400 * 24 * 3600;
    assert!(matches!(
        peer("kubernetes-admin", theirs, expired),
        Peer::Refused(_)
    ));
    assert!(matches!(peer("another", theirs, NOW), Peer::Refused(_)));
    assert!(matches!(
        peer("kubernetes-admin", ours, NOW),
        Peer::Bearer(_)
    ));
    assert!(overlap(&pki.authority, &pki.authority).unwrap());
    assert!(!overlap(&pki.authority, &other.authority).unwrap());
}

#[test]
fn new_certificates_count_for_new_connections() {
    let (_directory, pki, _) = world();
    let (_other_directory, other, _) = world();
    let of = |identity: &Pki, clients: &Pki| Certificates {
        identity: identity.server.clone(),
        clients: Some(clients.authority.clone()),
        proxies: None,
    };
    let there = Arc::new(Mutex::new(of(&pki, &pki)));
    let shared = Arc::clone(&there);
    let read = Box::new(move || Ok(shared.lock().clone()));
    let first = there.lock().clone();
    let tls = Tls::reading(first, read, None, false).unwrap();
    let is_known = |pki: &Pki| {
        let shown = certificates(&pki.admin.certificate).unwrap();
        matches!(tls.peer(Some(&shown), at(NOW)), Peer::Bearer(_))
    };
    assert!(tls.read_again().unwrap().is_none());
    assert!(is_known(&pki) && !is_known(&other));

    let connecting = tls.current();
    *there.lock() = of(&other, &other);
    assert!(tls.clone().read_again().unwrap() == Some(of(&other, &other)));
    assert!(!is_known(&pki) && is_known(&other));
    assert!(connecting.certificates == of(&pki, &pki));

    // A key that has not been replaced yet with its certificate.
    there.lock().identity.key = pki.server.key.clone();
    assert!(tls.read_again().is_err());
    assert!(is_known(&other));
}

#[tokio::test]
async fn certificates_that_cannot_be_read_at_once_stop_no_task() {
    let (_directory, pki, _) = world();
    let shown = Certificates {
        identity: pki.server.clone(),
        clients: None,
        proxies: None,
    };
    let (file, slow) = mpsc::channel::<()>();
    let slow = Mutex::new(slow);
    let read = Box::new(move || {
        // The limit is for a read that the test would wait for.
        let _ = slow.lock().recv_timeout(Duration::from_secs(60));
        Err("it is gone".to_owned())
    });
    let tls = Tls::reading(shown, read, None, false).unwrap();
    let mut reading = pin!(tls.read_aside());
    tokio::select! {
        biased;
        _ = &mut reading => panic!("the task has waited for it"),
        () = std::future::ready(()) => {}
    }
    drop(file);
    assert!(reading.await == Err("it is gone".to_owned()));
}
