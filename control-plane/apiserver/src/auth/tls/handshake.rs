//! Handshakes with clients that present a trusted certificate, an untrusted one, or none.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;

use super::super::pki::{Identity, Pki};
use super::*;

struct World {
    pki: Pki,
    tls: Tls,
    listener: TcpListener,
    _directory: tempfile::TempDir,
}

async fn world() -> World {
    let directory = tempfile::tempdir().unwrap();
    let pki = Pki::open(directory.path(), &[], clock::now()).unwrap();
    let tls = Tls::new(&pki.server, Some(&pki.authority)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    World {
        pki,
        tls,
        listener,
        _directory: directory,
    }
}

fn pem(text: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(text.as_bytes()).unwrap()
}

/// Connects as `identity`, trusts `authority`, and sends a word.
async fn connect(
    address: SocketAddr,
    authority: &str,
    identity: Option<&Identity>,
) -> io::Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(pem(authority)).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
            builder
                .with_client_auth_cert(vec![pem(&identity.certificate)], key)
                .unwrap()
        }
    };
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    stream.write_all(b"word").await?;
    stream.shutdown().await
}

async fn peer(world: &mut World, identity: Option<&Identity>) -> Peer {
    let address = world.listener.local_addr().unwrap();
    let accepted = async {
        let (stream, _) = world.listener.accept().await.unwrap();
        let (mut stream, peer) = world.tls.accept(stream).await.unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"word");
        peer
    };
    let (connected, peer) =
        tokio::join!(connect(address, &world.pki.authority, identity), accepted);
    connected.unwrap();
    peer
}

#[tokio::test]
async fn the_peer_is_who_the_certificate_says() {
    let mut world = world().await;
    let admin = world.pki.admin.clone();
    let Peer::Bearer(bearer) = peer(&mut world, Some(&admin)).await else {
        panic!("it was not believed");
    };
    assert_eq!(bearer.user.name, "kubernetes-admin");
    assert_eq!(peer(&mut world, None).await, Peer::Nobody);
}

#[tokio::test]
async fn a_certificate_of_another_authority_makes_a_connection_but_nobody_known() {
    let (mut ours, theirs) = (world().await, world().await);
    let peer = peer(&mut ours, Some(&theirs.pki.admin)).await;
    assert!(matches!(peer, Peer::Refused(_)), "{peer:?}");
}

#[tokio::test]
async fn a_client_that_believes_in_another_authority_does_not_connect() {
    let (ours, theirs) = (world().await, world().await);
    let accepting = async {
        let (stream, _) = ours.listener.accept().await.unwrap();
        assert!(ours.tls.accept(stream).await.is_err());
    };
    let connecting = connect(
        ours.listener.local_addr().unwrap(),
        &theirs.pki.authority,
        None,
    );
    let (failed, ()) = tokio::join!(connecting, accepting);
    assert!(
        failed
            .unwrap_err()
            .to_string()
            .contains("invalid peer certificate")
    );
}
