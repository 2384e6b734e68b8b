//! The shell of the loops: informers, a clock, tasks that carry decisions out, orderly shutdown.

mod carry;

use std::sync::Arc;
use std::time::Duration;

use api_client::{Client, LostLease, Mandate, Notice};
use futures_util::StreamExt;
use machinery::schema::{self, Kind};
use machinery::world::Call;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::decision::Note;
use crate::manager::{Manager, Moment};
use crate::recorder::Recorder;
use crate::{all_loops, sources};
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
/// Maximum number of queued Events; more are dropped, as Events are informational.
const EVENTS_MAX: usize = 1024;
/// How long decisions in progress may take after a stop request.
const STOP: Duration = Duration::from_secs(5);
/// Delay between two attempts to read the apiserver's discovery.
const DISCOVERY_RETRY: Duration = Duration::from_millis(200);

/// The configuration of the loops.
#[derive(Debug, Clone)]
pub struct Config {
    /// This process's identity in the leader election; `None` to run without election.
    pub elect: Option<String>,
    /// The cluster's CA certificate in PEM; empty to publish none.
    pub root_ca: String,
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
    start: Instant,
    writes: u64,
    failures: u64,
}

/// The channels from the tasks around the loops.
struct Inboxes {
    notices: mpsc::Receiver<(usize, Notice)>,
    reports: mpsc::Receiver<Report>,
    report: mpsc::Sender<Report>,
    events: mpsc::Sender<Call>,
    /// All tasks that end together with the loops.
    tasks: JoinSet<()>,
}

impl Shell {
    fn new(client: Client, config: &Config) -> Shell {
        Shell {
            client,
            manager: Manager::new(all_loops(&config.root_ca)),
            recorder: Recorder::default(),
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
                self.tell(&inboxes.events, &by, &note, "");
            }
            let wake = if busy < WORKERS {
                self.manager.wake_at()
            } else {
                None
            };
            let start = self.start;
            let wait = async move {
                match wake {
                    Some(at) => tokio::time::sleep_until(start + at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = &mut *stop => break,
                // Responses first: they are newer than what watches report.
                Some(report) = inboxes.reports.recv() => {
                    busy -= self.take_report(report, &inboxes);
                }
                Some((at, notice)) = inboxes.notices.recv() => self.take_notice(at, notice),
                () = wait => {}
            }
        }
        self.finish(inboxes, busy).await;
    }

    /// Starts the informers and waits until each has delivered its initial list.
    async fn begin(&mut self) -> Inboxes {
        let (notice, mut notices) = mpsc::channel(NOTICES_MAX);
        let (report, reports) = mpsc::channel(REPORTS_MAX);
        let (events, sending) = mpsc::channel(EVENTS_MAX);
        let mut tasks = JoinSet::new();
        let served = self.served().await;
        let mut missing = 0;
        for (at, (informer, _)) in sources().iter().enumerate() {
            if !served.contains(&(informer.kind.group(), informer.kind.plural())) {
                tracing::info!(
                    kind = informer.kind.plural(),
                    "the apiserver does not serve it"
                );
                continue;
            }
            missing += 1;
            let mut stream = Box::pin(informer.clone().run(&self.client));
            let notice = notice.clone();
            tasks.spawn(async move {
                while let Some(one) = stream.next().await {
                    if notice.send((at, one)).await.is_err() {
                        return;
                    }
                }
            });
        }
        tasks.spawn(carry::send_events(self.client.clone(), sending));
        let mut told = vec![false; sources().len()];
        while missing > 0 {
            let Some((at, one)) = notices.recv().await else {
                break;
            };
            if matches!(one, Notice::Replaced(_)) && !std::mem::replace(&mut told[at], true) {
                missing -= 1;
            }
            self.take_notice(at, one);
        }
        Inboxes {
            notices,
            reports,
            report,
            events,
            tasks,
        }
    }

    /// The groups and plurals that the apiserver serves. Retries until it answers.
    async fn served(&self) -> Vec<(&'static str, &'static str)> {
        let mut versions: Vec<&Arc<Kind>> = Vec::new();
        for kind in schema::kinds() {
            let same =
                |has: &&Arc<Kind>| (has.group(), has.version()) == (kind.group(), kind.version());
            if !versions.iter().any(same) {
                versions.push(kind);
            }
        }
        let mut served = Vec::new();
        for version in versions {
            let list = loop {
                let kube = self.client.kube();
                let answer = match version.group() {
                    "" => kube.list_core_api_resources(version.version()).await,
                    _ => kube.list_api_group_resources(&version.api_version()).await,
                };
                match answer {
                    Ok(list) => break list.resources,
                    Err(kube::Error::Api(status)) if status.code == 404 => break Vec::new(),
                    Err(error) => {
                        tracing::info!(%error, "waiting for the apiserver");
                        tokio::time::sleep(DISCOVERY_RETRY).await;
                    }
                }
            };
            let known = schema::kinds().iter().filter(|kind| {
                (kind.group(), kind.version()) == (version.group(), version.version())
            });
            let is_served = |kind: &&Arc<Kind>| list.iter().any(|one| one.name == kind.plural());
            served.extend(
                known
                    .filter(is_served)
                    .map(|kind| (kind.group(), kind.plural())),
            );
        }
        served
    }

    fn take_notice(&mut self, at: usize, notice: Notice) {
        let now = self.moment();
        let (informer, feed) = &sources()[at];
        self.manager.observe(&informer.kind, *feed, notice, now);
    }

    /// Starts up to `most` decisions; returns how many.
    fn start_work(&mut self, inboxes: &Inboxes, most: usize) -> usize {
        for started in 0..most {
            let now = self.moment();
            let Some(work) = self.manager.next(now) else {
                return started;
            };
            let carried = carry::carry_out(self.client.clone(), work, inboxes.report.clone());
            tokio::spawn(carried);
        }
        most
    }

    /// Handles a response or the end of a decision; returns how many decisions ended.
    fn take_report(&mut self, report: Report, inboxes: &Inboxes) -> usize {
        let now = self.moment();
        match report {
            Report::Answered { work, at, answer } => {
                let step = &work.decision.steps[at];
                self.writes += u64::from(step.call.writes());
                let (note, detail) = match &answer {
                    Ok(object) => (&step.done, machinery::object::name(object).to_owned()),
                    Err(error) => (&step.failed, error.message.clone()),
                };
                if let Some(note) = note {
                    let by = self.manager.component(&work);
                    self.tell(&inboxes.events, &by, note, &detail);
                }
                self.manager.answered(step, &answer, now);
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
    fn tell(&mut self, events: &mpsc::Sender<Call>, by: &str, note: &Note, detail: &str) {
        let now = self.moment().wall;
        let call = self.recorder.record(by, note, detail, now);
        let _ = events.try_send(call);
    }

    /// Waits for decisions in progress, then stops everything else.
    async fn finish(&mut self, mut inboxes: Inboxes, busy: usize) {
        let mut busy = busy;
        let end = Instant::now() + STOP;
        while busy > 0 {
            match tokio::time::timeout_at(end, inboxes.reports.recv()).await {
                Ok(Some(report)) => busy -= self.take_report(report, &inboxes),
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
