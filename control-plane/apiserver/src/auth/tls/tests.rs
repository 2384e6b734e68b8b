use std::time::Duration;

use machinery::time::Timestamp;

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
