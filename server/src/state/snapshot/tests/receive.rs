use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use raft::{Body, Message};
use storage::encryption::{DataKeys, KeyFile};
use storage::mvcc::{Options, Store};
use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use super::super::{Form, Receiver, describe, rows};
use super::{DIR, sample, written};

/// Plain text of the sample that must not be in any file.
const SECRETS: [&[u8]; 3] = [b"clusterVersion", b"key29", &[19; 64]];

/// A stream from another member; inspects the disk when everything has been read.
struct Stream<'a> {
    bytes: &'a [u8],
    vfs: &'a SimVfs,
    /// Size of the largest file found then.
    largest: usize,
}

impl Read for Stream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            let disks = [self.vfs.process_killed(), self.vfs.power_cut(3)];
            for file in disks.iter().flat_map(files) {
                self.largest = self.largest.max(file.len());
                assert_clear_of_secrets(&file);
            }
        }
        self.bytes.read(buf)
    }
}

fn files(vfs: &SimVfs) -> Vec<Vec<u8>> {
    let names = vfs.list(Path::new(DIR)).unwrap();
    let paths: Vec<PathBuf> = names.iter().map(|name| Path::new(DIR).join(name)).collect();
    paths.iter().filter_map(|path| vfs.contents(path)).collect()
}

fn assert_clear_of_secrets(file: &[u8]) {
    for secret in SECRETS {
        assert!(!file.windows(secret.len()).any(|window| window == secret));
    }
}

/// A merged snapshot: the message, then the state.
fn merged(store: &Store, form: Form) -> Vec<u8> {
    let view = store.reader().view();
    let message = Message {
        from: 1,
        to: 2,
        term: 7,
        body: Body::Snapshot(describe(&view).unwrap()),
    };
    let mut encoded = Vec::new();
    raft::wire::encode_message(&message, &mut encoded);
    let mut bytes = (encoded.len() as u64).to_be_bytes().to_vec();
    bytes.append(&mut encoded);
    match form {
        Form::Database => bytes.append(&mut written(store)),
        Form::Rows => rows::write(&view, &mut bytes).unwrap(),
    }
    bytes
}

#[test]
fn what_comes_from_another_member_is_never_clear_on_the_disk_of_one_with_keys() {
    let store = sample();
    for form in [Form::Database, Form::Rows] {
        let vfs = SimVfs::new(4);
        let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
        shared.create_dir_all(Path::new(DIR)).unwrap();
        let keys = KeyFile::parse("keys", &format!("1 {}", "5a".repeat(32))).unwrap();
        let ring = Path::new("/data/member/keys");
        let data_keys = DataKeys::open(Arc::clone(&shared), ring, Some(&keys), true).unwrap();
        let receiver =
            Receiver::new(Arc::clone(&shared), DIR.into(), Options { data_keys }).unwrap();
        let bytes = merged(&store, form);
        let mut stream = Stream {
            bytes: &bytes,
            vfs: &vfs,
            largest: 0,
        };
        let received = receiver.begin().unwrap().read(form, &mut stream);
        let (_, received) = received.unwrap();
        assert_eq!(received.applied(), store.root().applied());
        if form == Form::Database {
            assert!(stream.largest > bytes.len() / 2, "it was on the disk");
        }
        let left = files(&vfs);
        assert!(!left.is_empty());
        left.iter().for_each(|file| assert_clear_of_secrets(file));
    }
    // Checks the search itself: it finds the secrets in plain text.
    let clear = written(&store);
    for secret in SECRETS {
        assert!(clear.windows(secret.len()).any(|window| window == secret));
    }
}

/// A stream in whose middle the keys change.
struct Rotating<'a> {
    bytes: &'a [u8],
    change_at: usize,
    data_keys: &'a DataKeys,
    /// One after the other.
    changes: &'a [KeyFile],
}

impl Read for Rotating<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.bytes.len() <= self.change_at {
            for keys in self.changes {
                self.data_keys.change(keys).unwrap();
            }
        }
        self.bytes.read(buf)
    }
}

/// Re-encryption looks through it once it is in use, and forgets no key before.
#[test]
fn a_state_during_whose_arrival_the_keys_have_changed_can_be_read_where_it_is_installed() {
    let store = sample();
    let lines = ["1 ", "2 "].map(|id| format!("{id}{}\n", "5a".repeat(32)));
    let keys = |lines: &[&String]| {
        let text: String = lines.iter().map(|line| line.as_str()).collect();
        KeyFile::parse("keys", &text).unwrap()
    };
    let [one, two] = &lines;
    let first = keys(&[one]);
    // To the second key, and perhaps back again.
    let changes = [keys(&[two, one]), keys(&[one, two])];
    let ways = [(Form::Database, 1), (Form::Rows, 1), (Form::Rows, 2)];
    for (form, count) in ways {
        let vfs = SimVfs::new(4);
        let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
        shared.create_dir_all(Path::new(DIR)).unwrap();
        let ring = Path::new("/data/member/keys");
        let data_keys = DataKeys::open(Arc::clone(&shared), ring, Some(&first), true).unwrap();
        let options = Options {
            data_keys: data_keys.clone(),
        };
        let mut installed =
            Store::open(Arc::clone(&shared), Path::new(DIR), options.clone()).unwrap();
        let receiver = Receiver::new(Arc::clone(&shared), DIR.into(), options).unwrap();
        let bytes = merged(&store, form);
        let mut stream = Rotating {
            bytes: &bytes,
            change_at: bytes.len() / 2,
            data_keys: &data_keys.unwrap(),
            changes: &changes[..count],
        };
        let received = receiver.begin().unwrap().read(form, &mut stream);
        let (_, received) = received.unwrap_or_else(|error| panic!("{form:?}, {count}: {error}"));
        received.replace(&mut installed).unwrap();
        installed.check().unwrap();
        assert_eq!(installed.root().applied(), store.root().applied());
        assert!(installed.needs_reencryption(), "{form:?}, {count}");
    }
}
