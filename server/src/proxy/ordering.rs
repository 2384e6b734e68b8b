//! `--experimental-serializable-ordering`: a client that reads from one member and then from another
//! that lags never sees less than it has seen.
//!
//! The proxy remembers the greatest revision that it has answered with, and asks again if an answer
//! to a serializable read is older than that was when the read came.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering as Memory};
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::request_op::Request;
use tonic::Status;

/// Attempts per endpoint, as in etcd's client.
const ROUNDS: usize = 5;

/// Pause after all endpoints have been asked: a member that lags is about to catch up.
const PAUSE: Duration = Duration::from_millis(25);

/// The text of etcd's client.
const ALL_LAG: &str =
    "etcdclient: no cluster members have a revision higher than the previously received revision";

/// What the proxy has answered with. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Ordering {
    /// `None`: nobody asked for order.
    newest: Option<Arc<AtomicI64>>,
}

impl Ordering {
    pub(super) fn new(is_on: bool) -> Ordering {
        Ordering {
            newest: is_on.then(Arc::default),
        }
    }

    /// The revision that a serializable answer must have at least.
    pub(super) fn least(&self) -> i64 {
        let newest = self.newest.as_ref();
        newest.map_or(0, |newest| newest.load(Memory::Acquire))
    }

    /// A client is answered with this header.
    pub(super) fn told(&self, header: Option<&pb::ResponseHeader>) {
        if let (Some(newest), Some(header)) = (&self.newest, header) {
            newest.fetch_max(header.revision, Memory::AcqRel);
        }
    }
}

/// Asks until the answer is not older than revision `least`. Each attempt must go to the next of
/// `endpoints`.
pub(super) async fn at_least<A, F>(
    least: i64,
    endpoints: usize,
    header: impl Fn(&A) -> Option<pb::ResponseHeader>,
    ask: impl Fn() -> F,
) -> Result<A, Status>
where
    F: Future<Output = Result<A, Status>>,
{
    let mut older = 0;
    loop {
        let answer = ask().await?;
        if header(&answer).map_or(0, |header| header.revision) >= least {
            return Ok(answer);
        }
        older += 1;
        if older > ROUNDS * endpoints {
            return Err(Status::unknown(ALL_LAG));
        }
        if older % endpoints.max(1) == 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// True if a member answers the transaction as it is, without hearing of others: it only reads, and
/// nothing of it is linearizable. Such a transaction may be asked twice.
pub(super) fn is_serializable(txn: &pb::TxnRequest) -> bool {
    let mut operations = txn.success.iter().chain(&txn.failure);
    operations.all(|operation| match &operation.request {
        Some(Request::RequestRange(range)) => range.serializable,
        Some(Request::RequestTxn(txn)) => is_serializable(txn),
        Some(Request::RequestPut(_) | Request::RequestDeleteRange(_)) => false,
        None => true,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Asks endpoints whose answers have these revisions; the revision that is taken, and how many
    /// were asked.
    async fn ask(least: i64, revisions: &[i64]) -> (Result<i64, Status>, usize) {
        let asked = Cell::new(0);
        let header = |revision: &i64| {
            Some(pb::ResponseHeader {
                revision: *revision,
                ..pb::ResponseHeader::default()
            })
        };
        let answer = at_least(least, revisions.len(), header, || {
            let turn = asked.replace(asked.get() + 1);
            std::future::ready(Ok(revisions[turn % revisions.len()]))
        });
        (answer.await, asked.get())
    }

    #[tokio::test]
    async fn an_older_answer_is_asked_for_again() {
        let (answer, asked) = ask(7, &[6, 5, 8]).await;
        assert_eq!((answer.unwrap(), asked), (8, 3));
        let (answer, asked) = ask(7, &[7]).await;
        assert_eq!((answer.unwrap(), asked), (7, 1));
        let (answer, asked) = ask(0, &[0]).await;
        assert_eq!((answer.unwrap(), asked), (0, 1));
        let (answer, asked) = ask(7, &[6, 5]).await;
        assert_eq!((answer.unwrap_err().message(), asked), (ALL_LAG, 11));
    }

    #[test]
    fn only_what_a_client_was_told_counts() {
        let header = pb::ResponseHeader {
            revision: 5,
            ..pb::ResponseHeader::default()
        };
        for (is_on, least) in [(false, 0), (true, 5)] {
            let ordering = Ordering::new(is_on);
            ordering.told(Some(&header));
            ordering.told(None);
            ordering.told(Some(&pb::ResponseHeader::default()));
            assert_eq!(ordering.least(), least);
        }
    }

    #[test]
    fn a_transaction_that_writes_is_never_asked_twice() {
        let op = |request| pb::RequestOp {
            request: Some(request),
        };
        let range = |serializable| {
            op(Request::RequestRange(pb::RangeRequest {
                serializable,
                ..pb::RangeRequest::default()
            }))
        };
        let txn = |failure| pb::TxnRequest {
            success: vec![range(true)],
            failure: vec![failure],
            ..pb::TxnRequest::default()
        };
        let nested = |failure| op(Request::RequestTxn(txn(failure)));
        assert!(is_serializable(&txn(range(true))));
        assert!(is_serializable(&txn(nested(range(true)))));
        assert!(!is_serializable(&txn(range(false))));
        let put = op(Request::RequestPut(pb::PutRequest::default()));
        assert!(!is_serializable(&txn(nested(put))));
    }
}
