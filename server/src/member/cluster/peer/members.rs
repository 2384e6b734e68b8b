//! Which peers this member is connected to: the members of its log, those that it hears of before
//! its log contains them, and never a removed one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::codec::Kind;
use super::link::Link;
use super::{PIPELINE_MESSAGES_MAX, POSTS_OF_PEER_MAX, Peer, Peers, closed, dial};
use crate::config::Url;
use crate::member::event::ApplyEvent;
use crate::state::MemberInfo;

/// Peers that are not in our log, at one time.
const REMOTES_MAX: usize = 64;

impl Peers {
    /// Sets the current members and the removed ones.
    pub(crate) fn set_members(&self, members: &[MemberInfo], removed: &[u64]) {
        *self.0.removed.write() = removed.iter().copied().collect();
        if removed.contains(&self.0.me.member_id) {
            self.leave();
        }
        let mut peers = self.0.peers.write();
        peers.retain(|id, peer| {
            let stays = members.iter().any(|member| member.id == *id)
                || (peer.is_remote && !removed.contains(id));
            if !stays {
                peer.end();
            }
            stays
        });
        for member in members.iter().filter(|m| m.id != self.0.me.member_id) {
            match peers.get_mut(&member.id) {
                Some(peer) if peer.target.urls == member.peer_urls && peer.is_read => {
                    peer.is_remote = false;
                }
                known => {
                    if let Some(peer) = known {
                        peer.end();
                    }
                    peers.insert(member.id, self.connect(member, false, true));
                }
            }
        }
        self.tell_make(&peers);
    }

    /// Adds members named by other members, before our own log contains them.
    pub(crate) fn add_remotes(&self, members: &[MemberInfo]) {
        let mut peers = self.0.peers.write();
        for member in members.iter().filter(|m| m.id != self.0.me.member_id) {
            peers
                .entry(member.id)
                .or_insert_with(|| self.connect(member, true, true));
        }
    }

    /// A peer that asks gives its URLs, in case our log does not contain it yet.
    pub(super) fn add_remote(&self, id: u64, urls: &str) {
        let mut peers = self.0.peers.write();
        let remotes = peers.values().filter(|peer| peer.is_remote).count();
        let is_known = id == self.0.me.member_id || peers.contains_key(&id);
        if is_known || remotes >= REMOTES_MAX || self.is_removed(id) {
            return;
        }
        let peer_urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
        if peer_urls.iter().all(|url| Url::parse(url).is_ok()) {
            let member = MemberInfo {
                id,
                peer_urls,
                ..Default::default()
            };
            peers.insert(id, self.connect(&member, true, false));
        }
    }

    /// Records whether the peer `id` is a Stele member; its answers show this.
    pub(super) fn note_make(&self, id: u64, is_ours: bool) {
        let peers = self.0.peers.read();
        if let Some(peer) = peers.get(&id) {
            peer.is_ours.store(is_ours, Ordering::Relaxed);
        }
        self.tell_make(&peers);
    }

    /// Tells the applier whether lease checkpoints are allowed: only if all other members are known
    /// to be Stele members, because etcd members never undo a lease checkpoint. A peer not heard of
    /// yet counts as etcd.
    fn tell_make(&self, peers: &HashMap<u64, Peer>) {
        let mut members = peers.values().filter(|peer| !peer.is_remote);
        let allowed = members.all(|peer| peer.is_ours.load(Ordering::Relaxed));
        if self.0.all_are_ours.swap(allowed, Ordering::Relaxed) != allowed {
            // Fails only if the member has stopped.
            let _ = self.0.apply.send(ApplyEvent::LeaseCheckpoints { allowed });
        }
    }

    fn connect(&self, member: &MemberInfo, is_remote: bool, is_read: bool) -> Peer {
        let (pipeline, posts) = mpsc::channel(PIPELINE_MESSAGES_MAX);
        let link = Arc::new(Link::new(
            self.0.clock,
            self.0.metrics.network.of(member.id),
        ));
        let target = dial::Target {
            id: member.id,
            urls: member.peer_urls.clone(),
            link: Arc::clone(&link),
            peers: self.clone(),
        };
        let runtime = &self.0.runtime;
        let mut tasks = vec![runtime.spawn(dial::pipeline(target.clone(), posts))];
        if is_read {
            tasks.push(runtime.spawn(dial::probe(target.clone())));
            for kind in [Kind::Message, Kind::MsgApp] {
                tasks.push(runtime.spawn(dial::follow(target.clone(), kind)));
            }
        }
        Peer {
            target,
            streams: [closed(), closed()],
            pipeline,
            posts: Arc::new(Semaphore::new(POSTS_OF_PEER_MAX)),
            link,
            is_remote,
            is_read,
            is_ours: AtomicBool::new(false),
            tasks: tasks.iter().map(|task| task.abort_handle()).collect(),
        }
    }

    /// This member was removed; peers no longer accept its messages.
    pub(crate) fn leave(&self) {
        self.0.gone.send_replace(true);
    }

    /// Returns when this member has been removed.
    pub(crate) async fn gone(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// True for a peer whose streams this member reads, and which may read ours.
    pub(super) fn reads(&self, id: u64) -> bool {
        self.0
            .peers
            .read()
            .get(&id)
            .is_some_and(|peer| peer.is_read)
    }

    /// A place to read a message that `speaker` POSTs. A known peer waits for one of its own; all
    /// other senders share a few, so that they never hold up a peer. `None` if those are taken.
    pub(super) async fn place_for(&self, speaker: Option<u64>) -> Option<OwnedSemaphorePermit> {
        match speaker.and_then(|id| self.posts_of(id)) {
            Some(own) => own.acquire_owned().await.ok(),
            None => Arc::clone(&self.0.posts).try_acquire_owned().ok(),
        }
    }

    fn posts_of(&self, id: u64) -> Option<Arc<Semaphore>> {
        let peers = self.0.peers.read();
        let known = peers.get(&id).filter(|peer| peer.is_read);
        known.map(|peer| Arc::clone(&peer.posts))
    }

    pub(super) fn is_removed(&self, id: u64) -> bool {
        self.0.removed.read().contains(&id)
    }

    pub(crate) fn urls_of(&self, id: u64) -> Option<Vec<String>> {
        let peers = self.0.peers.read();
        peers.get(&id).map(|peer| peer.target.urls.clone())
    }
}
