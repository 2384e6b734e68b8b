//! Transactions nested more deeply than a decoder follows.
//!
//! A decoder follows a hundred messages in each other. A call may have that many in its transaction,
//! which is in another message when it is in the log; and members of etcd take deeper ones. Every
//! member must be able to read what is in the log, so here each transaction is decoded by itself.

use etcd_api::etcdserverpb as pb;
use prost::Message;

use super::HEADER_FIELD;
use super::encoded::{Field, next_field};

/// Transactions in each other. More than the operations that etcd allows a client by default, of which
/// each of them is one.
const DEPTH_MAX: usize = 256;

const ID_FIELD: u32 = 1;
const TXN_FIELD: u32 = 6;
/// Fields of a transaction.
const COMPARE_FIELD: u32 = 1;
const SUCCESS_FIELD: u32 = 2;
const FAILURE_FIELD: u32 = 3;
/// Field of an operation.
const NESTED_FIELD: u32 = 4;

/// The transaction in an entry payload; `None` if it holds anything else.
pub(super) fn decode(mut data: &[u8]) -> Option<pb::TxnRequest> {
    let mut found = None;
    while !data.is_empty() {
        match next_field(&mut data)? {
            (ID_FIELD | HEADER_FIELD, _) => {}
            (TXN_FIELD, Field::Bytes(txn)) if found.is_none() => found = Some(txn),
            _ => return None,
        }
    }
    transaction(found?, DEPTH_MAX)
}

fn transaction(mut data: &[u8], depth: usize) -> Option<pb::TxnRequest> {
    let depth = depth.checked_sub(1)?;
    let mut txn = pb::TxnRequest::default();
    while !data.is_empty() {
        match next_field(&mut data)? {
            (COMPARE_FIELD, Field::Bytes(bytes)) => {
                txn.compare.push(pb::Compare::decode(bytes).ok()?);
            }
            (SUCCESS_FIELD, Field::Bytes(bytes)) => txn.success.push(operation(bytes, depth)?),
            (FAILURE_FIELD, Field::Bytes(bytes)) => txn.failure.push(operation(bytes, depth)?),
            _ => {}
        }
    }
    Some(txn)
}

fn operation(data: &[u8], depth: usize) -> Option<pb::RequestOp> {
    let mut rest = data;
    match next_field(&mut rest) {
        Some((NESTED_FIELD, Field::Bytes(nested))) if rest.is_empty() => {
            let nested = transaction(nested, depth)?;
            Some(pb::RequestOp {
                request: Some(pb::request_op::Request::RequestTxn(nested)),
            })
        }
        _ => pb::RequestOp::decode(data).ok(),
    }
}
