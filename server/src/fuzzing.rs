//! Bodies of the fuzz targets: each takes any bytes and may never panic.

use etcd_api::etcdserverpb as pb;
use prost::Message;

use crate::grpc::check;
use crate::request::Request;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_decode_or_are_refused() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            request_decode(&bytes);
            Ok(())
        });
    }
}
