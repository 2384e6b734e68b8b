//! Opening a page file: which of the two metas to take.
//!
//! | newer meta | older meta | outcome |
//! |---|---|---|
//! | checksum, length, roots and free list good | any | the newer one |
//! | anything of it damaged | good | the older one, and the reason is reported |
//! | never written (new file) | good | the older one |
//! | anything damaged | damaged | refused, both reasons named |
//! | something damaged that both refer to | the same | refused, the place named |
//!
//! An existing file was complete once: it is created under another name and renamed. So a half-made
//! file cannot occur.
//!
//! The chosen meta may be in memory only, and marked clean, so that no sync writes it: Linux leaves
//! it so if the sync of its checkpoint failed. The next checkpoint would then overwrite the only
//! meta that the disk has. So the first checkpoint after opening writes the chosen meta again
//! before anything else. Everything it refers to is on the disk: that was synced before any byte of
//! the meta was written, wherever the meta is read from. Until then nothing is written where the
//! meta before it refers to.

use std::path::Path;
use std::sync::Arc;

use super::{Opened, PageFile};
use crate::atomic_file;
use crate::btree::checkpoint::Retired;
use crate::btree::edit::Writer;
use crate::btree::kind::TreeKind;
use crate::btree::meta::Meta;
use crate::btree::node::page::{PageRef, UNIT};
use crate::btree::pages::{FIRST_UNIT, Pages, Shared};
use crate::btree::space::Space;
use crate::btree::space::reservation::Reservation;
use crate::btree::space::saved::Flaw;
use crate::btree::space::saved::changes::places_before;
use crate::btree::tree::Tree;
use crate::encryption::{CLEAR, DataKeys};
use crate::vfs::{File, Open, Vfs};
use crate::{Error, Result};

pub(crate) const META_SLOTS: usize = 2;
const _: () = assert!(META_SLOTS as u64 == FIRST_UNIT);

pub(crate) fn open(
    vfs: &dyn Vfs,
    path: &Path,
    kinds: &[TreeKind],
    data_keys: Option<Arc<DataKeys>>,
) -> Result<(PageFile, Opened)> {
    if !vfs.exists(path).map_err(Error::io("look for", path))? {
        create(vfs, path, kinds)?;
    }
    let file = vfs
        .open(path, Open::Existing)
        .map_err(Error::io("open", path))?;
    let len = file.len().map_err(Error::io("read the length of", path))?;
    if len < (META_SLOTS * UNIT) as u64 {
        return Err(Error::corrupt(path, len, "file ends within its meta pages"));
    }
    let mut metas = Vec::new();
    let mut flaws = Vec::new();
    for slot in 0..META_SLOTS {
        let bytes = read_slot(&*file, path, slot)?;
        match decode(&bytes, slot) {
            Ok(meta) => metas.push((meta, bytes)),
            Err(flaw) => flaws.push((slot, flaw)),
        }
    }
    let mut damaged_at = None;
    metas.sort_by_key(|(meta, _)| std::cmp::Reverse(meta.generation));
    for (i, (meta, bytes)) in metas.iter().enumerate() {
        match load(&file, path, len, kinds, meta, data_keys.clone()) {
            Ok(loaded) => {
                let (older, _) = metas.get(i + 1).unwrap_or(&metas[i]);
                let older = older.user.clone();
                let (mut page_file, opened) =
                    assemble(file, meta.clone(), older, kinds, loaded, &flaws);
                page_file.unproven = Some(bytes.clone());
                return Ok((page_file, opened));
            }
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => {
                let at = match &error {
                    Error::Corrupt { offset, .. } => Some(*offset),
                    _ => None,
                };
                if at.is_some() && damaged_at == at {
                    return Err(error);
                }
                damaged_at = at;
                flaws.push((meta.generation as usize % META_SLOTS, error.to_string()));
            }
        }
    }
    flaws.sort();
    let flaws: Vec<String> = flaws
        .iter()
        .map(|(slot, flaw)| format!("slot {slot}: {flaw}"))
        .collect();
    let what = format!("no meta page can be used ({})", flaws.join("; "));
    Err(Error::corrupt(path, 0, what))
}

fn create(vfs: &dyn Vfs, path: &Path, kinds: &[TreeKind]) -> Result<()> {
    assert!(
        kinds.len() <= crate::btree::TREES_MAX && kinds.iter().all(|k| k.leaf_bytes % UNIT == 0)
    );
    let meta = Meta {
        generation: 0,
        units: FIRST_UNIT,
        free_list: None,
        key: CLEAR,
        roots: Vec::new(),
        user: Vec::new(),
    };
    let mut bytes = meta.encode();
    bytes.resize(META_SLOTS * UNIT, 0);
    atomic_file::write(vfs, path, &bytes)
}

fn read_slot(file: &dyn File, path: &Path, slot: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; UNIT];
    file.read_at(&mut bytes, (slot * UNIT) as u64)
        .map_err(Error::io("read", path))?;
    Ok(bytes)
}

fn decode(bytes: &[u8], slot: usize) -> std::result::Result<Meta, String> {
    let meta = Meta::decode(bytes)?;
    if Meta::offset(meta.generation) == (slot * UNIT) as u64 {
        return Ok(meta);
    }
    Err("meta page of the other slot".to_owned())
}

struct Loaded {
    shared: Arc<Shared>,
    space: Space,
    trees: Vec<Tree>,
}

/// The data that a meta refers to; its root pages and free lists are verified.
fn load(
    file: &Arc<dyn File>,
    path: &Path,
    len: u64,
    kinds: &[TreeKind],
    meta: &Meta,
    data_keys: Option<Arc<DataKeys>>,
) -> Result<Loaded> {
    if meta.key != CLEAR && data_keys.is_none() {
        let what = format!("sealed under key {}, and no key at hand", meta.key);
        return Err(Error::corrupt(path, Meta::offset(meta.generation), what));
    }
    if meta.units * UNIT as u64 > len {
        let what = format!(
            "file ends before unit {}, which it says is its length",
            meta.units
        );
        return Err(Error::corrupt(path, len, what));
    }
    let shared = Arc::new(Shared::new(path, file.clone(), meta.units, data_keys)?);
    let space = match meta.free_list {
        None => Space::new(),
        Some(newest) => load_space(&shared, newest, meta)?,
    };
    if let Some(root) = meta
        .roots
        .iter()
        .find(|r| kinds.iter().all(|k| k.id != r.tree))
    {
        let what = format!("holds a tree {} that this version does not know", root.tree);
        return Err(Error::corrupt(path, Meta::offset(meta.generation), what));
    }
    let pages = Pages::new(shared.clone());
    let mut trees = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let root = meta.roots.iter().find(|root| root.tree == kind.id);
        let tree = root.map_or(Tree::empty(*kind), |root| root.tree(*kind));
        tree.view(&pages)?;
        trees.push(tree);
    }
    Ok(Loaded {
        shared,
        space,
        trees,
    })
}

/// What is free in the checkpoint of this meta.
fn load_space(shared: &Shared, newest: PageRef, meta: &Meta) -> Result<Space> {
    let corrupt = |(place, (offset, what)): (PageRef, Flaw)| {
        let offset = place.id * UNIT as u64 + offset as u64;
        Error::corrupt(shared.path(), offset, what)
    };
    // A long one would make the start wait for the disk at each of its units.
    if newest.units > 1 {
        shared.read_ahead(&[newest])?;
    }
    let bytes = shared.read_checked(newest)?;
    let places = places_before(&bytes).map_err(|flaw| corrupt((newest, flaw)))?;
    shared.read_ahead(&places)?;
    let mut records = Vec::with_capacity(places.len() + 1);
    for place in places {
        records.push((place, shared.read_checked(place)?));
    }
    records.push((newest, bytes));
    Space::load(&records, meta.units, meta.generation).map_err(corrupt)
}

fn assemble(
    file: Arc<dyn File>,
    meta: Meta,
    older_user: Vec<u8>,
    kinds: &[TreeKind],
    loaded: Loaded,
    flaws: &[(usize, String)],
) -> (PageFile, Opened) {
    let pages = Arc::new(Pages::new(loaded.shared.clone()));
    // In a file that never finished a checkpoint the other slot is empty, which is no problem.
    let fresh = meta.generation == 0;
    let mut reasons = flaws
        .iter()
        .map(|(slot, flaw)| format!("meta page {slot}: {flaw}"));
    let opened = Opened {
        trees: loaded.trees,
        user_meta: meta.user.clone(),
        unusable_meta: if fresh { None } else { reasons.next() },
    };
    let file = PageFile {
        file,
        shared: loaded.shared,
        generations: vec![(meta.generation, pages.watch())],
        writer: Writer {
            pages,
            counter: meta.generation,
            running: false,
            freed: Vec::new(),
            freed_units: 0,
            replaced: Vec::new(),
            dirty_bytes: 0,
        },
        space: Some(loaded.space),
        meta,
        unproven: None,
        older_user,
        used_before: 0,
        viewed_before: 0,
        spilled_to: Vec::new(),
        spilled_unsynced: 0,
        release_from: kinds.iter().map(|kind| (kind.id, None)).collect(),
        retired: None::<Retired>,
        saving_bytes: 0,
        saved_bytes: 0,
        wipe: None,
        reservation: Reservation::default(),
    };
    (file, opened)
}
