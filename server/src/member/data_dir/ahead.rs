//! What a member says when its store is ahead of its log.

use std::path::Path;

use raft::durable::Voided;

/// One line for operators. A member that stops between putting a snapshot in place and noting that in
/// its log finds the same as one whose disk lost the end of the log, unless the log knows better.
pub(super) fn tell(log_dir: &Path, voided: &Voided) {
    let dir = log_dir.display();
    let applied = voided.applied.index;
    let (last, commit) = (voided.last, voided.commit);
    if voided.lost_writes() {
        tracing::error!(
            "log-dir" = %dir,
            "applied-index" = applied,
            "last-index" = last,
            "commit-index" = commit,
            "this member's log lacks entries that it knew to be committed: its disk has lost writes \
             that it had reported as durable. The log begins anew after the newest entry that the \
             store has applied; later entries that this member acknowledged may be missing. If the \
             cluster has other members, remove this one from the cluster and add it anew with an \
             empty data directory, on another disk"
        );
    } else {
        tracing::warn!(
            "log-dir" = %dir,
            "applied-index" = applied,
            "last-index" = last,
            "commit-index" = commit,
            "this member's log ends before the newest entry that the store has applied, or holds \
             another one there. The log begins anew after that entry. That is right if the member \
             stopped just when it had received a snapshot; if it had received none, its disk has \
             lost writes: remove it from the cluster and add it anew with an empty data directory"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write};
    use std::sync::{Arc, Mutex};

    use raft::Position;
    use tracing::field::{Field, Visit};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<String>>);

    impl<S: tracing::Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            let mut text = event.metadata().level().to_string();
            event.record(&mut Fields(&mut text));
            self.0.lock().unwrap().push_str(&text);
        }
    }

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, " {field}={value:?}").unwrap();
        }
    }

    fn told(commit: u64) -> String {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::registry().with(lines.clone());
        let voided = Voided {
            applied: Position { term: 2, index: 9 },
            last: 5,
            commit,
        };
        tracing::subscriber::with_default(subscriber, || {
            tell(Path::new("/data/member/log"), &voided);
        });
        lines.0.lock().unwrap().clone()
    }

    #[test]
    fn only_a_log_that_knew_better_accuses_its_disk() {
        let usual = told(5);
        assert!(usual.starts_with("WARN "), "{usual}");
        assert!(usual.contains("if it had received none"), "{usual}");
        let lost = told(9);
        assert!(lost.starts_with("ERROR "), "{lost}");
        assert!(lost.contains("its disk has lost writes"), "{lost}");
        for line in [usual, lost] {
            assert!(line.contains("log-dir=/data/member/log"), "{line}");
            assert!(line.contains("applied-index=9 last-index=5"), "{line}");
            assert!(line.contains("add it anew with an empty"), "{line}");
        }
    }
}
