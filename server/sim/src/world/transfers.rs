//! States on their way from one member to another, as `server::member::cluster::peer::transfer`
//! carries them: the message and the state in one stream, which may break off, and an answer, which
//! may get lost.

use raft::Message;
use server::member::event::ConsensusEvent;
use server::state::snapshot::{Form, Snapshot, rows};
use storage::mvcc::View;

use super::sabotage::without_roles;
use super::{Event, Failed, MILLI, SECOND, Transfer, World};
use crate::canary::Canary;

impl World {
    pub(super) fn send_snapshot(
        &mut self,
        host: usize,
        message: &Message,
        view: View,
    ) -> Result<(), Failed> {
        self.figures.snapshots += 1;
        let form = if self.rng.chance(300) {
            Form::Database
        } else {
            Form::Rows
        };
        let forgets_roles = self.canary == Some(Canary::RolelessState);
        let mut bytes = match stream(form, message, view, forgets_roles) {
            Ok(bytes) => bytes,
            Err(_) if self.hosts[host].disk_has_failed() => return Ok(()),
            Err(what) if self.finds_rot(host, &what)? => return Ok(()),
            Err(what) => return Err(("agreement", what)),
        };
        if self.rng.chance(100) {
            let length = self.rng.below(bytes.len() as u64) as usize;
            bytes.truncate(length);
        }
        let index = match &message.body {
            raft::Body::Snapshot(snapshot) => snapshot.position.index,
            _ => 0,
        };
        let length = bytes.len();
        let to = message.to;
        self.note(&format!(
            "h{host} sends {:?} the state of {index} as {form:?}, {length} bytes",
            self.host_of(to)
        ));
        // A state for a machine that is not there takes its time, too.
        let link = (host, self.host_of(to).unwrap_or(host));
        let takes = self.net.transfer(length, link);
        let transfer = Transfer {
            from: host,
            life: self.hosts[host].life,
            to,
            form,
            bytes,
        };
        self.at(self.now + takes, Event::Snapshot(Box::new(transfer)));
        Ok(())
    }

    pub(super) fn snapshot_comes(&mut self, transfer: &Transfer) -> Result<(), Failed> {
        let Transfer {
            from,
            life,
            to,
            form,
            ref bytes,
        } = *transfer;
        let mut outcome = Err("nobody is there".to_owned());
        let target = self.host_of(to);
        if let Some(target) = target.filter(|target| !self.net.is_cut((from, *target)))
            && self.hosts[from].life == life
            && !self.hosts[target].paused
            && let Some(process) = &mut self.hosts[target].process
        {
            outcome = process.receive_snapshot(form, bytes);
            self.schedule(target);
            if self.net.is_cut((target, from)) {
                outcome = Err("the answer got lost".to_owned());
            }
        }
        if let Err(what) = &outcome {
            self.note(&format!("the state that h{from} sent is lost: {what}"));
        }
        // A transfer that failed is not told at once: what is told starts the next one.
        let ok = outcome.is_ok();
        let takes = if ok { self.rng.about(MILLI) } else { SECOND };
        let told = Event::SnapshotSent {
            host: from,
            life,
            to,
            ok,
        };
        self.at(self.now + takes, told);
        Ok(())
    }

    pub(super) fn snapshot_sent(&mut self, host: usize, life: u64, to: u64, ok: bool) {
        let this = &mut self.hosts[host];
        if let Some(process) = this.process.as_mut().filter(|_| this.life == life) {
            process
                .ports
                .to_consensus
                .push(ConsensusEvent::SnapshotSent { to, ok });
            self.schedule(host);
        }
    }
}

/// As etcd has it: the message's length, the message, the state.
fn stream(
    form: Form,
    message: &Message,
    view: View,
    forgets_roles: bool,
) -> Result<Vec<u8>, String> {
    let mut encoded = Vec::new();
    raft::wire::encode_message(message, &mut encoded);
    let mut bytes = (encoded.len() as u64).to_be_bytes().to_vec();
    bytes.append(&mut encoded);
    let written = match form {
        Form::Rows if forgets_roles => {
            let mut state = Vec::new();
            let written = rows::write(&view, &mut state);
            bytes.append(&mut without_roles(&state));
            written
        }
        Form::Rows => rows::write(&view, &mut bytes),
        Form::Database => Snapshot::of(view).and_then(|snapshot| snapshot.write(&mut bytes)),
    };
    written.map_err(|error| error.to_string())?;
    Ok(bytes)
}
