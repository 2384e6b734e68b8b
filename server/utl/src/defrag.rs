//! `defrag`: exists for scripts that call it. Stele gives free pages back while it runs.

use std::path::Path;

use storage::vfs::Vfs;
use storage::vfs::os::OsVfs;

use crate::Failure;

/// Returns a text for the user, with the words that scripts wait for. Fails where etcdutl would, and
/// on directories of etcd, which only etcd may rewrite.
pub(crate) fn defrag(data_dir: &Path) -> Result<String, Failure> {
    let shown = data_dir.display();
    let member = data_dir.join("member");
    let exists = |path: &Path| OsVfs.exists(path).unwrap_or(false);
    if exists(&member.join("store").join("pages")) {
        return Ok(format!(
            "finished defragmenting directory {shown}: Stele gives free pages back while it runs, there was nothing to do"
        ));
    }
    let db = member.join("snap").join("db");
    let reason = if exists(&db) {
        "it belongs to etcd: use etcd's own etcdutl".to_owned()
    } else {
        format!("stat {}: no such file or directory", db.display())
    };
    Err(Failure::error(format!(
        "Failed to defragment etcd data[{shown}] ({reason})"
    )))
}
