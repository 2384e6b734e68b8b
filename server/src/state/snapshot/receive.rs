//! Receives a state from another member. It is loaded beside the current store, made durable, and
//! replaces the store only when Raft says so.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use etcd_files::bbolt::read::Database;
use etcd_files::schema;
use raft::{Body, Message, Position};
use storage::encryption::ScratchWriter;
use storage::mvcc::{Applied, Incoming, Options, Root, clear_incoming};
use storage::vfs::Vfs;

use super::load::{self, Plan, ScratchSource};
use super::rows;
use crate::state;

/// etcd's file while it arrives: it can be read only when complete. Encrypted with a key that only
/// this process has.
const DATABASE: &str = "incoming.db";
/// Longer messages before the state are refused: etcd's limit.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;
const COPY_BYTES: usize = 256 << 10;

/// The form in which a state is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// etcd's database file.
    Database,
    /// Our own form: [`rows`].
    Rows,
}

/// Receives states of other members. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Receiver {
    vfs: Arc<dyn Vfs>,
    /// The store's directory.
    dir: PathBuf,
    /// Options of the store that a state is loaded into.
    options: Options,
    /// Only one state at a time, until it is installed or discarded: they share a file name.
    taken: Arc<AtomicBool>,
}

/// Permission to receive one state.
#[derive(Debug)]
pub struct Receiving {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    options: Options,
    permit: Permit,
}

/// A received state, durable beside the current store.
#[derive(Debug)]
pub struct Received {
    incoming: Incoming,
    _permit: Permit,
}

/// Released on drop.
#[derive(Debug)]
struct Permit(Arc<AtomicBool>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Why nothing was received.
#[derive(Debug)]
pub enum ReceiveError {
    Input(io::Error),
    /// The message is not valid, or the state does not match it.
    Refused(String),
    Rows(rows::LoadError),
    Database(load::LoadError),
    Storage(storage::Error),
}

impl Receiver {
    /// `dir` is the store's directory. Removes what an interrupted run left there.
    pub fn new(vfs: Arc<dyn Vfs>, dir: PathBuf, options: Options) -> storage::Result<Receiver> {
        clear(&*vfs, &dir)?;
        let taken = Arc::default();
        Ok(Receiver {
            vfs,
            dir,
            options,
            taken,
        })
    }

    /// `None` while another state is being received or waits to be installed.
    pub fn begin(&self) -> Option<Receiving> {
        let free = !self.taken.swap(true, Ordering::Acquire);
        let permit = free.then(|| Permit(Arc::clone(&self.taken)))?;
        Some(Receiving {
            vfs: Arc::clone(&self.vfs),
            dir: self.dir.clone(),
            options: self.options.clone(),
            permit,
        })
    }
}

impl Receiving {
    /// Reads what etcd calls a merged snapshot: the length of the message (u64, big endian), the
    /// message, the state. Blocks until all of it has arrived.
    pub fn read(
        self,
        form: Form,
        input: &mut dyn Read,
    ) -> Result<(Message, Received), ReceiveError> {
        self.read_if(form, input, &|_| Ok(()))
    }

    /// The same, but first passes the message to `allow`; if that fails, the state is neither read
    /// nor written.
    pub fn read_if(
        self,
        form: Form,
        input: &mut dyn Read,
        allow: &dyn Fn(&Message) -> Result<(), String>,
    ) -> Result<(Message, Received), ReceiveError> {
        let message = read_message(input)?;
        allow(&message).map_err(ReceiveError::Refused)?;
        let Body::Snapshot(snapshot) = &message.body else {
            return Err(ReceiveError::Refused("not a snapshot's message".to_owned()));
        };
        let loaded = match form {
            Form::Rows => {
                let options = self.options.clone();
                let loaded = rows::load(Arc::clone(&self.vfs), &self.dir, options, input);
                loaded.map_err(ReceiveError::Rows)
            }
            Form::Database => self.read_database(snapshot.position, input),
        };
        let incoming = loaded.and_then(|incoming| check(incoming, snapshot.position));
        // Frees the space at once; files that cannot be removed now are removed at the next
        // attempt.
        let _ = clear_after(&*self.vfs, &self.dir, incoming.is_ok());
        let received = Received {
            incoming: incoming?,
            _permit: self.permit,
        };
        Ok((message, received))
    }

    fn read_database(
        &self,
        position: Position,
        input: &mut dyn Read,
    ) -> Result<Incoming, ReceiveError> {
        clear(&*self.vfs, &self.dir).map_err(ReceiveError::Storage)?;
        let file = ScratchWriter::create(&*self.vfs, &self.dir.join(DATABASE));
        let mut file = file.map_err(ReceiveError::Storage)?;
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            let count = input.read(&mut buffer).map_err(ReceiveError::Input)?;
            if count == 0 {
                break;
            }
            let written = file.write(&buffer[..count]);
            written.map_err(ReceiveError::Storage)?;
        }
        let file = file.finish().map_err(ReceiveError::Storage)?;
        let source = Database::open(ScratchSource(file));
        let database = source.map_err(|error| ReceiveError::Database(error.into()))?;
        let plan = Plan {
            options: self.options.clone(),
            ..plan(&database, position)?
        };
        let loaded = load::load(Arc::clone(&self.vfs), &self.dir, &database, &plan);
        loaded.map_err(ReceiveError::Database)
    }
}

impl Received {
    /// The newest log entry in the state.
    pub fn applied(&self) -> Applied {
        self.incoming.root().applied()
    }

    /// Its content.
    pub(crate) fn root(&self) -> &Root {
        self.incoming.root()
    }

    /// Installs the state. Must happen before another state is received.
    pub fn replace(self, store: &mut storage::mvcc::Store) -> storage::Result<()> {
        store.replace(self.incoming)
    }

    pub fn discard(self) -> storage::Result<()> {
        self.incoming.discard()
    }
}

fn read_message(input: &mut dyn Read) -> Result<Message, ReceiveError> {
    let mut length = [0; 8];
    input.read_exact(&mut length).map_err(ReceiveError::Input)?;
    let length = u64::from_be_bytes(length);
    if length > MESSAGE_BYTES_MAX {
        return Err(ReceiveError::Refused("the message is too long".to_owned()));
    }
    let mut bytes = Vec::new();
    let read = input.take(length).read_to_end(&mut bytes);
    read.map_err(ReceiveError::Input)?;
    if (bytes.len() as u64) < length {
        return Err(ReceiveError::Input(io::ErrorKind::UnexpectedEof.into()));
    }
    raft::wire::decode_message(&bytes.into())
        .map_err(|error| ReceiveError::Refused(format!("the message cannot be read: {error}")))
}

/// etcd's file may be older than its message, by entries that changed nothing in the file.
fn plan(database: &Database<ScratchSource>, position: Position) -> Result<Plan, ReceiveError> {
    let damaged = |error: etcd_files::bbolt::read::Error| ReceiveError::Database(error.into());
    let mut index = 0;
    if let Some(meta) = database.bucket(schema::META.as_bytes()).map_err(damaged)? {
        let mut row = |key: &[u8], value: &[u8]| -> Result<(), etcd_files::bbolt::read::Error> {
            if key == schema::CONSISTENT_INDEX {
                index = value.try_into().map_or(u64::MAX, u64::from_be_bytes);
            }
            Ok(())
        };
        database.rows(&meta, &mut row).map_err(damaged)?;
    }
    if index > position.index {
        let what = format!("a state of entry {index} for entry {}", position.index);
        return Err(ReceiveError::Refused(what));
    }
    let Position { index, term } = position;
    Ok(Plan {
        applied: Some(Applied { index, term }),
        ..Plan::default()
    })
}

fn check(incoming: Incoming, position: Position) -> Result<Incoming, ReceiveError> {
    let Applied { index, term } = incoming.root().applied();
    if let Err(error) = state::check_rows(incoming.root()) {
        return Err(ReceiveError::Refused(error.to_string()));
    }
    if (Position { term, index }) == position {
        return Ok(incoming);
    }
    let what = format!(
        "a state of entry {term}.{index} for entry {}.{}",
        position.term, position.index
    );
    Err(ReceiveError::Refused(what))
}

fn clear(vfs: &dyn Vfs, dir: &Path) -> storage::Result<()> {
    clear_after(vfs, dir, false)
}

/// Removes etcd's file, and the store loaded from it unless `wanted`.
fn clear_after(vfs: &dyn Vfs, dir: &Path, wanted: bool) -> storage::Result<()> {
    let path = dir.join(DATABASE);
    let io = |what| storage::Error::io(what, &path);
    if vfs.exists(&path).map_err(io("look for"))? {
        vfs.remove(&path).map_err(io("remove"))?;
    }
    if wanted {
        Ok(())
    } else {
        clear_incoming(vfs, dir)
    }
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReceiveError::Input(error) => write!(f, "the stream broke off: {error}"),
            ReceiveError::Refused(what) => f.write_str(what),
            ReceiveError::Rows(error) => error.fmt(f),
            ReceiveError::Database(error) => error.fmt(f),
            ReceiveError::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReceiveError {}
