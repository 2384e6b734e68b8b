//! Many watchers of one collection: from a change until all that it concerns have seen it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::{AsyncBufRead, AsyncReadExt as _};
use serde_json::{Value, json};

use super::report::Report;
use super::side::{Server, Side};
use super::{Result, Size};

const WATCHED: &str = "/api/v1/namespaces/default/configmaps";
/// How much of a watch is read at once.
const READ_BYTES: usize = 64 << 10;
const DELIVERED_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// Many watches of the same collection.
pub(super) struct Watches {
    /// The object that changes.
    name: &'static str,
    form: &'static str,
    accept: &'static str,
    /// Each watcher selects another name, one of them that of the object.
    by_name: bool,
}

impl Watches {
    pub(super) fn all(name: &'static str, form: &'static str, accept: &'static str) -> Watches {
        Watches {
            name,
            form,
            accept,
            by_name: false,
        }
    }

    pub(super) fn by_name(name: &'static str, form: &'static str, accept: &'static str) -> Watches {
        Watches {
            by_name: true,
            ..Watches::all(name, form, accept)
        }
    }

    fn path(&self, version: &str, watcher: usize) -> String {
        let path = format!("{WATCHED}?watch=true&resourceVersion={version}");
        match (self.by_name, watcher) {
            (false, _) => path,
            (true, 0) => format!("{path}&fieldSelector=metadata.name%3D{}", self.name),
            (true, other) => format!("{path}&fieldSelector=metadata.name%3Dother-{other}"),
        }
    }
}

/// Changes an object repeatedly, and times from each request until all watchers that it concerns see
/// the change.
pub(super) async fn fan_out(
    side: Side,
    server: &Server,
    watches: &Watches,
    size: &Size,
    report: &mut Report,
) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": watches.name}, "data": {"text": "x".repeat(1000), "at": "none"}});
    let made = server.asker.post(WATCHED, &object).await?;
    let made: Value = serde_json::from_str(&made)?;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let seen = Rc::new(RefCell::new(Vec::<(usize, Instant)>::new()));
    for watcher in 0..size.watchers {
        let path = watches.path(version, watcher);
        let stream = server.asker.watch(&path, watches.accept).await?;
        tokio::task::spawn_local(follow(stream, Rc::clone(&seen)));
    }
    let before = server.usage()?.cpu;
    let mut sent = Vec::with_capacity(size.changes);
    for at in 0..size.changes {
        sent.push(Instant::now());
        let patch = json!({"data": {"at": at.to_string()}});
        server
            .asker
            .patch(&format!("{WATCHED}/{}", watches.name), &patch)
            .await?;
    }
    let begun = Instant::now();
    let concerned = if watches.by_name { 1 } else { size.watchers };
    let all = concerned * size.changes;
    while seen.borrow().len() < all {
        if begun.elapsed() > DELIVERED_WITHIN {
            return Err(format!("{} of {all} events arrived", seen.borrow().len()).into());
        }
        tokio::time::sleep(POLL).await;
    }
    let cpu = server.usage()?.cpu - before;
    let seen = seen.borrow();
    let took = seen.iter().map(|(at, when)| *when - sent[*at]).collect();
    let by = if watches.by_name { " by name" } else { "" };
    let title = format!(
        "change to event, {} watchers{by}, {}",
        size.watchers, watches.form
    );
    report.load(side, &title, took, cpu);
    Ok(())
}

/// Notes each event when it comes. It is found by its mark, in either form: parsing would be
/// measured, too.
async fn follow(mut stream: impl AsyncBufRead + Unpin, seen: Rc<RefCell<Vec<(usize, Instant)>>>) {
    let mut chunk = vec![0; READ_BYTES];
    let mut rest = Vec::new();
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        let now = Instant::now();
        rest.extend_from_slice(&chunk[..read]);
        let mut done = 0;
        while let Some((at, end)) = mark(&rest[done..]) {
            seen.borrow_mut().push((at, now));
            done += end;
        }
        rest.drain(..done);
    }
}

/// The first number that a change set, and where it ends. It is `"at":"7"` or a map's entry, which
/// says its length; behind it always comes something else.
fn mark(bytes: &[u8]) -> Option<(usize, usize)> {
    const MARKS: [&[u8]; 2] = [b"\"at\":\"", b"\x0a\x02at\x12"];
    let places = MARKS.iter().filter_map(|mark| {
        let found = bytes.windows(mark.len()).position(|some| some == *mark)?;
        Some(found + mark.len())
    });
    let begin = places.min()?;
    // In protobuf its length is in front of it.
    let begin = begin + usize::from(!bytes.get(begin)?.is_ascii_digit());
    let digits = bytes[begin..]
        .iter()
        .position(|byte| !byte.is_ascii_digit())?;
    let text = std::str::from_utf8(&bytes[begin..begin + digits]).ok()?;
    Some((text.parse().ok()?, begin + digits))
}
