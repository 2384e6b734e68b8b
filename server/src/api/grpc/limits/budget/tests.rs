use std::future::Future;
use std::pin::pin;
use std::task::Waker;

use super::*;

const TOTAL: usize = 100;
const NEVER: Duration = Duration::from_secs(100_000);

fn budget() -> Budget {
    Budget::with_patience(TOTAL, NEVER, NEVER, Arc::default())
}

impl Budget {
    fn held(&self) -> usize {
        self.0.held.lock().bytes
    }
}

/// The value, if the future is ready at once.
fn now<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A reply of `pieces` pieces, ten bytes each.
async fn reply(budget: &Budget, pieces: usize) -> LargeReply {
    let mut growing = budget.turn().await;
    growing.to(10 * pieces).await;
    let pieces = (0..pieces).map(|n| Bytes::from(vec![n as u8; 10]));
    growing.done(pieces.collect()).unwrap()
}

/// Takes the next frame: data, or the status at the end.
fn take(reply: &mut LargeReply) -> Option<Result<Bytes, Code>> {
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(frame) = Pin::new(reply).poll_frame(&mut context) else {
        panic!("a reply is always ready");
    };
    frame.map(|frame| match frame {
        Ok(frame) => frame.into_data().map_err(|frame| {
            let trailers = frame.into_trailers().unwrap();
            Status::from_header_map(&trailers).unwrap().code()
        }),
        Err(status) => Err(status.code()),
    })
}

#[tokio::test]
async fn a_reply_is_one_message_and_gives_back_what_is_taken() {
    let budget = budget();
    let mut reply = reply(&budget, 3).await;
    assert_eq!(budget.held(), 30);
    assert_eq!(take(&mut reply).unwrap().unwrap(), [0, 0, 0, 0, 30][..]);
    for (number, left) in [(0, 20), (1, 10), (2, 0)] {
        assert_eq!(take(&mut reply).unwrap().unwrap(), [number; 10][..]);
        assert_eq!(budget.held(), left);
    }
    assert_eq!(take(&mut reply), Some(Err(Code::Ok)));
    assert_eq!(take(&mut reply), None);
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn replies_wait_their_turn_and_for_bytes() {
    let budget = budget();
    let mut first = reply(&budget, 8).await;
    let mut second = budget.turn().await;
    let mut third = pin!(budget.turn());
    assert!(now(third.as_mut()).is_none(), "one grows at a time");
    second.to(20).await;
    {
        let mut more = pin!(second.to(45));
        assert!(now(more.as_mut()).is_none());
        take(&mut first);
        for taken in 1..=3 {
            take(&mut first);
            assert_eq!(now(more.as_mut()).is_some(), taken == 3, "{taken}");
        }
    }
    assert_eq!(budget.held(), 95);
    drop(second);
    assert_eq!(budget.held(), 50);
    assert!(now(third.as_mut()).is_some());
}

#[tokio::test]
async fn a_reply_larger_than_all_there_is_goes_on_when_no_other_is_left() {
    let budget = budget();
    let first = reply(&budget, 1).await;
    let mut large = budget.turn().await;
    large.to(90).await;
    {
        let mut more = pin!(large.to(1000));
        assert!(now(more.as_mut()).is_none());
        // Its client has left.
        drop(first);
        assert!(now(more.as_mut()).is_some());
    }
    let large = large.done(vec![Bytes::from(vec![1; 1000])]).unwrap();
    let mut next = budget.turn().await;
    assert!(now(pin!(next.to(1))).is_none());
    drop(large);
    next.to(1).await;
    assert_eq!(budget.held(), 1);
}

#[tokio::test]
async fn calls_given_up_give_back_turn_and_bytes() {
    let budget = budget();
    let sending = reply(&budget, 6).await;
    let mut growing = budget.turn().await;
    growing.to(40).await;
    let mut other = pin!(budget.turn());
    assert!(now(other.as_mut()).is_none());
    drop(growing);
    assert!(now(other.as_mut()).is_some());
    drop(sending);
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off_when_another_waits() {
    let budget = Budget::with_patience(
        TOTAL,
        Duration::ZERO,
        Duration::from_millis(1),
        Arc::default(),
    );
    let mut idle = reply(&budget, 10).await;
    take(&mut idle);
    take(&mut idle);
    // No reply waits, so the idle one keeps its bytes.
    assert_eq!(budget.held(), 90);
    let mut waiting = budget.turn().await;
    waiting.to(50).await;
    assert_eq!(budget.held(), 50);
    assert_eq!(take(&mut idle), Some(Err(Code::ResourceExhausted)));
    assert_eq!(take(&mut idle), None);
}

#[tokio::test]
async fn clients_that_take_nothing_are_cut_off_one_after_the_other() {
    let budget = Budget::with_patience(TOTAL, Duration::ZERO, NEVER, Arc::default());
    let mut read = reply(&budget, 1).await;
    while take(&mut read).is_some_and(|frame| frame.is_ok()) {}
    let (mut first, mut second) = (reply(&budget, 5).await, reply(&budget, 4).await);
    assert_eq!(budget.held(), 90);
    for left in [40, 0] {
        budget.0.cut_off_idle();
        assert_eq!(budget.held(), left);
    }
    for reply in [&mut first, &mut second] {
        assert_eq!(take(reply), Some(Err(Code::ResourceExhausted)));
    }
}

#[tokio::test]
async fn a_message_that_etcd_would_not_send_is_refused() {
    assert!(check_size(i32::MAX as usize).is_ok());
    let refused = check_size(1 << 31).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(
        refused.to_string(),
        "grpc: trying to send message larger than max (2147483648 vs. 2147483647)"
    );
}
