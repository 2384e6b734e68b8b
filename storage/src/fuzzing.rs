//! Bodies of the fuzz targets; the targets only call them. They panic when something is wrong.

/// Bytes as a program of writes, compactions, checkpoints and restarts against the multi-version
/// store and a naive history.
pub fn mvcc_model(program: &[u8]) {
    crate::mvcc::agree_with_model(program);
}

/// Bytes as a segment file, or as damage done to a valid log, which is then recovered.
pub fn wal_recover(data: &[u8]) {
    crate::wal::recover_anything(data);
}
