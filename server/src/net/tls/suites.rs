//! Cipher suites, by Go's names.

use rustls::crypto::CryptoProvider;

/// Every name that Go's TLS knows, and so etcd accepts. Suites with weak ciphers are accepted but
/// never used: a list with only these leaves TLS 1.3.
const NAMES: &[&str] = &[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Checks that all names are known; the error is etcd's.
pub(super) fn known(names: &[String]) -> Result<(), String> {
    match names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!("unexpected TLS cipher suite {name:?}")),
    }
}

/// Removes the TLS 1.2 suites that are not named. As in Go, the list does not affect TLS 1.3, whose
/// suites all stay.
pub(super) fn restrict(provider: &mut CryptoProvider, names: &[String]) {
    provider.cipher_suites.retain(|suite| {
        let id = format!("{:?}", suite.suite());
        suite.tls13().is_some()
            || names.iter().any(|name| {
                let full = match name.strip_suffix("_POLY1305") {
                    Some(_) => format!("{name}_SHA256"),
                    None => name.clone(),
                };
                full == id
            })
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_suites_are_left_and_unknown_names_refused() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let left = |list: &[&str]| {
            let mut provider = rustls::crypto::aws_lc_rs::default_provider();
            restrict(&mut provider, &names(list));
            let suites = provider.cipher_suites.iter();
            suites.filter(|suite| suite.tls13().is_none()).count()
        };
        assert_eq!(left(&["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"]), 1);
        let two = [
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        ];
        assert_eq!(left(&two), 2);
        assert_eq!(left(&["TLS_RSA_WITH_AES_128_CBC_SHA"]), 0);
        let unknown = known(&names(&["TLS_NONE"])).unwrap_err();
        assert_eq!(unknown, "unexpected TLS cipher suite \"TLS_NONE\"");
        assert_eq!(known(&names(NAMES)), Ok(()));
    }
}
