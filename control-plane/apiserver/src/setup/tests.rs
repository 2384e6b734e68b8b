#![expect(
    clippy::disallowed_methods,
    reason = "files of other programs, in a temporary directory"
)]

use super::*;

fn settings(serving: Serving) -> Settings {
    Settings {
        serving,
        newest_tls_only: false,
        names: vec!["api.test".to_owned()],
        service_ranges: ServiceRanges::parse("10.0.0.0/24").unwrap(),
        client_authority: None,
        token_file: None,
        anonymous: Some(true),
        authorization: Authorization::of(&[Mode::Rbac]),
        accounts: Accounts::default(),
        further: Further::default(),
    }
}

#[test]
fn a_certificate_that_somebody_has_put_there_is_shown_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("certificates");
    let made = || settings(Serving::SelfSigned(path.clone())).open().unwrap();
    assert!(made().tls.is_some());
    let first = std::fs::read(path.join("apiserver.crt")).unwrap();
    made();
    assert_eq!(std::fs::read(path.join("apiserver.crt")).unwrap(), first);
    let given = Serving::Given {
        certificate: path.join("apiserver.crt"),
        key: path.join("apiserver.key"),
    };
    let setup = settings(given).open().unwrap();
    assert!(setup.tls.is_some() && setup.pki.is_none());
    assert_eq!(setup.config.client_authority, None);

    std::fs::remove_file(path.join("apiserver.key")).unwrap();
    let error = settings(Serving::SelfSigned(path.clone())).open().err();
    let error = error.unwrap();
    assert!(error.ends_with("apiserver.key: missing, though apiserver.crt is there"));
}

#[test]
fn the_authority_of_clients_may_be_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let own = Serving::Own(directory.path().to_owned());
    let clients = Serving::Own(other.path().to_owned());
    settings(clients).open().unwrap();
    let mut settings = settings(own);
    let ours = settings.open().unwrap().config.client_authority;
    settings.client_authority = Some(other.path().join("ca.crt"));
    let theirs = settings.open().unwrap().config.client_authority;
    assert!(ours != theirs && theirs.is_some());
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.pem");
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for path in [missing, empty] {
        let mut settings = settings(Serving::Plain);
        settings.accounts.keys = vec![path.clone()];
        let error = settings.open().err().unwrap();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
}
