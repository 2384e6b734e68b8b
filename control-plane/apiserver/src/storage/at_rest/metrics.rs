//! What sealing and opening values counts, under Kubernetes' names.

use std::time::Duration;

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

/// All families.
pub(crate) static ALL: [&Family; 2] = [&SECONDS, &OPERATIONS];

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
