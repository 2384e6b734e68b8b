//! What is opened, and what is refused.

use super::*;

fn handling() -> Handling {
    Handling {
        version: VERSION.into(),
        mode: "blocking".into(),
        buffer_size: 10,
        max_batch_size: 1,
        max_batch_wait: Duration::ZERO,
        throttle: false,
        throttle_qps: 0.0,
        throttle_burst: 0,
        truncate: false,
        max_batch_bytes: 20,
        max_event_bytes: 10,
    }
}

fn log(path: &Path) -> LogOptions {
    LogOptions {
        path: path.to_owned(),
        format: "json".into(),
        max_age: 0,
        max_backups: 0,
        max_size: 1,
        compress: false,
        handling: handling(),
    }
}

#[tokio::test]
async fn without_a_policy_the_file_is_made_and_nothing_is_recorded() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("a/audit.log");
    let options = Options {
        log: Some(log(&path)),
        ..Options::default()
    };
    assert!(options.open().unwrap().is_none());
    assert!(path.exists());
    assert!(Options::default().open().unwrap().is_none());
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the file is an operator's")]
async fn a_policy_that_cannot_be_read_is_named() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("policy.yaml");
    let options = Options {
        policy_file: Some(path.clone()),
        ..Options::default()
    };
    let place = path.display();
    let why = options.open().unwrap_err();
    let start = format!("loading audit policy file: failed to read file path \"{place}\": ");
    assert!(why.starts_with(&start), "{why}");
    std::fs::write(&path, "apiVersion: audit.k8s.io/v1\nkind: Policy\n").unwrap();
    assert_eq!(
        options.open().unwrap_err(),
        format!("loading audit policy file: loaded illegal policy with 0 rules: from file {place}")
    );
}

#[test]
fn the_version_of_events_is_checked() {
    let mut options = Options {
        log: Some(log(Path::new("-"))),
        ..Options::default()
    };
    options.validate().unwrap();
    options.log.as_mut().unwrap().handling.version = "audit.k8s.io/v2".into();
    let why = options.validate().unwrap_err();
    assert_eq!(
        why,
        "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]"
    );
}
