//! Bodies of the fuzz targets: each takes any bytes and may never panic.

use std::path::Path;
use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use prost::Message;
use storage::vfs::sim::SimVfs;

use crate::grpc::check;
use crate::request::Request;
use crate::snapshot::rows;

/// Bytes as a log entry and as client requests: what decodes must survive the checks, and encode
/// to something that decodes to the same.
pub fn request_decode(data: &[u8]) {
    if let Ok(request) = Request::decode(data)
        && request != Request::Read
    {
        assert_eq!(Request::decode(&request.encode(1)).as_ref(), Ok(&request));
    }
    if let Ok(txn) = pb::TxnRequest::decode(data) {
        // Only whether it ends, and without a panic, matters here.
        let _ = check::txn(&txn, 128);
    }
    if let Ok(range) = pb::RangeRequest::decode(data) {
        let _ = (check::range(&range), check::range_stream(&range));
    }
    if let Ok(put) = pb::PutRequest::decode(data) {
        let _ = check::put(&put);
    }
}

/// Bytes as the first frame of a snapshot's rows: what is no row is refused before it gets into the
/// store, and what is loaded is sound.
pub fn snapshot_rows(data: &[u8]) {
    let sum = crc32c::crc32c(data);
    let head = [(data.len() as u32).to_le_bytes(), sum.to_le_bytes()].concat();
    let stream = [&head[..], data].concat();
    let vfs = Arc::new(SimVfs::new(1));
    if let Ok(incoming) = rows::load(
        vfs,
        Path::new("/store"),
        Default::default(),
        &mut &stream[..],
    ) {
        let store = incoming.install().expect("a disk without faults");
        store.check().expect("what is loaded is sound");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_decode_or_are_refused() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            request_decode(&bytes);
            snapshot_rows(&bytes);
            Ok(())
        });
    }
}
