//! Data directories that a server cannot use, and damage to its files. No damage may be ignored
//! silently: the server names the problem and stops, or answers correctly. All data is there again
//! once the damage is undone.
#![expect(
    clippy::disallowed_methods,
    reason = "a test around real processes damages their files"
)]

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use tempfile::TempDir;
use testkit::{Launch, Server, StartError, Tools};

use crate::harness::rng::Rng;
use crate::harness::subject;

/// Most of the page file.
const LARGE_VALUES: usize = 320;
const LARGE_BYTES: usize = 128 << 10;
const SMALL_VALUES: usize = 600;
/// Places in the page file damaged one after the other, beside its two metas.
const DAMAGES: usize = 8;
const METAS: usize = 2;
const PAGE_BYTES: usize = 4096;

#[test]
fn an_unknown_flag_is_named_and_ends_the_start_with_2() {
    let error = refused(&subject::launch().flag("--no-such-flag=1"));
    assert_eq!(code(&error), Some(2), "{error}");
    let text = "flag provided but not defined: -no-such-flag";
    assert!(error.log.contains(text), "{error}");
}

#[test]
fn a_data_dir_that_cannot_be_written_is_named() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    let dir = file.join("data");
    let error = refused(&subject::launch().data_dir(&dir));
    assert!(!subject::is_etcd() || code(&error).is_some());
    if !subject::is_etcd() {
        assert_eq!(code(&error), Some(1), "{error}");
        assert!(error.log.contains(dir.to_str().unwrap()), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "not a directory");
}

#[tokio::test]
async fn a_data_dir_in_use_is_refused_and_its_server_lives_on() {
    if subject::is_etcd() {
        return; // It waits for the other to end.
    }
    let server = started(&subject::launch());
    let error = refused(&subject::launch().data_dir(server.data_dir()));
    assert_eq!(code(&error), Some(1), "{error}");
    assert!(
        error.log.contains(server.data_dir().to_str().unwrap()),
        "{error}"
    );
    assert!(error.log.contains("another"), "{error}");
    let client = Client::connect(server.url()).await.unwrap();
    put(&client, "alive", Bytes::from_static(b"yes")).await;
}

#[tokio::test]
async fn a_data_dir_of_etcd_is_recognized_and_left_as_it_is() {
    let Some(tools) = Tools::or_skip("a data directory of real etcd") else {
        return;
    };
    if subject::is_etcd() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("data");
    let etcd = Launch::etcd(&tools).data_dir(&dir);
    let mut server = started(&etcd);
    put(
        &Client::connect(server.url()).await.unwrap(),
        "mine",
        Bytes::from_static(b"yes"),
    )
    .await;
    server.terminate();
    let before = listing(&dir);
    let error = refused(&subject::launch().data_dir(&dir));
    assert_eq!(code(&error), Some(1), "{error}");
    assert!(error.log.contains(dir.to_str().unwrap()), "{error}");
    assert!(
        error.log.contains("belongs to etcd") && error.log.contains("stele utl import"),
        "{error}"
    );
    assert_eq!(listing(&dir), before);
    let server = started(&etcd);
    let client = Client::connect(server.url()).await.unwrap();
    assert_eq!(
        get(&client, "mine").await.unwrap(),
        Some(Bytes::from_static(b"yes"))
    );
}

#[tokio::test]
async fn damage_in_the_middle_of_the_log_is_refused_and_nothing_is_lost() {
    if subject::is_etcd() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let launch = subject::launch().data_dir(place.path());
    let mut server = started(&launch);
    let client = Client::connect(server.url()).await.unwrap();
    for number in 0..SMALL_VALUES {
        put(&client, &small(number), value(number, 100)).await;
    }
    // Killed: a server that stops in order may have no more need of the log's middle.
    server.kill();
    let segment = files(&place.path().join("member").join("log"))
        .into_iter()
        .max_by_key(|path| used(&fs::read(path).unwrap()))
        .unwrap();
    let middle = used(&fs::read(&segment).unwrap()) / 2;
    let damage = Damage::at(&segment, middle);
    let error = refused(&launch);
    assert_eq!(code(&error), Some(1), "{error}");
    assert!(error.log.contains(segment.to_str().unwrap()), "{error}");
    assert!(error.log.contains("is damaged at byte"), "{error}");
    damage.undo();
    let server = started(&launch);
    let client = Client::connect(server.url()).await.unwrap();
    for number in 0..SMALL_VALUES {
        assert_eq!(
            get(&client, &small(number)).await.unwrap(),
            Some(value(number, 100))
        );
    }
}

#[tokio::test]
async fn a_damaged_page_is_named_and_never_read_as_data() {
    if subject::is_etcd() {
        return;
    }
    let place = checkpointed().await;
    let launch = subject::launch().data_dir(place.path());
    let pages = place.path().join("member").join("store").join("pages");
    let mut rng = Rng::new(subject::number("STELE_DAMAGE_SEED", 1));
    let mut found = 0;
    for number in 0..METAS + DAMAGES {
        let bytes = fs::read(&pages).unwrap();
        let offset = loop {
            // Each meta page in turn, then anywhere that something was written.
            let (first, length) = match number {
                0..METAS => (number * PAGE_BYTES, PAGE_BYTES),
                _ => (METAS * PAGE_BYTES, bytes.len() - METAS * PAGE_BYTES),
            };
            let offset = first + rng.below(length);
            if bytes[offset] != 0 {
                break offset;
            }
        };
        let damage = Damage::at(&pages, offset);
        found += usize::from(!serves_only_what_was_written(&launch, &pages, offset).await);
        damage.undo();
    }
    assert!(found > 0, "no damage of {DAMAGES} was ever noticed");
    assert!(
        serves_only_what_was_written(&launch, &pages, 0).await,
        "the damage was undone"
    );
}

/// Starts on the damaged file and reads everything. True: all of it was right. False: the damage
/// was named, by a start refused or by an error; anything else fails the test.
async fn serves_only_what_was_written(launch: &Launch, pages: &Path, offset: usize) -> bool {
    let named = |text: &str| text.contains(pages.to_str().unwrap()) && text.contains("damaged");
    let mut server = match launch.start() {
        Ok(server) => server,
        Err(error) => {
            assert!(named(&error.log), "damage at {offset}: {error}");
            return false;
        }
    };
    let client = Client::connect(server.url()).await.unwrap();
    let mut right = true;
    for number in 0..LARGE_VALUES + SMALL_VALUES {
        let (key, length) = match number.checked_sub(LARGE_VALUES) {
            None => (large(number), LARGE_BYTES),
            Some(number) => (small(number), 100),
        };
        match get(&client, &key).await {
            Ok(found) => assert_eq!(
                found,
                Some(value(number, length)),
                "damage at {offset}: {key}"
            ),
            Err(status) => {
                right = false;
                let log = server.log();
                // To whoever asked, or in the log of a server that ended.
                let told = named(status.message()) || named(&log);
                assert!(told, "damage at {offset}: {key}: {status}\n{log}");
                if !server.is_alive() {
                    break;
                }
            }
        }
    }
    right
}

/// A data directory with most of its data in the page file.
async fn checkpointed() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let mut server = started(&subject::launch().data_dir(place.path()));
    let client = Client::connect(server.url()).await.unwrap();
    for number in 0..SMALL_VALUES {
        put(&client, &small(number), value(LARGE_VALUES + number, 100)).await;
    }
    for number in 0..LARGE_VALUES {
        put(&client, &large(number), value(number, LARGE_BYTES)).await;
    }
    let pages = place.path().join("member").join("store").join("pages");
    // A server that ends in order writes a last checkpoint.
    server.terminate();
    let length = fs::metadata(&pages).unwrap().len();
    assert!(length > (LARGE_VALUES * LARGE_BYTES / 2) as u64, "{length}");
    place
}

/// One byte turned over.
struct Damage {
    path: PathBuf,
    offset: usize,
}

impl Damage {
    fn at(path: &Path, offset: usize) -> Damage {
        let damage = Damage {
            path: path.to_path_buf(),
            offset,
        };
        damage.flip();
        damage
    }

    fn undo(self) {
        self.flip();
    }

    fn flip(&self) {
        let mut bytes = fs::read(&self.path).unwrap();
        bytes[self.offset] ^= 0x10;
        fs::write(&self.path, bytes).unwrap();
    }
}

fn small(number: usize) -> String {
    format!("small/{number:05}")
}

fn large(number: usize) -> String {
    format!("large/{number:05}")
}

/// Like no other value, all through.
fn value(number: usize, length: usize) -> Bytes {
    let mut rng = Rng::new(number as u64);
    let words = std::iter::repeat_with(|| rng.next().to_be_bytes());
    words.flatten().take(length).collect()
}

/// Length without the zeros at the end.
fn used(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).collect()
}

/// Every path below a directory, sorted.
fn listing(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

fn started(launch: &Launch) -> Server {
    launch.start().unwrap_or_else(|error| panic!("{error}"))
}

fn refused(launch: &Launch) -> StartError {
    launch.start().err().expect("the server must not start")
}

fn code(error: &StartError) -> Option<i32> {
    error.status.and_then(|status| status.code())
}

async fn put(client: &Client, key: &str, value: Bytes) {
    let put = pb::PutRequest {
        key: key.to_owned().into(),
        value,
        ..Default::default()
    };
    client.kv().put(put).await.unwrap();
}

async fn get(client: &Client, key: &str) -> Result<Option<Bytes>, tonic::Status> {
    let range = pb::RangeRequest {
        key: key.to_owned().into(),
        ..Default::default()
    };
    let mut answer = client.kv().range(range).await?.into_inner();
    Ok(answer.kvs.pop().map(|kv| kv.value))
}
