//! What is behind the prefix of a value that a KMS provider sealed: the sealed value, and the
//! encrypted source of its key.

use std::collections::BTreeMap;

use machinery::name;
use prost::Message as _;

const KEY_ID_BYTES_MAX: usize = 1024;
const SOURCE_BYTES_MAX: usize = 1024;
const ANNOTATIONS_BYTES_MAX: usize = 32 << 10;

/// The source is the key itself, for AES-GCM.
pub(super) const KEY: i32 = 0;
/// The source is a seed that keys are derived from: see `seed`.
pub(super) const SEED: i32 = 1;

/// Kubernetes' `EncryptedObject`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Envelope {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) data: Vec<u8>,
    /// The plugin's key that encrypted the source.
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    /// The encrypted source.
    #[prost(bytes = "vec", tag = "3")]
    pub(super) source: Vec<u8>,
    /// What the plugin wants to see again.
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
    /// How the key comes from the source: [`KEY`] or [`SEED`].
    #[prost(int32, tag = "5")]
    pub(super) source_type: i32,
}

impl Envelope {
    /// Decodes and validates it.
    pub(super) fn read(bytes: &[u8]) -> Result<Envelope, String> {
        let envelope = Envelope::decode(bytes).map_err(|error| error.to_string())?;
        envelope.check()?;
        if envelope.data.is_empty() {
            return Err("encrypted data is empty".to_owned());
        }
        Ok(envelope)
    }

    /// Validates everything but the data.
    pub(super) fn check(&self) -> Result<(), String> {
        if ![KEY, SEED].contains(&self.source_type) {
            return Err(format!(
                "unknown encryptedDEKSourceType: {}",
                self.source_type
            ));
        }
        check_source(&self.source)
            .map_err(|why| format!("failed to validate encrypted DEK source: {why}"))?;
        check_key_id(&self.key_id).map_err(|why| format!("failed to validate key id: {why}"))?;
        check_annotations(&self.annotations)
            .map_err(|why| format!("failed to validate annotations: {why}"))
    }
}

/// Validates the id of a plugin's key.
pub(super) fn check_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".to_owned()),
        length if length > KEY_ID_BYTES_MAX => Err(format!(
            "keyID is {length} bytes, which exceeds the max size of {KEY_ID_BYTES_MAX}"
        )),
        _ => Ok(()),
    }
}

fn check_source(source: &[u8]) -> Result<(), String> {
    match source.len() {
        0 => Err("encrypted DEK source is empty".to_owned()),
        length if length > SOURCE_BYTES_MAX => Err(format!(
            "encrypted DEK source is {length} bytes, which exceeds the max size of \
             {SOURCE_BYTES_MAX}"
        )),
        _ => Ok(()),
    }
}

fn check_annotations(annotations: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    let mut bytes = 0;
    for (key, value) in annotations {
        bytes += key.len() + value.len();
        let why = name::dns1123_subdomain(key);
        if !why.is_empty() {
            return Err(format!("{key:?}: {}", why.join(", ")));
        }
        if !key.contains('.') {
            return Err(format!(
                "{key:?}: should be a domain with at least two segments separated by dots"
            ));
        }
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        return Err(format!(
            "total size of annotations is {bytes}, which exceeds the max size of \
             {ANNOTATIONS_BYTES_MAX}"
        ));
    }
    Ok(())
}
