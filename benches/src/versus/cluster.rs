//! A cluster of three members as child processes, of either side: the base of the parts of `versus`
//! that measure clusters.

#![expect(
    clippy::disallowed_methods,
    reason = "runs processes and waits for them"
)]

pub(super) mod absent;
pub(super) mod combined;
pub(super) mod join;
pub(super) mod puts;
pub(super) mod snapshot;
mod spread;
pub(super) mod steady;
pub(super) mod takeover;
mod writers;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::{MemberAddRequest, MemberRemoveRequest, StatusRequest};
use tempfile::TempDir;
use testkit::{Launch, Server, Usage, free_port};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::Result;
use super::options::{Options, Programs, Side};
use super::tls::{Ports, Tls};

const MEMBERS: usize = 3;
/// Timeout of one request to a member, which may be stopped.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Limit for a member that joins, which serves clients when it has the state.
const JOIN_WITHIN: Duration = Duration::from_secs(600);
/// How long a cluster may take to become healthy again.
const HEALTHY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Far more than any part writes.
const QUOTA: &str = "--quota-backend-bytes=34359738368";

/// A running cluster; when dropped, its members are killed and its files removed.
pub(super) struct Cluster {
    members: Vec<Server>,
    names: Vec<String>,
    program: PathBuf,
    flags: Vec<String>,
    runtime: Runtime,
    scratch: TempDir,
    /// The directory of joining members; if set, they run at low priority (`nice`).
    apart: Option<TempDir>,
    /// For an encrypted side, with the ports of each member.
    tls: Option<(Tls, Vec<Ports>)>,
}

/// A member's view of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    id: u64,
    leader: u64,
    term: u64,
}

impl Cluster {
    pub(super) fn start(side: Side, programs: &Programs, options: &Options) -> Result<Cluster> {
        let scratch = scratch_in(&options.dir)?;
        let apart = options.learner_dir.as_deref().map(scratch_in).transpose()?;
        let mut flags = vec![QUOTA.to_owned()];
        if side.is_stele() {
            flags.extend(options.stele_flags.iter().cloned());
        }
        let tls = Tls::of(side, scratch.path(), MEMBERS)?;
        let scheme = if side.is_encrypted() { "https" } else { "http" };
        let program = programs.server(side).clone();
        let peers: Vec<String> = (0..MEMBERS)
            .map(|_| format!("{scheme}://127.0.0.1:{}", free_port()))
            .collect();
        let places = peers.iter().enumerate();
        let places: Vec<String> = places.map(|(i, url)| format!("m{i}={url}")).collect();
        let places = places.join(",");
        let launch = |(i, url): (usize, &String)| {
            let name = format!("m{i}");
            let mut launch = Launch::program(&program).flags(&flags);
            if let Some((tls, ports)) = &tls {
                launch = launch
                    .flags(&tls.server_flags(&ports[i]))
                    .flags(&tls.peer_flags());
            }
            member(launch, scratch.path(), &name, url, &places, "new")
        };
        let launches: Vec<Launch> = peers.iter().enumerate().map(launch).collect();
        // In parallel: no member is ready before there is a leader.
        let starting: Vec<_> = launches
            .into_iter()
            .map(|launch| std::thread::spawn(move || launch.start()))
            .collect();
        let mut members = Vec::new();
        for start in starting {
            members.push(start.join().map_err(|_| "a start panicked")??);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let cluster = Cluster {
            members,
            names: places.split(',').map(str::to_owned).collect(),
            program,
            flags,
            runtime,
            scratch,
            apart,
            tls,
        };
        cluster.wait_healthy()?;
        Ok(cluster)
    }

    pub(super) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Without TLS.
    pub(super) fn urls(&self) -> Vec<String> {
        match &self.tls {
            Some((_, ports)) => ports.iter().map(Ports::plain_url).collect(),
            None => self.members.iter().map(Server::url).collect(),
        }
    }

    /// The endpoints for the load generator: the leader first, as a single client uses the first.
    pub(super) fn endpoints(&self) -> Result<String> {
        let (leader, _) = self.wait_healthy()?;
        let mut endpoints: Vec<String> = match &self.tls {
            Some((_, ports)) => ports.iter().map(Ports::endpoint).collect(),
            None => {
                let ports = self.members.iter().map(Server::client_port);
                ports.map(|port| format!("127.0.0.1:{port}")).collect()
            }
        };
        endpoints.swap(0, leader);
        Ok(endpoints.join(","))
    }

    /// Flags of the load generator, before its command.
    fn client_flags(&self) -> Vec<OsString> {
        self.tls
            .iter()
            .flat_map(|(tls, _)| tls.client_flags())
            .collect()
    }

    pub(super) fn member(&mut self, place: usize) -> &mut Server {
        &mut self.members[place]
    }

    /// The usage of all members together.
    pub(super) fn usage(&self) -> Result<Usage> {
        let mut sum = Usage::default();
        for member in &self.members {
            let usage = member.usage()?;
            sum.cpu += usage.cpu;
            sum.resident_bytes += usage.resident_bytes;
            sum.resident_peak_bytes += usage.resident_peak_bytes;
            sum.anonymous_bytes += usage.anonymous_bytes;
            sum.disk_write_bytes += usage.disk_write_bytes;
        }
        Ok(sum)
    }

    pub(super) fn all_alive(&mut self) -> Result<()> {
        for member in &mut self.members {
            if !member.is_alive() {
                return Err(format!("a member died; its log:\n{}", member.log()).into());
            }
        }
        Ok(())
    }

    /// Number of occurrences of `text` in all members' logs.
    pub(super) fn count_in_logs(&self, text: &str) -> usize {
        let logs = self.members.iter().map(Server::log);
        logs.map(|log| log.matches(text).count()).sum()
    }

    /// Waits until all members agree on the leader; returns its index and the term.
    pub(super) fn wait_healthy(&self) -> Result<(usize, u64)> {
        self.wait_for(|views| {
            let views: Vec<&View> = views.iter().flatten().collect();
            let agreed =
                views.len() == MEMBERS && views.iter().all(|v| v.leader == views[0].leader);
            let term = views.first()?.term;
            let leader = views.iter().position(|view| view.id == view.leader)?;
            agreed.then_some((leader, term))
        })
    }

    /// Waits until a member other than `place` knows a leader of a later term.
    pub(super) fn wait_new_leader(&self, place: usize, term: u64) -> Result<()> {
        self.wait_for(|views| {
            let mut others = views.iter().enumerate().filter(|(i, _)| *i != place);
            let is_new = |view: &View| view.leader != 0 && view.term > term;
            let found = others.any(|(_, view)| view.as_ref().is_some_and(is_new));
            found.then_some(())
        })
    }

    fn wait_for<T>(&self, found: impl Fn(&[Option<View>]) -> Option<T>) -> Result<T> {
        let until = Instant::now() + HEALTHY_WITHIN;
        loop {
            let urls = self.urls();
            let views: Vec<Option<View>> = self.runtime.block_on(async {
                let asking: Vec<_> = urls.into_iter().map(|url| tokio::spawn(ask(url))).collect();
                let mut views = Vec::new();
                for asked in asking {
                    views.push(asked.await.ok().flatten());
                }
                views
            });
            if let Some(found) = found(&views) {
                return Ok(found);
            }
            if Instant::now() > until {
                return Err(format!("the cluster did not come to agree: {views:?}").into());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Adds a member as learner; returns when it has caught up and serves.
    pub(super) fn join(&self, name: &str) -> Result<(Server, u64)> {
        let url = format!("http://127.0.0.1:{}", free_port());
        let leader = self.wait_healthy()?.0;
        let added = self.runtime.block_on(async {
            let client = Client::connect(self.members[leader].url()).await?;
            let request = MemberAddRequest {
                peer_urls: vec![url.clone()],
                is_learner: true,
            };
            Ok::<_, super::Error>(client.cluster().member_add(request).await?.into_inner())
        })?;
        let id = added.member.ok_or("no member was added")?.id;
        let mut places = self.names.clone();
        places.push(format!("{name}={url}"));
        let dir = self.apart.as_ref().unwrap_or(&self.scratch).path();
        let launch = match &self.apart {
            Some(_) => Launch::program("nice").subcommand(&self.program.display().to_string()),
            None => Launch::program(&self.program),
        };
        let launch = launch.flags(&self.flags).ready_within(JOIN_WITHIN);
        let launch = member(launch, dir, name, &url, &places.join(","), "existing");
        Ok((launch.start()?, id))
    }

    /// Stops and removes a member that joined.
    pub(super) fn leave(&self, mut member: Server, id: u64) -> Result<()> {
        member.kill();
        let leader = self.wait_healthy()?.0;
        self.runtime.block_on(async {
            let client = Client::connect(self.members[leader].url()).await?;
            let request = MemberRemoveRequest { id };
            client.cluster().member_remove(request).await?;
            Ok::<_, super::Error>(())
        })?;
        Ok(std::fs::remove_dir_all(member.data_dir())?)
    }
}

fn scratch_in(dir: &Path) -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix("versus-").tempdir_in(dir)
}

/// A launch as a member of the cluster of `places`.
pub(super) fn member(
    launch: Launch,
    dir: &Path,
    name: &str,
    peer_url: &str,
    places: &str,
    state: &str,
) -> Launch {
    launch
        .data_dir(dir.join(name))
        .flag(format!("--name={name}"))
        .flag(format!("--listen-peer-urls={peer_url}"))
        .flag(format!("--initial-advertise-peer-urls={peer_url}"))
        .flag(format!("--initial-cluster={places}"))
        .flag(format!("--initial-cluster-state={state}"))
}

async fn ask(url: String) -> Option<View> {
    let asked = async {
        let client = Client::connect(url).await.ok()?;
        let status = client.maintenance().status(StatusRequest {}).await.ok()?;
        let status = status.into_inner();
        Some(View {
            id: status.header?.member_id,
            leader: status.leader,
            term: status.raft_term,
        })
    };
    timeout(ANSWER_WITHIN, asked).await.ok().flatten()
}
