use std::convert::Infallible;
use std::time::Duration;

use futures_util::stream;

use super::*;

const LIMITS: Limits = Limits {
    connections: 1,
    head: Duration::ZERO,
    idle: Duration::ZERO,
    reads: 3,
    writes: 2,
    fair: false,
};

fn turn(slots: &Slots, exempt: bool) -> Turn<'_> {
    let limit = if exempt { Limit::Nothing } else { Limit::Slots };
    Turn {
        slots,
        exempt,
        reads: false,
        limit,
    }
}

#[tokio::test]
async fn the_exempt_enter_when_all_slots_are_taken() {
    let slots = Slots::new(&LIMITS);
    let mut taken = Vec::new();
    for _ in 0..LIMITS.writes {
        taken.push(turn(&slots, false).enter(true).await.unwrap());
    }
    assert_eq!(slots.busy(), (0, LIMITS.writes));
    let refused = turn(&slots, false).enter(true).await;
    assert_eq!(refused.err().unwrap().code, 429);
    assert!(turn(&slots, true).enter(true).await.is_ok());
    drop(taken);
    assert_eq!(slots.busy(), (0, 0));
    assert!(turn(&slots, false).enter(true).await.is_ok());
}

#[tokio::test]
async fn no_limit_is_no_limit() {
    let slots = Slots::new(&Limits {
        writes: 0,
        ..LIMITS
    });
    let mut taken = Vec::new();
    for _ in 0..1000 {
        taken.push(turn(&slots, false).enter(true).await.unwrap());
    }
}

#[tokio::test]
async fn a_slow_body_holds_no_slot() {
    let slots = Slots::new(&Limits {
        writes: 1,
        ..LIMITS
    });
    let one = turn(&slots, false);
    let place = one.enter(true).await.unwrap();
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let body = stream::once(async {
        receiver.await.unwrap();
        Ok::<_, Infallible>(Bytes::from_static(b"x"))
    });
    let mut receiving = pin!(one.receive_from(place, Body::from_stream(body)));
    let other = turn(&slots, false);
    let during = tokio::select! {
        biased;
        _ = &mut receiving => panic!("the body is not there"),
        place = other.enter(true) => place.unwrap(),
    };
    assert_eq!(slots.busy(), (0, 1));
    drop(during);
    sender.send(()).unwrap();
    let (_place, mut received) = receiving.await.unwrap();
    assert_eq!(received.take(), "x");
    assert_eq!(slots.busy(), (0, 1));
    // A body that is there is read in the same place.
    let whole = turn(&slots, true);
    let place = whole.enter(true).await.unwrap();
    assert!(whole.receive_from(place, Body::from("y")).await.is_ok());
}

#[tokio::test]
async fn bodies_share_their_room_and_give_it_back() {
    let slots = Slots::new(&LIMITS);
    let whole = vec![0; BODY_BYTES_MAX];
    let mut held = Vec::new();
    while (held.len() + 1) * BODY_BYTES_MAX <= BODIES_BYTES_MAX {
        held.push(
            turn(&slots, false)
                .receive(Body::from(whole.clone()))
                .await
                .unwrap(),
        );
    }
    let refused = turn(&slots, false).receive(Body::from(whole.clone())).await;
    assert_eq!(refused.err().unwrap().code, 429);
    let small = turn(&slots, false)
        .receive(Body::from("x"))
        .await
        .unwrap()
        .take();
    assert_eq!(small, "x");
    assert!(
        turn(&slots, true)
            .receive(Body::from(whole.clone()))
            .await
            .is_ok()
    );
    held.pop();
    assert!(turn(&slots, false).receive(Body::from(whole)).await.is_ok());
}

#[tokio::test]
async fn a_body_that_has_no_end_is_refused() {
    let slots = Slots::new(&LIMITS);
    let endless = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[0; 65536])));
    let refused = turn(&slots, true).receive(Body::from_stream(endless)).await;
    assert_eq!(refused.err().unwrap().code, 413);
}
