//! Data directories made while no server runs on them: what `stele utl` asks of the server.

use utl::{Engine, Import, Restore};

/// Works on the real file system.
pub struct Offline;

impl Engine for Offline {
    fn restore(&self, _plan: &Restore) -> Result<(), String> {
        Err("restoring is not supported by Stele yet".into())
    }

    fn import(&self, _plan: &Import) -> Result<String, String> {
        Err("importing is not supported by Stele yet".into())
    }
}
