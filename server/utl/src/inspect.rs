//! `inspect`: reads and verifies every file of a data directory of Stele, and reports its content.
//! Changes nothing.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use storage::encryption::KeyFile;
use storage::inspect::{Inspection, Places, StoreFound, inspect};
use storage::vfs::Vfs;
use storage::vfs::os::OsVfs;
use storage::wal::LogFound;

use crate::{EXIT_DAMAGED, Failure};

/// Command-line arguments besides the data directory.
pub(crate) struct Given {
    /// `None` if the log is inside the data directory.
    pub(crate) wal_dir: Option<PathBuf>,
    pub(crate) key_file: Option<PathBuf>,
}

/// Inspects `dir`; a failure with `EXIT_DAMAGED` means that something is damaged.
pub(crate) fn run(dir: &Path, given: Given, out: &mut dyn Write) -> Result<(), Failure> {
    let member = dir.join("member");
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let places = Places {
        keys: member.join("keys"),
        store: member.join("store"),
        log: given.wal_dir.unwrap_or_else(|| member.join("log")),
    };
    let _lock = lock(&*vfs, dir, &member.join("lock"), &places)?;
    let keys = given.key_file.map(read_keys).transpose()?;
    let found = inspect(vfs, &places, keys.as_ref()).map_err(Failure::error)?;
    out.write_all(told(&found).as_bytes())
        .map_err(Failure::error)?;
    if found.is_whole() {
        return Ok(());
    }
    let damage: Vec<String> = found.damage.iter().map(|e| e.to_string()).collect();
    Err(Failure {
        text: damage.join("\nError: "),
        code: EXIT_DAMAGED,
    })
}

/// Keeps servers out: a running server changes its files all the time. `None` if no server ever ran
/// there, or the lock is lost.
fn lock(
    vfs: &dyn Vfs,
    dir: &Path,
    path: &Path,
    places: &Places,
) -> Result<Option<Box<dyn storage::vfs::Lock>>, Failure> {
    if !vfs.exists(path).map_err(Failure::error)? {
        // Perhaps made by `snapshot restore` or `import`, or what is left of a member.
        for place in [&places.store, &places.log, &places.keys] {
            if vfs.exists(place).map_err(Failure::error)? {
                return Ok(None);
            }
        }
        let what = format!("{} is not a data directory of Stele", dir.display());
        return Err(Failure::error(what));
    }
    vfs.lock(path)
        .map(Some)
        .map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                Failure::error(format!("{} is in use by a server", dir.display()))
            }
            _ => Failure::error(format!("lock {}: {error}", path.display())),
        })
}

fn read_keys(path: PathBuf) -> Result<KeyFile, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Failure::error(format!("{name}: {error}")))?;
    KeyFile::take(&name, text).map_err(Failure::error)
}

fn told(found: &Inspection) -> String {
    let mut text = String::new();
    let _ = match &found.keys {
        None => writeln!(text, "keys: none, nothing is sealed"),
        Some((active, others)) => writeln!(
            text,
            "keys: new data under {}; older data perhaps under {}",
            key_name(*active),
            key_names(others)
        ),
    };
    match &found.store {
        Some(store) => tell_store(store, &mut text),
        None => text += "store: cannot be opened\n",
    }
    match &found.log {
        Some(log) => tell_log(log, &mut text),
        None => text += "log: cannot be read to its end\n",
    }
    for path in &found.others {
        let _ = writeln!(text, "of no use, not read: {}", path.display());
    }
    let _ = match found.damage.len() {
        0 => writeln!(text, "verified: all of it is whole"),
        count => writeln!(text, "damaged: {count} places, see below"),
    };
    text
}

fn tell_store(store: &StoreFound, text: &mut String) {
    let compacted = match store.compacted {
        ..0 => "never".to_owned(),
        revision => revision.to_string(),
    };
    let _ = writeln!(
        text,
        "store: format 1, revision {}, compacted {compacted}, applied entry {} of term {}",
        store.revision, store.applied.index, store.applied.term
    );
    let _ = writeln!(
        text,
        "  file {} bytes, in use {}, free {}",
        store.file_bytes,
        store.in_use_bytes,
        store.file_bytes.saturating_sub(store.in_use_bytes)
    );
    for tree in &store.trees {
        let _ = writeln!(
            text,
            "  tree {:<9} {} entries in {} leaves, {} branches, {} bytes",
            tree.name, tree.entries, tree.leaves, tree.branches, tree.bytes
        );
    }
}

fn tell_log(log: &LogFound, text: &mut String) {
    let _ = writeln!(
        text,
        "log: format 1, {} segments, {} spare files, end of case {}",
        log.segments.len(),
        log.spares,
        log.end
    );
    for segment in &log.segments {
        let name = segment.path.file_name().unwrap_or_default();
        let range = match (segment.first, segment.highest) {
            (Some(first), Some(highest)) => format!("entries {first} to {highest}"),
            _ => "none of entries".to_owned(),
        };
        let _ = writeln!(
            text,
            "  {} {} bytes, {} records, {range}, {}",
            name.display(),
            segment.bytes,
            segment.records,
            key_names(&segment.keys)
        );
    }
}

fn key_name(id: u32) -> String {
    match id {
        storage::encryption::CLEAR => "no key".to_owned(),
        id => format!("key {id}"),
    }
}

fn key_names(ids: &[u32]) -> String {
    match ids {
        [] => "no key".to_owned(),
        ids => {
            let names: Vec<String> = ids.iter().map(|id| key_name(*id)).collect();
            names.join(" and ")
        }
    }
}

#[cfg(test)]
mod tests {
    use storage::mvcc::{Applied, TreeFound};
    use storage::wal::SegmentFound;

    use super::*;

    #[test]
    fn a_summary_reads_well() {
        let found = Inspection {
            keys: Some((2, vec![0, 1])),
            store: Some(StoreFound {
                revision: 51,
                compacted: -1,
                applied: Applied { index: 50, term: 3 },
                file_bytes: 81_920,
                in_use_bytes: 61_440,
                trees: vec![TreeFound {
                    name: "keys",
                    entries: 50,
                    leaves: 2,
                    branches: 1,
                    bytes: 12_288,
                }],
            }),
            log: Some(LogFound {
                segments: vec![SegmentFound {
                    path: "/x/1.wal".into(),
                    bytes: 8192,
                    records: 9,
                    first: Some(42),
                    highest: Some(50),
                    keys: vec![2],
                }],
                spares: 1,
                end: 'A',
            }),
            others: vec!["/x/pages.incoming".into()],
            damage: Vec::new(),
        };
        let expected = "\
            keys: new data under key 2; older data perhaps under no key and key 1\n\
            store: format 1, revision 51, compacted never, applied entry 50 of term 3\n\
            \x20 file 81920 bytes, in use 61440, free 20480\n\
            \x20 tree keys      50 entries in 2 leaves, 1 branches, 12288 bytes\n\
            log: format 1, 1 segments, 1 spare files, end of case A\n\
            \x20 1.wal 8192 bytes, 9 records, entries 42 to 50, key 2\n\
            of no use, not read: /x/pages.incoming\n\
            verified: all of it is whole\n";
        assert_eq!(told(&found), expected);
    }
}
