//! The shell of the loops: informers, a clock, tasks that carry decisions out, orderly shutdown.

mod ask;
mod carry;
mod groups;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api_client::{Client, LostLease, Mandate, Notice};
use futures_util::StreamExt;
use machinery::api::Call;
use machinery::object::Object;
use machinery::schema::Kind;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::cache::Destination;
use crate::decision::Note;
use crate::kinds::Kinds;
use crate::loops::certificates::signing::Signer;
use crate::loops::node_ipam::NodeRanges;
use crate::loops::{self, Loop};
use crate::manager::{Manager, Moment};
use crate::recorder::{Recorder, Telling};
use crate::selection::Selection;
use crate::sources::sources_of;
use ask::Places;
use carry::Report;

/// The name of the corresponding Go program.
const NAME: &str = "kube-controller-manager";
const LEASE_NAMESPACE: &str = "kube-system";
/// Maximum number of queued notices; a full queue makes the informers wait.
const NOTICES_MAX: usize = 1024;
/// Maximum number of decisions in progress.
const WORKERS: usize = 16;
/// Maximum number of queued responses.
const REPORTS_MAX: usize = 256;
/// Maximum number of responses and notices that are taken before the loops decide again.
const TAKEN_AT_ONCE: usize = 256;
/// Maximum number of queued Events; more are dropped, as Events are informational.
const EVENTS_MAX: usize = 1024;
/// How long decisions in progress may take after a stop request.
const STOP: Duration = Duration::from_secs(5);
/// How long the loops wait for the lists of custom kinds before they begin: one that cannot be
/// listed must not stop them.
const CUSTOM_LISTS: Duration = Duration::from_secs(10);

/// The configuration of the loops.
#[derive(Debug, Clone)]
pub struct Config {
    /// This process's identity in the leader election; `None` to run without election.
    pub elect: Option<String>,
    /// The cluster's CA certificate in PEM; empty to publish none.
    pub root_ca: String,
    /// The signer of approved certificate requests; `None` to sign none.
    pub signer: Option<Arc<Signer>>,
    /// Out of which ranges nodes get theirs; `None` to give none.
    pub node_ranges: Option<NodeRanges>,
    /// The loops to run.
    pub loops: Selection,
}

/// The chosen loops, without those that lack what they need.
fn chosen_loops(config: &Config) -> Vec<Box<dyn Loop>> {
    let (signer, node_ranges) = (config.signer.as_ref(), config.node_ranges.as_ref());
    let mut loops = loops::all(&config.root_ca, signer, node_ranges);
    loops.retain(|one| config.loops.has(one.name()) && one.can_run());
    loops
}

/// Runs the loops until `stop` completes or the lease is lost.
pub async fn run(
    kube: kube::Client,
    config: Config,
    stop: impl Future<Output = ()>,
) -> Result<(), LostLease> {
    let client = Client::new(kube);
    tokio::pin!(stop);
    let identity = config.elect.as_deref();
    let mandate = Mandate::win(&client, LEASE_NAMESPACE, NAME, identity, &mut stop).await;
    let Some(mandate) = mandate else {
        return Ok(());
    };
    let mut shell = Shell::new(client, &config);
    mandate.hold(shell.work(&mut stop)).await
}

struct Shell {
    client: Client,
    manager: Manager,
    recorder: Recorder,
    places: Places,
    sources: BTreeMap<SourceId, Source>,
    next_source: SourceId,
    /// The discovery document of the core group, which stays as it is.
    core: Object,
    /// Told of an object that makes kinds.
    kinds_change: Arc<Notify>,
    start: Instant,
    writes: u64,
    failures: u64,
}

/// A running informer and the caches that it feeds.
struct Source {
    kind: Arc<Kind>,
    destination: Destination,
    task: AbortHandle,
}

/// Tells informers apart; none is used twice.
type SourceId = u64;

/// The channels from the tasks around the loops.
struct Inboxes {
    notices: mpsc::Receiver<(SourceId, Notice)>,
    notice: mpsc::Sender<(SourceId, Notice)>,
    /// The discovery documents of named groups, read again and again.
    groups: mpsc::Receiver<Object>,
    reports: mpsc::Receiver<Report>,
    report: mpsc::Sender<Report>,
    events: mpsc::Sender<Telling>,
    /// All tasks that end together with the loops.
    tasks: JoinSet<()>,
}

impl Shell {
    fn new(client: Client, config: &Config) -> Shell {
        Shell {
            client,
            manager: Manager::new(chosen_loops(config)),
            recorder: Recorder::default(),
            places: Places::default(),
            sources: BTreeMap::new(),
            next_source: 0,
            core: Object::Null,
            kinds_change: Arc::new(Notify::new()),
            start: Instant::now(),
            writes: 0,
            failures: 0,
        }
    }

    async fn work(&mut self, stop: &mut (impl Future<Output = ()> + Unpin)) {
        let mut inboxes = tokio::select! {
            () = &mut *stop => return,
            inboxes = self.begin() => inboxes,
        };
        tracing::info!(objects = self.manager.caches.graph.len(), "the loops begin");
        let mut busy = 0;
        loop {
            busy += self.start_work(&inboxes, WORKERS - busy);
            for (by, note) in self.manager.take_notes() {
                // They are about no call, so braces in their texts mean themselves.
                self.tell(&inboxes.events, &by, &note, "{}");
            }
            let Some(ended) = self.take_next(&mut inboxes, busy, stop).await else {
                break;
            };
            busy -= ended;
        }
        self.finish(inboxes, busy).await;
    }

    /// Starts the informers and waits until each has delivered its initial list.
    async fn begin(&mut self) -> Inboxes {
        let (notice, notices) = mpsc::channel(NOTICES_MAX);
        let (report, reports) = mpsc::channel(REPORTS_MAX);
        let (events, sending) = mpsc::channel(EVENTS_MAX);
        let (group, groups) = mpsc::channel(1);
        self.core = groups::discover(&self.client, true).await;
        let first = groups::discover(&self.client, false).await;
        let mut tasks = JoinSet::new();
        tasks.spawn(carry::send_events(self.client.clone(), sending));
        let mut inboxes = Inboxes {
            notices,
            notice,
            groups,
            reports,
            report,
            events,
            tasks,
        };
        self.take_groups(&first, &mut inboxes);
        let mut watched = self.sources.values().map(|source| &source.kind);
        let is_watched = watched.any(|kind| groups::makes_kinds(kind));
        let (client, changed) = (self.client.clone(), Arc::clone(&self.kinds_change));
        let following = groups::follow(client, group, changed, is_watched);
        inboxes.tasks.spawn(following);
        self.take_lists(&mut inboxes).await;
        inboxes
    }

    /// Waits until each informer has delivered its initial list; those of custom kinds for a while.
    async fn take_lists(&mut self, inboxes: &mut Inboxes) {
        let mut missing: BTreeSet<SourceId> = self.sources.keys().copied().collect();
        let impatient = Instant::now() + CUSTOM_LISTS;
        loop {
            let waits = Instant::now() < impatient;
            missing.retain(|id| {
                let source = self.sources.get(id);
                source.is_some_and(|source| waits || !source.kind.message().open)
            });
            if missing.is_empty() {
                return;
            }
            tokio::select! {
                Some((id, one)) = inboxes.notices.recv() => {
                    if matches!(one, Notice::Replaced(_)) {
                        missing.remove(&id);
                    }
                    self.take_notice(id, one);
                }
                Some(groups) = inboxes.groups.recv() => self.take_groups(&groups, inboxes),
                () = tokio::time::sleep_until(impatient), if waits => {}
            }
        }
    }

    /// Starts informers for kinds that came, and ends those of kinds that went.
    fn take_groups(&mut self, groups: &Object, inboxes: &mut Inboxes) {
        if self.manager.caches.kinds.agree_with(groups) && !self.sources.is_empty() {
            return;
        }
        let (came, went) = self.manager.take_kinds(Kinds::read([&self.core, groups]));
        for kind in went {
            tracing::info!(kind = kind.plural(), group = kind.group(), "a kind went");
            self.sources.retain(|_, source| {
                let stays = source.kind != kind;
                if !stays {
                    source.task.abort();
                }
                stays
            });
        }
        let manager = &self.manager;
        let sources = |kind| sources_of(kind, |name| manager.runs(name));
        let started: Vec<_> = came.iter().flat_map(sources).collect();
        for (informer, destination) in started {
            let id = self.next_source;
            self.next_source += 1;
            let kind = Arc::clone(&informer.kind);
            let mut stream = Box::pin(informer.run(&self.client));
            let notice = inboxes.notice.clone();
            let task = inboxes.tasks.spawn(async move {
                while let Some(one) = stream.next().await {
                    if notice.send((id, one)).await.is_err() {
                        return;
                    }
                }
            });
            self.sources.insert(
                id,
                Source {
                    kind,
                    destination,
                    task,
                },
            );
        }
    }

    /// Waits until something comes, and takes it with what else has come by then. Returns how many
    /// decisions ended; `None` after a stop request.
    async fn take_next(
        &mut self,
        inboxes: &mut Inboxes,
        busy: usize,
        stop: &mut (impl Future<Output = ()> + Unpin),
    ) -> Option<usize> {
        let wake = if busy < WORKERS {
            self.manager.wake_at()
        } else {
            None
        };
        let wait = api_client::until(wake.map(|at| self.start + at));
        let ended = tokio::select! {
            biased;
            () = stop => return None,
            // Responses first: they are newer than what watches report.
            Some(report) = inboxes.reports.recv() => self.take_report(report, inboxes),
            Some((id, notice)) = inboxes.notices.recv() => {
                self.take_notice(id, notice);
                0
            }
            Some(groups) = inboxes.groups.recv() => {
                self.take_groups(&groups, inboxes);
                0
            }
            () = wait => 0,
        };
        Some(ended + self.take_rest(inboxes))
    }

    /// Takes what else has come by now; returns how many decisions ended. A decision about a
    /// workload looks at all of its pods, so it must not be made anew for the change of each.
    fn take_rest(&mut self, inboxes: &mut Inboxes) -> usize {
        let mut ended = 0;
        for _ in 0..TAKEN_AT_ONCE {
            if let Ok(report) = inboxes.reports.try_recv() {
                ended += self.take_report(report, inboxes);
            } else if let Ok((id, notice)) = inboxes.notices.try_recv() {
                self.take_notice(id, notice);
            } else {
                break;
            }
        }
        ended
    }

    fn take_notice(&mut self, id: SourceId, notice: Notice) {
        let now = self.moment();
        // The kind may have gone since.
        if let Some(source) = self.sources.get(&id) {
            let (kind, destination) = (&source.kind, source.destination);
            if groups::makes_kinds(kind) {
                self.kinds_change.notify_one();
            }
            self.manager.observe(kind, destination, notice, now);
        }
    }

    /// Starts up to `most` decisions; returns how many. Those that only ask are not counted: whom
    /// they ask may be slow.
    fn start_work(&mut self, inboxes: &Inboxes, most: usize) -> usize {
        let mut started = 0;
        while started < most {
            let now = self.moment();
            let Some(work) = self.manager.next(now) else {
                break;
            };
            let (client, report) = (self.client.clone(), inboxes.report.clone());
            if work.decision.questions.is_empty() {
                tokio::spawn(carry::carry_out(client, work, report));
                started += 1;
            } else {
                let questions = self.places.line_up(&work.decision.questions);
                tokio::spawn(ask::ask(client, work, questions, report));
            }
        }
        started
    }

    /// Handles a response or the end of a decision; returns how many decisions ended.
    fn take_report(&mut self, report: Report, inboxes: &mut Inboxes) -> usize {
        let now = self.moment();
        match report {
            Report::Answered { work, at, answer } => {
                let step = &work.decision.steps[at];
                self.writes += u64::from(step.call.writes());
                let (notes, detail) = match &answer {
                    Ok(object) => (step.done.as_slice(), machinery::object::name(object)),
                    Err(error) => (step.failed.as_slice(), &*error.message),
                };
                let by = self.manager.component(&work);
                for note in notes {
                    self.tell(&inboxes.events, &by, note, detail);
                }
                self.manager.answered(step, &answer, now);
                if let (Call::Discover { .. }, Ok(groups)) = (&step.call, &answer) {
                    self.take_groups(groups, inboxes);
                }
                0
            }
            Report::Told { work, answers } => {
                let questions = work.decision.questions.iter();
                self.writes += questions.filter(|call| call.writes()).count() as u64;
                self.manager.told(&work, answers);
                0
            }
            Report::Done { work, outcome } => {
                if let Err((at, error)) = &outcome {
                    self.failures += 1;
                    let call = &work.decision.steps[*at].call;
                    let by = self.manager.name(&work);
                    match error.reason {
                        "Conflict" => tracing::debug!(by, %call, %error, "tried again"),
                        _ => tracing::warn!(by, %call, %error, "tried again later"),
                    }
                }
                self.manager.done(&work, outcome, now);
                1
            }
        }
    }

    /// Queues an Event for a note. If the queue is full the Event is dropped.
    fn tell(&mut self, events: &mpsc::Sender<Telling>, by: &str, note: &Note, detail: &str) {
        let now = self.moment().wall;
        let telling = self.recorder.record(by, note, detail, now);
        let _ = events.try_send(telling);
    }

    /// Waits for decisions in progress, then stops everything else.
    async fn finish(&mut self, mut inboxes: Inboxes, busy: usize) {
        let mut busy = busy;
        let end = Instant::now() + STOP;
        while busy > 0 {
            match tokio::time::timeout_at(end, inboxes.reports.recv()).await {
                Ok(Some(report)) => busy -= self.take_report(report, &mut inboxes),
                _ => break,
            }
        }
        inboxes.tasks.shutdown().await;
        tracing::info!(
            writes = self.writes,
            failures = self.failures,
            "the loops ended"
        );
    }

    fn moment(&self) -> Moment {
        Moment {
            since_start: self.start.elapsed(),
            wall: api_client::now(),
        }
    }
}
