//! An empty member that joins the measured server and is fed all that it has.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::{MemberAddRequest, MemberListRequest, MemberUpdateRequest};
use testkit::free_port;

use super::super::Result;
use super::super::cluster::absent::wait_in_step;
use super::subject::Subject;

/// What a member needed to be in step, and what it has then.
pub(super) struct Fed {
    pub(super) took: Duration,
    pub(super) anonymous_bytes: u64,
}

/// Adds a learner, starts it with nothing, and waits until it has applied what the subject had
/// applied when it was asked; then stops it. Its files go with those of the subject.
pub(super) fn feed(subject: &Subject) -> Result<Fed> {
    let url = subject.url();
    let (ours, theirs) = (
        subject.peer_url(),
        format!("http://127.0.0.1:{}", free_port()),
    );
    subject.block_on(async {
        let client = Client::connect(url.clone()).await?;
        let mut cluster = client.cluster();
        let members = cluster.member_list(MemberListRequest::default());
        let members = members.await?.into_inner().members;
        // The address under which the newcomer reaches it: servers here advertise another one.
        let at_home = MemberUpdateRequest {
            id: members.first().ok_or("no member")?.id,
            peer_urls: vec![ours.clone()],
        };
        cluster.member_update(at_home).await?;
        let newcomer = MemberAddRequest {
            peer_urls: vec![theirs.clone()],
            is_learner: true,
        };
        cluster.member_add(newcomer).await?;
        Ok(())
    })?;
    let began = Instant::now();
    let mut newcomer = subject.start_newcomer(&ours, &theirs)?;
    let took = subject.block_on(async {
        wait_in_step(&url, &newcomer.url()).await?;
        Ok(began.elapsed())
    })?;
    let anonymous_bytes = newcomer.usage()?.anonymous_bytes;
    newcomer.terminate();
    Ok(Fed {
        took,
        anonymous_bytes,
    })
}
