//! What becomes of events when all is well, when there are too many, and when nothing is written.

use std::path::Path;

use super::super::file::Output;
use super::super::rotation::{Keep, Rotated};
use super::*;

fn file(path: &Path) -> Target {
    let file = Rotated::open(path, None, Keep::default()).unwrap();
    Target::File(Writer::start(Output::File(Box::new(file))).unwrap())
}

fn batching(queue_events: usize, batch_events: usize) -> Batching {
    Batching {
        queue_events,
        batch_events,
        batch_bytes: usize::MAX,
        wait: Duration::from_secs(3600),
        throttle: None,
    }
}

fn sink(path: &Path, mode: Mode) -> (Sink, Arc<Metrics>) {
    let metrics = Arc::<Metrics>::default();
    let sink = Sink::new(Form::JsonLine, None, mode, file(path), &metrics);
    (sink, metrics)
}

#[tokio::test]
async fn an_event_is_written_when_its_request_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    let (sink, _) = sink(&path, Mode::Strict);
    let lines: Vec<String> = (0..100).map(|number| format!("{number}\n")).collect();
    for line in &lines {
        assert!(sink.take(Bytes::from(line.clone())).await);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), lines.concat());
}

#[tokio::test]
async fn a_strict_sink_says_that_an_event_is_lost_and_a_blocking_one_goes_on() {
    let full = Path::new("/dev/full");
    for (mode, good) in [(Mode::Strict, false), (Mode::Blocking, true)] {
        let (sink, metrics) = sink(full, mode);
        assert_eq!(sink.take(Bytes::from_static(b"x\n")).await, good);
        let text = metrics.to_text();
        assert!(text.contains("error_total{plugin=\"log\"} 1\n"), "{text}");
    }
}

#[tokio::test]
async fn a_queue_that_is_full_drops_events_and_a_closed_one_all_of_them() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    let (sink, metrics) = sink(&path, Mode::Batch(batching(2, 10)));
    // The task that empties the queue does not run before this test waits for it.
    for line in ["a\n", "b\n", "c\n"] {
        assert!(sink.take(Bytes::from_static(line.as_bytes())).await);
    }
    let dropped = |count: u8| {
        let text = metrics.to_text();
        let line = format!("error_total{{plugin=\"buffered\"}} {count}\n");
        assert!(text.contains(&line), "{text}");
    };
    dropped(1);
    sink.close().await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\nb\n");
    assert!(sink.take(Bytes::from_static(b"d\n")).await);
    dropped(2);
}

#[tokio::test]
async fn batches_are_bounded_by_events_and_by_bytes() {
    let (sender, mut queue) = mpsc::channel(10);
    let room = Arc::new(Semaphore::new(1000));
    for text in ["aa", "bb", "cc", "dddd", "e"] {
        let event = Bytes::from_static(text.as_bytes());
        let room = Arc::clone(&room).try_acquire_many_owned(1).unwrap();
        sender.try_send(Queued { event, room }).unwrap();
    }
    drop(sender);
    let batching = Batching {
        batch_bytes: 5,
        ..batching(10, 2)
    };
    let (mut next, mut batches) = (None, Vec::new());
    while let Some(batch) = collect(&mut queue, &mut next, &batching).await {
        let texts = batch.iter().map(|one| one.event.clone());
        batches.push(texts.collect::<Vec<_>>());
    }
    let expected: [&[&str]; 3] = [&["aa", "bb"], &["cc"], &["dddd", "e"]];
    assert_eq!(batches, expected);
    assert_eq!(room.available_permits(), 1000);
}

#[test]
fn a_throttle_lets_a_burst_pass_and_then_so_many_a_second() {
    let begun = Instant::now();
    let mut throttle = Throttle::new((10.0, 3.0), begun);
    let mut waits = |at: u64| throttle.take(begun + Duration::from_millis(at)).as_millis();
    assert_eq!([waits(0), waits(0), waits(0)], [0, 0, 0]);
    assert_eq!([waits(0), waits(100), waits(100)], [100, 100, 200]);
    // However long it was quiet, only a burst is saved up.
    assert_eq!(
        [waits(9000), waits(9000), waits(9000), waits(9000)],
        [0, 0, 0, 100]
    );
    let mut closed = Throttle::new((1e-30, 0.0), begun);
    assert_eq!(closed.take(begun), Duration::MAX);
}

#[tokio::test]
async fn an_event_that_is_too_large_loses_its_objects_or_is_dropped() {
    let home = tempfile::tempdir().unwrap();
    let metrics = Arc::<Metrics>::default();
    let target = file(&home.path().join("audit.log"));
    let sink = Sink::new(Form::JsonLine, Some(600), Mode::Blocking, target, &metrics);
    let at = Timestamp::default();
    let mut event = Event {
        level: Level::Request,
        request: Some(vec![b'1'; 600].into()),
        ..Event::default()
    };
    let line = sink.render(&event, Stage::Panic, at).unwrap();
    let line = String::from_utf8_lossy(&line);
    assert!(
        line.contains(r#""annotations":{"audit.k8s.io/truncated":"true"}"#),
        "{line}"
    );
    assert!(!line.contains("requestObject"), "{line}");
    event.uri = "/".repeat(600);
    assert!(sink.render(&event, Stage::Panic, at).is_none());
    let text = metrics.to_text();
    assert!(
        text.contains("error_total{plugin=\"truncate\"} 1\n"),
        "{text}"
    );
    event.uri.clear();
    event.request = None;
    assert!(sink.render(&event, Stage::Panic, at).is_some());
}
