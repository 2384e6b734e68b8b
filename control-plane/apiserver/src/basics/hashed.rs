//! Metrics tell of names and keys by their hashes, as Kubernetes does.

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

/// The hash of the name of this server.
pub(crate) static SERVER: LazyLock<String> = LazyLock::new(|| {
    let machine = rustix::system::uname();
    hash(&format!(
        "apiserver-{}",
        machine.nodename().to_string_lossy()
    ))
});

pub(crate) fn hash(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    format!("sha256:{}", HEXLOWER.encode(digest.as_ref()))
}
