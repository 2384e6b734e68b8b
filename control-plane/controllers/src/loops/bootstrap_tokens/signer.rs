//! Signs what a new node must know of the cluster with each token: the node trusts it because its
//! own token has signed it. A signature is a JWS (RFC 7515) without its content.

use std::collections::BTreeMap;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};

use super::{Life, NAMESPACE, is_token, life, text};
use crate::cache::{Caches, Changed};
use crate::decision::{Decision, change};
use crate::known::Key;
use crate::loops::{Context, Loop};
use crate::meta;

/// The namespace and the name of what is signed.
const INFO: (&str, &str) = ("kube-public", "cluster-info");
/// The field of it that is signed.
const CONTENT: &str = "kubeconfig";
/// The first part of the names of the fields with signatures; a token's id follows.
const SIGNATURE: &str = "jws-kubeconfig-";
/// The first part of the names of the secrets; the token's id follows.
const SECRET: &str = "bootstrap-token-";
/// The length of an id.
const ID_BYTES: usize = 6;

pub(crate) struct BootstrapSigner;

impl Loop for BootstrapSigner {
    fn name(&self) -> &'static str {
        "bootstrap-signer"
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        let concerns = match changed {
            Changed::Secret(diff) => diff.old.iter().chain(&diff.new).any(|one| is_token(one)),
            Changed::ConfigMap(diff) => diff.new.iter().any(|one| {
                let metadata = &one.metadata;
                (meta::namespace(metadata), meta::name(metadata)) == INFO
            }),
            _ => false,
        };
        if concerns {
            wake((INFO.0.to_owned(), INFO.1.to_owned()));
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let mut decision = Decision::nothing();
        let Some(info) = context.caches.config_maps.at(key) else {
            return decision;
        };
        let Some((data, content)) = info
            .data
            .as_ref()
            .and_then(|data| Some((data, data.get(CONTENT)?)))
        else {
            return decision;
        };
        let signatures = data.iter();
        let has: BTreeMap<&String, &String> = signatures
            .filter(|(field, _)| field.starts_with(SIGNATURE))
            .collect();
        let mut wanted: BTreeMap<String, String> = BTreeMap::new();
        for secret in context.caches.secrets.in_namespace(NAMESPACE) {
            let Some(id) = signing_id(secret) else {
                continue;
            };
            match life(secret, context.now) {
                Life::Endless => {}
                Life::Left(left) => decision.again(left),
                Life::Over => continue,
            }
            let signature = sign(content, &id, text(secret, "token-secret").as_bytes());
            wanted.insert(format!("{SIGNATURE}{id}"), signature);
        }
        let mut patch = Map::new();
        for field in has.keys() {
            if !wanted.contains_key(field.as_str()) {
                patch.insert((*field).clone(), Value::Null);
            }
        }
        for (field, signature) in &wanted {
            if has.get(field).is_none_or(|has| *has != signature) {
                patch.insert(field.clone(), signature.as_str().into());
            }
        }
        if !patch.is_empty() {
            decision.push(change(info.as_ref(), json!({"data": patch})));
        }
        decision
    }
}

/// The id of a token that may sign.
fn signing_id(secret: &Secret) -> Option<String> {
    let id = meta::name(&secret.metadata).strip_prefix(SECRET)?;
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    let signs = is_token(secret)
        && id.len() == ID_BYTES
        && id.bytes().all(is_plain)
        && text(secret, "token-id") == id
        && !text(secret, "token-secret").is_empty()
        && text(secret, "usage-bootstrap-signing") == "true";
    signs.then(|| id.to_owned())
}

/// The signature of a token, which has no letters that JSON would escape.
pub(super) fn sign(content: &str, id: &str, secret: &[u8]) -> String {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let header = encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#).as_bytes());
    let signed = format!("{header}.{}", encode(content.as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let signature = encode(hmac::sign(&key, signed.as_bytes()).as_ref());
    format!("{header}..{signature}")
}
