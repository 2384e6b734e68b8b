//! Reading one state of the store: by key, by range, by revision.

use std::ops::ControlFlow;

use super::{Applied, Bucket, Change, Item, KeyRange, Want};
use crate::Result;

/// One state of the store. Wherever a revision is asked for as `at`, zero means the newest of
/// this root. Callers refuse revisions above [`Root::revision`] and below [`Root::compacted`].
#[derive(Clone, Debug)]
pub struct Root {}

impl Root {
    /// The newest main revision; 1 when nothing was ever written.
    pub fn revision(&self) -> i64 {
        unimplemented!()
    }

    /// The revision of the newest compaction, -1 when there was none.
    pub fn compacted(&self) -> i64 {
        unimplemented!()
    }

    pub fn applied(&self) -> Applied {
        unimplemented!()
    }

    /// The version of `key` that was live at `at`.
    pub fn get<R>(
        &self,
        _key: &[u8],
        _at: i64,
        _f: impl FnOnce(Item<'_>) -> R,
    ) -> Result<Option<R>> {
        unimplemented!()
    }

    /// All versions live at `at`, in key order, until `f` breaks off.
    pub fn range(
        &self,
        _range: KeyRange<'_>,
        _at: i64,
        _want: Want,
        _f: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        unimplemented!()
    }

    /// Number of keys live at `at`: two descents at the newest revision; at an older one the
    /// smaller of a walk over the range and a walk over the history since.
    pub fn count(&self, _range: KeyRange<'_>, _at: i64) -> Result<u64> {
        unimplemented!()
    }

    /// The changes of the main revisions `from..=through` in order, until `f` breaks off. `from`
    /// is not below the compacted revision.
    pub fn changes(
        &self,
        _from: i64,
        _through: i64,
        _f: &mut dyn FnMut(Change<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        unimplemented!()
    }

    /// The newest version of `key` older than main revision `before`; `None` when there is none,
    /// it is a deletion, or a compaction has dropped it.
    pub fn previous<R>(
        &self,
        _key: &[u8],
        _before: i64,
        _f: impl FnOnce(Item<'_>) -> R,
    ) -> Result<Option<R>> {
        unimplemented!()
    }

    /// The rows etcd's HashKV hashes for `revision`, in order.
    pub fn hash_rows(&self, _revision: i64, _f: &mut dyn FnMut(Change<'_>)) -> Result<()> {
        unimplemented!()
    }

    pub fn side_get(&self, _bucket: Bucket, _key: &[u8]) -> Result<Option<Vec<u8>>> {
        unimplemented!()
    }

    /// The bucket's rows whose key begins with `prefix`, in key order, keys whole.
    pub fn side_scan(
        &self,
        _bucket: Bucket,
        _prefix: &[u8],
        _f: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        unimplemented!()
    }
}
