//! Writes and syncs the log, and tells consensus what is durable.

use std::sync::Arc;

use raft::Ticket;
use raft::durable::LogWriter;
use storage::mvcc::CheckpointJob;

use super::{Fatal, Job, Note, Ports, Published};
use crate::member::event::{ConsensusEvent, LogEvent};

pub struct Log {
    writer: LogWriter,
    shared: Arc<Published>,
    /// There was no space for another file: none is made in advance.
    is_short: bool,
    /// The newest write that is in the file and may not be durable.
    unsynced: Option<Ticket>,
    /// A write that may not be durable made all entries before it void: an installed state has
    /// them.
    voids: bool,
    /// Holds entries of writes that may not be durable.
    checkpoint: Option<Box<CheckpointJob>>,
    stops: bool,
}

impl Log {
    pub fn new(writer: LogWriter, shared: Arc<Published>) -> Log {
        Log {
            writer,
            shared,
            is_short: false,
            unsynced: None,
            voids: false,
            checkpoint: None,
            stops: false,
        }
    }

    /// Takes all of `events`. A write is reported only after [`Self::sync`]: one sync serves a whole
    /// batch, and the next batch gathers while it runs.
    pub fn write(
        &mut self,
        events: &mut Vec<LogEvent>,
        ports: &mut impl Ports,
    ) -> Result<(), Fatal> {
        for event in events.drain(..) {
            match event {
                LogEvent::Write(write) => self.append(&write, ports)?,
                // Only the files are looked up here. Reading them takes long.
                LogEvent::Fetch(fetch) => {
                    ports.start(Job::Fetch(Box::new(self.writer.fetch(fetch))));
                }
                LogEvent::DropBefore { index } => {
                    self.writer
                        .drop_but(index, self.shared.log_keep())
                        .map_err(unwritten)?;
                    self.clear(ports);
                }
                LogEvent::Checkpoint(job) => {
                    self.checkpoint = Some(job);
                    if self.unsynced.is_none() {
                        self.start_checkpoint(ports);
                    }
                }
                LogEvent::Shrink => self.shrink(ports)?,
                LogEvent::Short(short) => self.is_short = short,
                LogEvent::Stop => self.stops = true,
            }
        }
        Ok(())
    }

    /// Makes the written bytes durable, and then reports them.
    pub fn sync(&mut self, ports: &mut impl Ports) -> Result<(), Fatal> {
        if let Some(ticket) = self.unsynced {
            self.make_durable(ticket, ports)?;
            ports.to_consensus(ConsensusEvent::Durable { ticket });
        }
        Ok(())
    }

    /// The short way for a write that no other write can join: a lone client waits for two threads
    /// fewer. The write is durable when this returns. The caller is the consensus actor, so nobody else is
    /// told.
    pub(super) fn write_alone(
        &mut self,
        write: &raft::Write,
        ports: &mut impl Ports,
    ) -> Result<(), Fatal> {
        self.append(write, ports)?;
        self.make_durable(write.ticket, ports)
    }

    /// The newest write that is not synced.
    pub fn unsynced(&self) -> Option<Ticket> {
        self.unsynced
    }

    /// True if no more events will come.
    pub fn is_stopped(&self) -> bool {
        self.stops
    }

    fn append(&mut self, write: &raft::Write, ports: &mut impl Ports) -> Result<(), Fatal> {
        let began = ports.now();
        self.writer.append(write).map_err(unwritten)?;
        self.unsynced = Some(write.ticket);
        self.voids |= write.reset.is_some();
        let log_bytes = self.writer.written_bytes();
        self.shared.set_log_bytes(log_bytes);
        let took = ports.now().saturating_sub(began);
        ports.note(Note::Appended { took, log_bytes });
        Ok(())
    }

    /// Begins the log's next file before the sync, so that it is ready when it is needed.
    fn make_durable(&mut self, through: Ticket, ports: &mut impl Ports) -> Result<(), Fatal> {
        if !self.is_short
            && let Some(job) = self.writer.prepare_next()
        {
            ports.start(Job::PrepareLog(job));
        }
        let began = ports.now();
        self.writer
            .sync()
            .map_err(|error| Fatal::new("failed to sync the log", error))?;
        self.unsynced = None;
        let took = ports.now().saturating_sub(began);
        ports.note(Note::Synced { through, took });
        self.start_checkpoint(ports);
        if std::mem::take(&mut self.voids) {
            self.shrink(ports)?;
        }
        Ok(())
    }

    /// Starts the checkpoint that waited for the log, if there is one. Everything written is durable.
    fn start_checkpoint(&mut self, ports: &mut impl Ports) {
        if let Some(job) = self.checkpoint.take() {
            ports.start(Job::Checkpoint(job, self.shared.hurry.clone()));
        }
    }

    /// Drops what is neither needed nor to be kept.
    fn shrink(&mut self, ports: &mut impl Ports) -> Result<(), Fatal> {
        self.writer
            .shrink_to(self.shared.log_keep())
            .map_err(unwritten)?;
        self.clear(ports);
        Ok(())
    }

    /// Clears up behind a drop.
    fn clear(&mut self, ports: &mut impl Ports) {
        let kept_bytes = self.writer.kept_bytes();
        self.shared.set_log_kept(kept_bytes);
        ports.note(Note::Kept { kept_bytes });
        if let Some(job) = self.writer.finish_drop() {
            ports.start(Job::ClearLog(job));
        }
    }
}

fn unwritten(error: storage::Error) -> Fatal {
    const WHAT: &str = "failed to write the log";
    if error.is_full() {
        let way_out = "the disk is full. Make room there and start again: all that was \
                       acknowledged is in the log";
        return Fatal::new(WHAT, format!("{error}: {way_out}"));
    }
    Fatal::new(WHAT, error)
}
