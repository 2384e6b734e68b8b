//! `migrate`: exists for scripts that call it before they start another version of etcd. Stele's
//! files have one format for all versions that a cluster may use, so there is nothing to rewrite.

use std::path::Path;

use storage::vfs::Vfs;
use storage::vfs::os::OsVfs;

use crate::Failure;

type Version = (u32, u32);

const OLDEST: Version = (3, 5);
const NEWEST: Version = (3, 7);

/// Returns a text for the user. Fails where etcdutl would, and on directories of etcd, which only
/// etcd may rewrite.
pub(crate) fn migrate(data_dir: &str, target: &str) -> Result<String, Failure> {
    let missing: Vec<&str> = [("data-dir", data_dir), ("target-version", target)]
        .into_iter()
        .filter_map(|(name, value)| value.is_empty().then_some(name))
        .collect();
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|name| format!("{name:?}")).collect();
        return Err(Failure::error(format!(
            "required flag(s) {} not set",
            names.join(", ")
        )));
    }
    let (major, minor) = parse(target).ok_or_else(|| {
        Failure::bad_args(format!(
            "wrong target version format, expected \"X.Y\", got {target:?}"
        ))
    })?;
    if (major, minor) < OLDEST {
        return Err(Failure::bad_args(format!(
            "target version \"{major}.{minor}\" not supported. Minimal \"3.5\""
        )));
    }
    let member = Path::new(data_dir).join("member");
    let exists = |path: &Path| OsVfs.exists(path).unwrap_or(false);
    if !exists(&member.join("store").join("pages")) {
        let db = member.join("snap").join("db");
        return Err(Failure::error(if exists(&db) {
            format!("{data_dir} belongs to etcd: use etcd's own etcdutl")
        } else {
            format!("stat {}: no such file or directory", db.display())
        }));
    }
    if (major, minor) > NEWEST {
        return Err(Failure::error(format!(
            "cannot create migration plan: version \"{major}.{minor}.0\" is not supported"
        )));
    }
    Ok(format!(
        "nothing to migrate: the files of Stele are the same for version {major}.{minor}"
    ))
}

fn parse(text: &str) -> Option<Version> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
