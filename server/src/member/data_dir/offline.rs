//! Makes data directories while no server runs on them, for `stele utl`.
//! A directory is made under another name and renamed when it is complete. A server never finds
//! half of one.

mod import;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest;
use etcd_files::bbolt::read::Database;
use raft::Position;
use raft::durable::LogWriter;
use storage::encryption::{DataKeys, KeyFile};
use storage::mvcc::Applied;
use storage::vfs::os::OsVfs;
use storage::vfs::{File, Open, Vfs};
use utl::{Engine, Import, Restore};

use crate::config::keys::KeySource;
use crate::config::{self, Config};
use crate::dns::places;
use crate::member::data_dir;
use crate::state::snapshot::load::{FileSource, Plan, load};
use crate::telemetry::logging;

/// The digest at the end of a snapshot.
const DIGEST_BYTES: u64 = 32;
/// A database is a whole number of sectors long. With its digest it is not.
const SECTOR_BYTES: u64 = 512;
const READ_BYTES: usize = 1 << 20;

/// Name of the member directory until it is complete.
const UNFINISHED: &str = "member.unfinished";

/// Works on the real file system.
pub struct Offline;

impl Engine for Offline {
    fn restore(&self, plan: &Restore) -> Result<Vec<String>, String> {
        restore(Arc::new(OsVfs), plan)
    }

    fn import(&self, plan: &Import) -> Result<String, String> {
        import::import(Arc::new(OsVfs), plan)
    }
}

fn restore(vfs: Arc<dyn Vfs>, plan: &Restore) -> Result<Vec<String>, String> {
    let config = founding_config(plan)?;
    let keys = read_keys(plan.encryption_key_file.as_deref())?;
    refuse_used(&*vfs, &config.data_dir)?;
    if let Some(wal_dir) = &plan.wal_dir
        && vfs.exists(wal_dir).map_err(text)?
    {
        return Err(format!(
            "wal-dir {:?} exists",
            wal_dir.display().to_string()
        ));
    }
    let file = open(&*vfs, &plan.snapshot)?;
    verify(&*file, &plan.snapshot, plan.skip_hash_check)?;
    let database = Database::open(FileSource(file)).map_err(|e| named(&plan.snapshot, e))?;

    let founding = data_dir::Founding::of(&config);
    let dirs = (config.data_dir.as_path(), plan.wal_dir.as_deref());
    let place = NewDirectory::create(Arc::clone(&vfs), dirs, keys.as_ref())?;
    let bump_revision = i64::try_from(plan.bump_revision).map_err(text)?;
    let loading = Plan {
        members: Some(founding.members.clone()),
        applied: Some(Applied {
            index: founding.members.len() as u64,
            term: data_dir::FOUNDING_TERM,
        }),
        bump_revision,
        options: place.store_options(),
    };
    let loaded = load(Arc::clone(&vfs), &place.store(), &database, &loading);
    let incoming = loaded.map_err(|error| named(&plan.snapshot, error))?;
    drop(incoming.install().map_err(text)?);

    let opened = LogWriter::open(vfs, &place.log(), Position::default(), place.log_options());
    let (mut log, _) = opened.map_err(text)?;
    founding.write(&mut log).map_err(text)?;
    drop(log);
    place.finish()?;
    Ok(restored(plan, &config, &founding))
}

/// The lines that etcdutl logs, in its format.
fn restored(plan: &Restore, config: &Config, founding: &data_dir::Founding) -> Vec<String> {
    let files = serde_json::json!({
        "path": plan.snapshot,
        "wal-dir": config.log_dir(),
        "data-dir": plan.data_dir,
        "snap-dir": plan.data_dir.join("member").join("store"),
    });
    let added = founding.members.iter().map(|member| {
        let fields = serde_json::json!({
            "cluster-id": format!("{:x}", founding.cluster_id),
            "local-member-id": "0",
            "added-peer-id": format!("{:x}", member.id),
            "added-peer-peer-urls": member.peer_urls,
            "added-peer-is-learner": false,
        });
        ("added member", fields)
    });
    let first = std::iter::once(("restoring snapshot", files.clone()));
    let last = std::iter::once(("restored snapshot", files));
    let time = logging::timestamp(crate::basics::clock::unix_time());
    let lines = first.chain(added).chain(last);
    lines
        .map(|(message, fields)| format!("{time}\tinfo\toffline.rs\t{message}\t{fields}"))
        .collect()
}

/// The flags that bootstrap a cluster, checked as the server checks its own.
fn founding_config(plan: &Restore) -> Result<Config, String> {
    let args = [
        format!("--name={}", plan.name),
        format!("--data-dir={}", plan.data_dir.display()),
        format!("--initial-cluster={}", plan.initial_cluster),
        format!("--initial-cluster-token={}", plan.initial_cluster_token),
        format!(
            "--initial-advertise-peer-urls={}",
            plan.initial_advertise_peer_urls
        ),
        format!(
            "--wal-dir={}",
            plan.wal_dir.as_deref().unwrap_or(Path::new("")).display()
        ),
    ];
    let no_file = |path: &str| Err(std::io::Error::other(path.to_owned()));
    let config = config::parse(&args, &[], &no_file).map_err(|exit| match exit {
        config::Exit::Invalid(invalid) => invalid.reason,
        config::Exit::Print { stderr, .. } => stderr.lines().next().unwrap_or_default().to_owned(),
        config::Exit::Shadowed { variable } => variable,
    })?;
    let looked_up = places::looked_up_alone(&config).map_err(text)?;
    let config = looked_up.unwrap_or(config);
    match config.founding_error {
        Some(error) => Err(error),
        None => Ok(config),
    }
}

fn refuse_used(vfs: &dyn Vfs, dir: &Path) -> Result<(), String> {
    let used = match vfs.exists(dir) {
        Ok(false) => false,
        Ok(true) => {
            // What an interrupted `utl` left does not count as used.
            let names = vfs.list(dir);
            let inside = ["member", "proxy"].map(|name| vfs.exists(&dir.join(name)));
            names.map_or(true, |names| !names.is_empty())
                || inside.iter().any(|found| !matches!(found, Ok(false)))
        }
        Err(_) => true,
    };
    if used {
        return Err(format!(
            "data-dir {:?} not empty or could not be read",
            dir.display().to_string()
        ));
    }
    Ok(())
}

fn open(vfs: &dyn Vfs, path: &Path) -> Result<Arc<dyn File>, String> {
    vfs.open(path, Open::Existing)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("open {}: no such file or directory", path.display())
            }
            _ => format!("open {}: {error}", path.display()),
        })
}

/// Compares a snapshot with the digest at its end.
fn verify(file: &dyn File, path: &Path, skip: bool) -> Result<(), String> {
    let len = file.len().map_err(|error| named(path, error))?;
    if skip {
        return Ok(());
    }
    if len % SECTOR_BYTES != DIGEST_BYTES {
        return Err("snapshot missing hash but --skip-hash-check=false".into());
    }
    let mut digest = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0; READ_BYTES];
    let (mut at, end) = (0, len - DIGEST_BYTES);
    while at < end {
        let part = &mut buffer[..READ_BYTES.min((end - at) as usize)];
        file.read_at(part, at).map_err(|error| named(path, error))?;
        digest.update(part);
        at += part.len() as u64;
    }
    let mut expected = [0; DIGEST_BYTES as usize];
    file.read_at(&mut expected, end)
        .map_err(|error| named(path, error))?;
    let found = digest.finish();
    if found.as_ref() != expected {
        let list = |bytes: &[u8]| {
            let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
            bytes.join(" ")
        };
        let (expected, found) = (list(&expected), list(found.as_ref()));
        return Err(format!("expected sha256 [{expected}], got [{found}]"));
    }
    Ok(())
}

/// A member directory under construction.
struct NewDirectory {
    vfs: Arc<dyn Vfs>,
    data_dir: PathBuf,
    wal_dir: Option<PathBuf>,
    data_keys: Option<Arc<DataKeys>>,
}

impl NewDirectory {
    /// Creates the directories. Data is sealed with the first of `keys`, if there are any. `dirs`:
    /// the data directory, and that of the log if it is separate.
    fn create(
        vfs: Arc<dyn Vfs>,
        dirs: (&Path, Option<&Path>),
        keys: Option<&KeyFile>,
    ) -> Result<NewDirectory, String> {
        let mut place = NewDirectory {
            vfs,
            data_dir: dirs.0.to_owned(),
            wal_dir: dirs.1.map(Path::to_owned),
            data_keys: None,
        };
        if place.vfs.exists(&place.unfinished()).map_err(text)? {
            return Err(format!(
                "{} is left of an earlier try; remove it first",
                place.unfinished().display()
            ));
        }
        for dir in [place.store(), place.log()] {
            place.vfs.create_dir_all(&dir).map_err(text)?;
        }
        let ring = place.unfinished().join("keys");
        place.data_keys =
            DataKeys::open(Arc::clone(&place.vfs), &ring, keys, true).map_err(text)?;
        Ok(place)
    }

    fn unfinished(&self) -> PathBuf {
        self.data_dir.join(UNFINISHED)
    }

    fn store(&self) -> PathBuf {
        self.unfinished().join("store")
    }

    fn log(&self) -> PathBuf {
        match &self.wal_dir {
            Some(dir) => {
                let mut name = dir.as_os_str().to_owned();
                name.push(".unfinished");
                name.into()
            }
            None => self.unfinished().join("log"),
        }
    }

    fn store_options(&self) -> storage::mvcc::Options {
        let data_keys = self.data_keys.clone();
        storage::mvcc::Options { data_keys }
    }

    fn log_options(&self) -> raft::durable::Options {
        raft::durable::Options {
            data_keys: self.data_keys.clone(),
            ..Default::default()
        }
    }

    fn finish(self) -> Result<(), String> {
        let member = self.data_dir.join("member");
        self.vfs.rename(&self.unfinished(), &member).map_err(text)?;
        self.vfs.sync_dir(&self.data_dir).map_err(text)?;
        let Some(wal_dir) = &self.wal_dir else {
            return Ok(());
        };
        // The log comes last: a server refuses to start on a store without a log. On a log without
        // a store it would start, and bootstrap the cluster without its data.
        self.vfs.rename(&self.log(), wal_dir).map_err(text)?;
        match wal_dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.vfs.sync_dir(parent),
            _ => self.vfs.sync_dir(Path::new(".")),
        }
        .map_err(text)
    }
}

fn read_keys(path: Option<&Path>) -> Result<Option<KeyFile>, String> {
    let source = path.map(|path| KeySource::File(path.to_owned()));
    source.map(|source| source.read()).transpose()
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

fn named(path: &Path, error: impl fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn founding(advertised: &str, listed: &str) -> Result<Config, String> {
        founding_config(&Restore {
            snapshot: PathBuf::from("saved"),
            data_dir: PathBuf::from("restored"),
            wal_dir: None,
            name: "own".to_owned(),
            initial_cluster: format!("own={listed}"),
            initial_cluster_token: "token".to_owned(),
            initial_advertise_peer_urls: advertised.to_owned(),
            skip_hash_check: false,
            bump_revision: 0,
            mark_compacted: false,
            encryption_key_file: None,
        })
    }

    #[test]
    fn a_restored_member_may_be_listed_by_another_text_of_its_address() {
        let listed = "http://[2001:db8::1]:1";
        let config = founding("http://[2001:DB8::1]:1", listed).unwrap();
        let members = &config.initial_cluster;
        assert_eq!(members[0].peer_urls[0].as_str(), listed);
        let error = founding("http://127.0.0.1:1", "http://localhost:1").unwrap_err();
        let why = "(resolved urls: \"http://127.0.0.1:1\" != \"http://localhost:1\")";
        assert!(error.contains(why), "{error}");
    }
}
