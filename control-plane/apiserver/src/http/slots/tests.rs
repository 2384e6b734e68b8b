use std::convert::Infallible;

use futures_util::stream;

use super::*;

fn turn(slots: &Slots, exempt: bool) -> Turn<'_> {
    Turn {
        slots,
        exempt,
        reads: false,
    }
}

#[test]
fn the_exempt_enter_when_all_slots_are_taken() {
    let slots = Slots::default();
    let taken: Vec<_> = (0..WRITES_MAX)
        .map(|_| turn(&slots, false).enter().unwrap())
        .collect();
    assert_eq!(slots.taken(), (0, WRITES_MAX));
    assert_eq!(turn(&slots, false).enter().unwrap_err().code, 429);
    assert!(turn(&slots, true).enter().unwrap().is_none());
    drop(taken);
    assert!(turn(&slots, false).enter().is_ok());
}

#[tokio::test]
async fn bodies_share_their_room_and_give_it_back() {
    let slots = Slots::default();
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
    let slots = Slots::default();
    let endless = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[0; 65536])));
    let refused = turn(&slots, true).receive(Body::from_stream(endless)).await;
    assert_eq!(refused.err().unwrap().code, 413);
}
