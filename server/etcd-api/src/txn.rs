//! The answer to a transaction, for a server whose ranges are large.

use bytes::{Bytes, BytesMut};
use prost::Message;
use prost::encoding::{self, WireType};

use crate::range::RangeResponse;
use crate::raw::response_op::Response;
use crate::raw::{ResponseOp, TxnResponse};

const HEADER_TAG: u32 = 1;
const SUCCEEDED_TAG: u32 = 2;
const RESPONSES_TAG: u32 = 3;
const RANGE_TAG: u32 = 1;

impl TxnResponse {
    /// The message in pieces; the rows of its ranges are not copied.
    pub fn into_pieces(self) -> Vec<Bytes> {
        let mut head = BytesMut::new();
        if let Some(header) = &self.header {
            encoding::message::encode(HEADER_TAG, header, &mut head);
        }
        if self.succeeded {
            encoding::bool::encode(SUCCEEDED_TAG, &self.succeeded, &mut head);
        }
        let mut pieces = Vec::new();
        for op in self.responses {
            match op.response {
                Some(Response::ResponseRange(range)) => {
                    start_range(&range, &mut head);
                    pieces.push(head.split().freeze());
                    pieces.append(&mut range.into_pieces());
                }
                response => {
                    let op = ResponseOp { response };
                    encoding::message::encode(RESPONSES_TAG, &op, &mut head);
                }
            }
        }
        pieces.push(head.freeze());
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

/// What stands before a range in a transaction.
fn start_range(range: &RangeResponse, out: &mut BytesMut) {
    let len = range.encoded_len() as u64;
    let framed = encoding::key_len(RANGE_TAG) + encoding::encoded_len_varint(len);
    encoding::encode_key(RESPONSES_TAG, WireType::LengthDelimited, out);
    encoding::encode_varint(framed as u64 + len, out);
    encoding::encode_key(RANGE_TAG, WireType::LengthDelimited, out);
    encoding::encode_varint(len, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcdserverpb::{PutResponse, ResponseHeader};
    use crate::raw::Rows;

    #[test]
    fn the_pieces_are_the_message() {
        let mut rows = Rows::default();
        for row in [&[1_u8; 40][..], &[2; 300], &[3; 70_000]] {
            rows.push(row.len(), |out| out.put_slice(row));
        }
        let range = |kvs: Rows| RangeResponse {
            header: Some(ResponseHeader::default()),
            count: kvs.len() as i64,
            kvs,
            more: true,
        };
        let ops = [
            Some(Response::ResponseRange(range(rows))),
            None,
            Some(Response::ResponsePut(PutResponse::default())),
            Some(Response::ResponseRange(range(Rows::default()))),
        ];
        for responses in [0, 1, 3, 4].map(|count| &ops[..count]) {
            let response = TxnResponse {
                header: Some(ResponseHeader {
                    revision: 7,
                    ..Default::default()
                }),
                succeeded: responses.len() != 3,
                responses: responses
                    .iter()
                    .map(|response| ResponseOp {
                        response: response.clone(),
                    })
                    .collect(),
            };
            let whole = response.encode_to_vec();
            assert_eq!(response.into_pieces().concat(), whole);
        }
    }
}
