//! P-256 keys as Kubernetes' own tools write them: `EC PRIVATE KEY`, of SEC 1. fabric8's client for
//! Java takes every `PRIVATE KEY`, of PKCS#8, for one of RSA.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

/// What precedes the private number of a P-256 key in PKCS#8.
const PKCS8_HEAD: [u8; 36] = [
    0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02,
    0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x6d, 0x30, 0x6b, 0x02,
    0x01, 0x01, 0x04, 0x20,
];
/// The same in SEC 1: the length of all, the version, the length of the number.
const HEAD: [u8; 7] = [0x30, 0x77, 0x02, 0x01, 0x01, 0x04, 0x20];
const NUMBER_BYTES: usize = 32;
/// The name of the curve, which PKCS#8 has in its head.
const CURVE: [u8; 12] = [
    0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
];
/// The tag and the length of the public key.
const PUBLIC_HEAD: [u8; 5] = [0xa1, 0x44, 0x03, 0x42, 0x00];
const PUBLIC_BYTES: usize = 65;
const PEM_COLUMNS: usize = 64;

/// A key in PEM as SEC 1; `None` if it is no P-256 key in PKCS#8.
pub(super) fn of(pem: &str) -> Option<String> {
    let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok()?;
    let rest = key.secret_pkcs8_der().strip_prefix(&PKCS8_HEAD)?;
    let (number, public) = rest.split_at_checked(NUMBER_BYTES)?;
    let is_public = public.starts_with(&PUBLIC_HEAD);
    if !is_public || public.len() != PUBLIC_HEAD.len() + PUBLIC_BYTES {
        return None;
    }
    let text = STANDARD.encode([&HEAD, number, &CURVE, public].concat());
    let mut pem = String::from("-----BEGIN EC PRIVATE KEY-----\n");
    for line in text.as_bytes().chunks(PEM_COLUMNS) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str("-----END EC PRIVATE KEY-----\n");
    Some(pem)
}
