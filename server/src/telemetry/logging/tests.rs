use std::sync::{Arc, Mutex};

use expect_test::{Expect, expect};

use super::*;

/// Collects the lines of one thread, at a fixed time.
struct Collect(LogFormat, Arc<Mutex<String>>);

impl<S: Subscriber> Layer<S> for Collect {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = line(event, self.0, Duration::from_micros(1_795_224_000_121_503));
        self.1.lock().unwrap().push_str(&line);
    }
}

fn logged(format: LogFormat, work: impl FnOnce()) -> String {
    let lines = Arc::new(Mutex::new(String::new()));
    let subscriber = tracing_subscriber::registry().with(Collect(format, Arc::clone(&lines)));
    tracing::subscriber::with_default(subscriber, work);
    let text = lines.lock().unwrap().clone();
    // The line number in this file changes with every edit.
    let mut out = String::new();
    for line in text.lines() {
        let (before, after) = line.split_once("tests.rs:").unwrap();
        let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
        out.push_str(&format!("{before}tests.rs:0{after}\n"));
    }
    out
}

fn check(lines: &str, expected: Expect) {
    for line in lines.lines() {
        let parsed: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            parsed["msg"].is_string() && parsed["ts"].is_string(),
            "{line}"
        );
    }
    expected.assert_eq(lines);
}

#[test]
fn lines_look_like_etcds() {
    let lines = logged(LogFormat::Json, || {
        let urls = vec!["http://127.0.0.1:2379"];
        tracing::info!(
            "data-dir" = "default.etcd",
            "listen-client-urls" = %json(&urls),
            "max-wals" = 5,
            ratio = 0.5,
            "pre-vote" = true,
            took = crate::config::duration(Duration::from_micros(1500)),
            "starting an etcd server"
        );
        tracing::warn!(error = ?std::io::Error::other("x"), "with {} format", 1);
        tracing::error!(target: FATAL, "discovery failed");
    });
    check(
        &lines,
        expect![[r#"
            {"level":"info","ts":"2026-11-21T01:20:00.121503Z","caller":"logging/tests.rs:0","msg":"starting an etcd server","data-dir":"default.etcd","listen-client-urls":["http://127.0.0.1:2379"],"max-wals":5,"ratio":0.5,"pre-vote":true,"took":"1.5ms"}
            {"level":"warn","ts":"2026-11-21T01:20:00.121503Z","caller":"logging/tests.rs:0","msg":"with 1 format","error":"Custom { kind: Other, error: \"x\" }"}
            {"level":"fatal","ts":"2026-11-21T01:20:00.121503Z","caller":"logging/tests.rs:0","msg":"discovery failed"}
        "#]],
    );
}

#[test]
fn no_text_breaks_a_line() {
    let lines = logged(LogFormat::Json, || {
        let forged = "\u{1}{\"a\":1},\"level\":\"none\"";
        tracing::info!(forged, quote = "\"\n\u{0}", nan = f64::NAN, "two\nlines");
    });
    check(
        &lines,
        expect![[r#"
            {"level":"info","ts":"2026-11-21T01:20:00.121503Z","caller":"logging/tests.rs:0","msg":"two\nlines","forged":"\u0001{\"a\":1},\"level\":\"none\"","quote":"\"\n\u0000","nan":null}
        "#]],
    );
}

#[test]
fn console_lines_are_tabbed() {
    let lines = logged(LogFormat::Console, || tracing::info!(id = 7, "hello"));
    expect!["2026-11-21T01:20:00.121503Z\tinfo\tlogging/tests.rs:0\thello\t{\"id\":7}\n"]
        .assert_eq(&lines);
}

#[test]
fn timestamps_are_civil() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00.000000Z"),
        (951_782_400, "2000-02-29T00:00:00.000000Z"),
        (1_709_251_199, "2024-02-29T23:59:59.000000Z"),
        (4_102_444_800, "2100-01-01T00:00:00.000000Z"),
    ] {
        assert_eq!(timestamp(Duration::from_secs(seconds)), text);
    }
}
