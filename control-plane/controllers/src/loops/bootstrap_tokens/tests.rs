use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::object;
use serde_json::{Value, json};

use super::*;
use crate::loops::Loop;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines};

const TOKEN: (&str, &str) = ("kube-system", "bootstrap-token-abcdef");
const INFO: (&str, &str) = ("kube-public", "cluster-info");

/// A token that ends so many seconds from now.
fn token(id: &str, left: i64) -> Value {
    let fields = [
        ("token-id", id.to_owned()),
        ("token-secret", "0123456789abcdef".to_owned()),
        ("usage-bootstrap-signing", "true".to_owned()),
        ("expiration", ago(-left)),
    ];
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": TYPE,
        "metadata": {"namespace": "kube-system", "name": format!("bootstrap-token-{id}")},
    });
    for (field, text) in fields {
        secret["data"][field] = STANDARD.encode(text).into();
    }
    secret
}

fn info(data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"namespace": "kube-public", "name": "cluster-info"},
    })
}

#[test]
fn tokens_that_are_over_are_deleted_and_others_later() {
    let decided = |token: Value| decide(&TokenCleaner, &caches(&[token]), TOKEN);
    let deletion = ["delete secrets kube-system/bootstrap-token-abcdef"];
    assert_eq!(lines(&decided(token("abcdef", 0))), deletion);
    let good = decided(token("abcdef", 60));
    assert_eq!(lines(&good), [""; 0]);
    assert_eq!(good.after, Some(Duration::from_secs(60)));
    let mut endless = token("abcdef", 0);
    object::remove(&mut endless, &["data", "expiration"]);
    let endless = decided(endless);
    assert_eq!((lines(&endless).len(), endless.after), (0, None));
    let mut unreadable = token("abcdef", 60);
    unreadable["data"]["expiration"] = STANDARD.encode("soon").into();
    assert_eq!(lines(&decided(unreadable)), deletion);
    let mut other = token("abcdef", 0);
    other["type"] = "Opaque".into();
    assert_eq!(lines(&decided(other)), [""; 0]);
}

#[test]
fn a_signature_is_that_of_kubernetes() {
    let content = "Hello from the other side. I must have called a thousand times.";
    assert_eq!(
        signer::sign(content, "joshua", b"my voice is my passcode"),
        "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
    );
}

#[test]
fn every_good_token_signs_what_nodes_must_know() {
    let mut mute = token("mutemu", 60);
    mute["data"]["usage-bootstrap-signing"] = STANDARD.encode("false").into();
    let tokens = [token("abcdef", 60), token("bygone", 0), mute];
    let mut data = json!({"kubeconfig": "clusters: []", "jws-kubeconfig-bygone": "x"});
    let all = [&tokens[..], &[info(data.clone())]].concat();
    let decision = decide(&BootstrapSigner, &caches(&all), INFO);
    assert_eq!(
        lines(&decision),
        ["patch configmaps kube-public/cluster-info"]
    );
    let signature = signer::sign("clusters: []", "abcdef", b"0123456789abcdef");
    assert_eq!(
        bodies(&decision)[0]["data"],
        json!({"jws-kubeconfig-abcdef": signature, "jws-kubeconfig-bygone": null})
    );
    data = json!({"kubeconfig": "clusters: []", "jws-kubeconfig-abcdef": signature});
    let all = [&tokens[..], &[info(data)]].concat();
    let decision = decide(&BootstrapSigner, &caches(&all), INFO);
    assert_eq!(lines(&decision), [""; 0]);
    // Then the token signs no longer.
    assert_eq!(decision.after, Some(Duration::from_secs(60)));
    let nothing = decide(
        &BootstrapSigner,
        &caches(&[info(json!({"other": "x"}))]),
        INFO,
    );
    assert_eq!(lines(&nothing), [""; 0]);
}

#[test]
fn tokens_and_the_information_wake_the_signer() {
    let caches = caches(&[token("abcdef", 60), info(json!({}))]);
    let token = caches.secrets.get(TOKEN.0, TOKEN.1).cloned();
    let info = caches.config_maps.get(INFO.0, INFO.1).cloned();
    let changes = [
        crate::cache::Changed::Secret(crate::cache::Diff {
            old: token,
            new: None,
        }),
        crate::cache::Changed::ConfigMap(crate::cache::Diff {
            old: None,
            new: info,
        }),
    ];
    for changed in changes {
        let mut woken = Vec::new();
        BootstrapSigner.wakes(&caches, &changed, &mut |key| woken.push(key));
        assert_eq!(woken, [(INFO.0.to_owned(), INFO.1.to_owned())]);
    }
}
