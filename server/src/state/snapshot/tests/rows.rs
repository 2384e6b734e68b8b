use std::io;
use std::path::Path;
use std::sync::Arc;

use storage::mvcc::{Bucket, Incoming};
use storage::vfs::sim::SimVfs;

use super::super::rows::{LoadError, load, write};
use super::{DIR, sample, side, written};
use crate::state::hashes::Hashes;

fn stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&sample().reader().view(), &mut bytes).unwrap();
    bytes
}

fn loaded(mut bytes: &[u8]) -> Result<Incoming, LoadError> {
    load(
        Arc::new(SimVfs::new(2)),
        Path::new(DIR),
        Default::default(),
        &mut bytes,
    )
}

#[test]
fn what_is_streamed_is_loaded_with_the_same_hash_at_every_revision() {
    let store = sample();
    let mut other = loaded(&stream()).unwrap().install().unwrap();
    other.publish();
    let (one, two) = (store.root(), other.root());
    assert_eq!(one.revision(), two.revision());
    assert_eq!(one.compacted(), two.compacted());
    assert_eq!(one.applied(), two.applied());
    let hashes = Hashes::default();
    for revision in one.compacted()..=one.revision() {
        assert_eq!(hashes.at(one, revision), hashes.at(two, revision));
    }
    for bucket in [Bucket::Lease, Bucket::LeaseKeys, Bucket::Alarm] {
        assert_eq!(side(one, bucket), side(two, bucket), "{bucket:?}");
    }
    assert_eq!(written(&other), written(&store));
    other.check().unwrap();
}

#[test]
fn a_stream_cut_anywhere_is_refused() {
    let bytes = stream();
    for end in (0..bytes.len()).step_by(997) {
        let error = loaded(&bytes[..end]).unwrap_err();
        let eof = matches!(&error, LoadError::Input(e) if e.kind() == io::ErrorKind::UnexpectedEof);
        assert!(eof, "{end}: {error}");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(matches!(loaded(&longer), Err(LoadError::Damaged(_))));
}

#[test]
fn a_stream_with_any_bit_wrong_is_refused() {
    let mut bytes = stream();
    for at in (0..bytes.len()).step_by(1009).chain(0..16) {
        bytes[at] ^= 1 << (at % 8);
        assert!(loaded(&bytes).is_err(), "byte {at}");
        bytes[at] ^= 1 << (at % 8);
    }
    assert!(loaded(&bytes).is_ok());
}
