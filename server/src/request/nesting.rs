//! The form of transactions in clusters with members of etcd 3.6 or older.
//!
//! Such a member leaves the ranges out of a transaction that another member proposed, and only then
//! checks what remains. So it makes writes that the proposer refuses because the user may not read
//! one of the ranges, or because a range's revision is compacted or in the future. Ranges of nested
//! transactions stay where they are. Stele therefore proposes every range in a transaction of its
//! own, and takes the answers out of it again: then all members check the same.

use etcd_api::etcdserverpb as pb;
use etcd_api::raw;
use pb::request_op::Request as Op;
use raw::response_op::Response;

/// Which operations of the two branches were put into transactions of their own.
#[derive(Debug)]
pub(crate) struct Nested {
    success: Vec<bool>,
    failure: Vec<bool>,
}

/// `None`: the transaction has no ranges, and stays as it is.
pub(crate) fn nest_ranges(txn: &mut pb::TxnRequest) -> Option<Nested> {
    let nested = Nested {
        success: nest_branch(&mut txn.success),
        failure: nest_branch(&mut txn.failure),
    };
    let any = nested.success.iter().chain(&nested.failure).any(|is| *is);
    any.then_some(nested)
}

fn nest_branch(ops: &mut [pb::RequestOp]) -> Vec<bool> {
    let nest = |op: &mut pb::RequestOp| {
        let is_range = matches!(op.request, Some(Op::RequestRange(_)));
        if is_range {
            let alone = pb::TxnRequest {
                success: vec![std::mem::take(op)],
                ..Default::default()
            };
            op.request = Some(Op::RequestTxn(alone));
        }
        is_range
    };
    ops.iter_mut().map(nest).collect()
}

impl Nested {
    /// Makes the answer to the nested form that to the original one.
    pub(crate) fn restore(&self, response: &mut raw::TxnResponse) {
        let branch = if response.succeeded {
            &self.success
        } else {
            &self.failure
        };
        for (response, is_nested) in response.responses.iter_mut().zip(branch) {
            if *is_nested
                && let Some(Response::ResponseTxn(nested)) = &mut response.response
                && let Some(range) = nested.responses.pop()
            {
                *response = range;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(request: Op) -> pb::RequestOp {
        pb::RequestOp {
            request: Some(request),
        }
    }

    fn range(key: &'static [u8]) -> pb::RequestOp {
        op(Op::RequestRange(pb::RangeRequest {
            key: key.into(),
            ..Default::default()
        }))
    }

    #[test]
    fn only_ranges_of_the_outer_transaction_move() {
        let own_nested = op(Op::RequestTxn(pb::TxnRequest {
            success: vec![range(b"n")],
            ..Default::default()
        }));
        let put = op(Op::RequestPut(pb::PutRequest::default()));
        let mut txn = pb::TxnRequest {
            success: vec![put.clone(), range(b"a"), own_nested.clone()],
            failure: vec![range(b"b")],
            ..Default::default()
        };
        let nested = nest_ranges(&mut txn).unwrap();
        let alone = |key| {
            op(Op::RequestTxn(pb::TxnRequest {
                success: vec![range(key)],
                ..Default::default()
            }))
        };
        assert_eq!(txn.success, [put.clone(), alone(b"a"), own_nested]);
        assert_eq!(txn.failure, [alone(b"b")]);

        let answer = |response| raw::ResponseOp {
            response: Some(response),
        };
        let of_range = |count| {
            answer(Response::ResponseRange(raw::RangeResponse {
                count,
                ..Default::default()
            }))
        };
        let within = |inner| {
            answer(Response::ResponseTxn(raw::TxnResponse {
                succeeded: true,
                responses: vec![inner],
                ..Default::default()
            }))
        };
        let of_put = answer(Response::ResponsePut(pb::PutResponse::default()));
        let mut response = raw::TxnResponse {
            succeeded: true,
            responses: vec![of_put.clone(), within(of_range(1)), within(of_range(2))],
            ..Default::default()
        };
        nested.restore(&mut response);
        assert_eq!(
            response.responses,
            [of_put, of_range(1), within(of_range(2))]
        );
        let mut response = raw::TxnResponse {
            responses: vec![within(of_range(3))],
            ..Default::default()
        };
        nested.restore(&mut response);
        assert_eq!(response.responses, [of_range(3)]);

        let mut without = pb::TxnRequest {
            success: vec![put],
            ..Default::default()
        };
        assert!(nest_ranges(&mut without).is_none());
    }
}
