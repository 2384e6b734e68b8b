//! What sealing and opening values counts, and what the calls to KMS plugins do, under Kubernetes'
//! names.

use std::time::Duration;

use crate::basics::clock;
use crate::basics::hashed::{SERVER, hash};
use crate::basics::metrics::Family;

static SECONDS: Family = Family::histogram(
    "apiserver_storage_transformation_duration_seconds",
    "[ALPHA] Latencies in seconds of value transformation operations.",
    &["transformation_type", "transformer_prefix"],
    &[
        5e-6, 1e-5, 2e-5, 4e-5, 8e-5, 0.00016, 0.00032, 0.00064, 0.00128, 0.00256, 0.00512,
        0.01024, 0.02048, 0.04096, 0.08192, 0.16384, 0.32768, 0.65536, 1.31072, 2.62144, 5.24288,
        10.48576, 20.97152, 41.94304, 83.88608,
    ],
);
static OPERATIONS: Family = Family::counter(
    "apiserver_storage_transformation_operations_total",
    "[ALPHA] Total number of transformations. Successful transformation will have a status 'OK' \
     and a varied status string when the transformation fails. The status, resource, and \
     transformation_type fields can be used for alerting purposes. For example, you can monitor \
     for encryption/decryption failures using the transformation_type (e.g., from_storage for \
     decryption and to_storage for encryption). Additionally, these fields can be used to ensure \
     that the correct transformers are applied to each resource.",
    &[
        "resource",
        "transformation_type",
        "transformer_prefix",
        "status",
    ],
);

static CALLS: Family = Family::histogram(
    "apiserver_envelope_encryption_kms_operations_latency_seconds",
    "[ALPHA] KMS operation duration with gRPC error code status total.",
    &["provider_name", "method_name", "grpc_status_code"],
    &[
        0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024,
        0.2048, 0.4096, 0.8192, 1.6384, 3.2768, 6.5536, 13.1072, 26.2144, 52.4288,
    ],
);
const OF_KEY: &[&str] = &[
    "transformation_type",
    "provider_name",
    "key_id_hash",
    "apiserver_id_hash",
];
static KEYS_USED: Family = Family::counter(
    "apiserver_envelope_encryption_key_id_hash_total",
    "[ALPHA] Number of times a keyID is used split by transformation type, provider, and apiserver \
     identity.",
    OF_KEY,
);
static KEYS_USED_LAST: Family = Family::gauge(
    "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds",
    "[ALPHA] The last time in seconds when a keyID was used.",
    OF_KEY,
);
static STATUS_LAST: Family = Family::gauge(
    "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds",
    "[ALPHA] The last time in seconds when a keyID was returned by the Status RPC call.",
    &["provider_name", "key_id_hash", "apiserver_id_hash"],
);
static STATUS_INVALID: Family = Family::counter(
    "apiserver_envelope_encryption_invalid_key_id_from_status_total",
    "[ALPHA] Number of times an invalid keyID is returned by the Status RPC call split by error.",
    &["provider_name", "error"],
);
static SOURCES: Family = Family::gauge(
    "apiserver_envelope_encryption_dek_source_cache_size",
    "[ALPHA] Number of records in data encryption key (DEK) source cache. On a restart, this value \
     is an approximation of the number of decrypt RPC calls the server will make to the KMS plugin.",
    &["provider_name"],
);

/// All families.
pub(crate) static ALL: [&Family; 8] = [
    &SECONDS,
    &OPERATIONS,
    &CALLS,
    &KEYS_USED,
    &KEYS_USED_LAST,
    &STATUS_LAST,
    &STATUS_INVALID,
    &SOURCES,
];

/// The two directions.
pub(super) const FROM_STORAGE: &str = "from_storage";
pub(super) const TO_STORAGE: &str = "to_storage";

/// Counts an operation of a provider on a value of a resource.
pub(super) fn done(resource: &str, way: &str, prefix: &str, is_good: bool, took: Duration) {
    let status = if is_good { "OK" } else { "Unknown" };
    OPERATIONS.count(&[resource, way, prefix, status]);
    if is_good {
        SECONDS.took(&[way, prefix], took);
    }
}

/// Counts a call to a plugin and its gRPC status code.
pub(super) fn called(provider: &str, method: &str, code: &str, took: Duration) {
    CALLS.took(&[provider, method, code], took);
}

/// Counts a value that was sealed with, or is about to be opened by, a key of a plugin.
pub(super) fn key_used(way: &str, provider: &str, key_id: &str) {
    let labels = [way, provider, &hash(key_id), &SERVER];
    KEYS_USED.count(&labels);
    KEYS_USED_LAST.set(&labels, clock::now().seconds as f64);
}

/// Notes the key that a plugin seals with.
pub(super) fn key_of_status(provider: &str, key_id: &str) {
    let labels = [provider, &hash(key_id), &SERVER];
    STATUS_LAST.set(&labels, clock::now().seconds as f64);
}

/// Counts a plugin's status whose key has an id that is no id.
pub(super) fn invalid_key_of_status(provider: &str, key_id: &str) {
    let error = if key_id.is_empty() {
        "empty"
    } else {
        "too_long"
    };
    STATUS_INVALID.count(&[provider, error]);
}

/// Notes how many sources of keys a provider holds.
pub(super) fn sources(provider: &str, count: usize) {
    SOURCES.set(&[provider], count as f64);
}
