use std::future::Future as _;

use http_body_util::BodyExt as _;

use super::*;

const TIME: Duration = Duration::from_secs(60);

fn answer(bytes: usize) -> Response<Body> {
    Response::new(Body::from(vec![7; bytes]))
}

#[tokio::test]
async fn a_large_answer_comes_whole_and_in_pieces() {
    let answers = LargeAnswers::default();
    let size = 3 * PIECE + 5;
    let sent = answers.send(answer(size), TIME).await;
    assert_eq!(sent.body().size_hint().exact(), Some(size as u64));
    assert_eq!(answers.0.available_permits(), ANSWERS_BYTES_MAX - size);
    let mut body = sent.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first.len(), PIECE);
    let rest = body.collect().await.unwrap().to_bytes();
    assert_eq!(rest, vec![7; size - PIECE]);
    assert_eq!(answers.0.available_permits(), ANSWERS_BYTES_MAX);
}

#[tokio::test]
async fn small_answers_and_streams_need_no_room() {
    let answers = LargeAnswers::default();
    let _small = answers.send(answer(1000), TIME).await;
    let stream = futures_util::stream::pending::<Result<Bytes, axum::Error>>();
    let _stream = answers
        .send(Response::new(Body::from_stream(stream)), TIME)
        .await;
    assert_eq!(answers.0.available_permits(), ANSWERS_BYTES_MAX);
}

#[tokio::test]
async fn an_answer_that_is_not_read_in_time_is_dropped_and_does_not_look_whole() {
    let answers = LargeAnswers::default();
    let soon = Duration::from_millis(1);
    let mut body = answers.send(answer(2 * PIECE), soon).await.into_body();
    // The answers is free although nobody asks for the rest.
    let all = u32::try_from(ANSWERS_BYTES_MAX).unwrap();
    let _all = answers.0.acquire_many(all).await.unwrap();
    body.frame().await.unwrap().unwrap_err();
}

#[tokio::test]
async fn answers_wait_for_room() {
    let answers = LargeAnswers::default();
    let all = u32::try_from(ANSWERS_BYTES_MAX).unwrap();
    let held = answers.0.try_acquire_many(all).unwrap();
    let mut waiting = std::pin::pin!(answers.send(answer(PIECE), TIME));
    let there = std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context)));
    assert!(there.await.is_pending(), "there was no answers");
    drop(held);
    waiting.await;
}
