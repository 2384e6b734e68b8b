//! One watch of a client, through all its streams.

use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::{self, KeyValue};
use pb::watch_create_request::FilterType;
use testkit::Rng;

use crate::check::Verdict;
use crate::check::watches::WatchRecord;
use crate::model::{self, Model};

const PUT: i32 = 0;

/// Start and end, the end exclusive.
const RANGES: [(&[u8], &[u8]); 7] = [
    (b"\0", b"\xff"),
    (b"k/", b"k0"),
    (b"k/1/0", b"k/1/0\0"),
    (b"l/", b"l0"),
    (b"x/", b"x0"),
    (b"x/3", b"x/3\0"),
    (b"x/2", b"x/6"),
];

pub(super) struct Watch {
    pub record: WatchRecord,
    /// On the present stream; 0: it is not asked for there.
    pub id: i64,
    /// The member says that it is there.
    pub is_announced: bool,
    /// When the member last said that it begins, or that it has ended.
    pub changed_at: u64,
    /// The client asked for its end.
    pub is_canceled: bool,
    /// The last time that it was asked for, its client was not allowed to watch.
    pub may_not_begin: bool,
    prev_kv: bool,
    fragment: bool,
    progress_notify: bool,
}

impl Watch {
    pub(super) fn new(name: &str, rng: &mut Rng) -> Watch {
        let (start, end) = *rng.pick(&RANGES);
        let mut record = WatchRecord::new(name.to_owned(), start, end, 1);
        record.no_puts = rng.chance(150);
        record.no_deletes = rng.chance(150);
        Watch {
            record,
            id: 0,
            is_announced: false,
            changed_at: 0,
            is_canceled: false,
            may_not_begin: false,
            prev_kv: rng.chance(400),
            fragment: rng.chance(700),
            progress_notify: rng.chance(700),
        }
    }

    pub(super) fn request(&self) -> pb::WatchCreateRequest {
        let puts = self.record.no_puts.then_some(FilterType::Noput as i32);
        let deletes = self
            .record
            .no_deletes
            .then_some(FilterType::Nodelete as i32);
        pb::WatchCreateRequest {
            key: self.record.start.clone().into(),
            range_end: self.record.end.clone().into(),
            start_revision: self.record.seen + 1,
            progress_notify: self.progress_notify,
            filters: puts.into_iter().chain(deletes).collect(),
            prev_kv: self.prev_kv,
            watch_id: self.id,
            fragment: self.fragment,
        }
    }

    /// The stream is gone.
    pub(super) fn is_cut_off(&mut self) {
        self.record.is_cut_off();
        self.id = 0;
        self.is_announced = false;
        self.is_canceled = false;
    }

    /// Its client may not watch these keys now. It asks again later.
    pub(super) fn is_refused(&mut self) {
        self.is_cut_off();
        self.may_not_begin = true;
    }

    /// The member canceled it: its client asked for that, or what it wants next is `compacted`.
    pub(super) fn ends(&mut self, compacted: i64) -> Verdict {
        let name = &self.record.name;
        if compacted == 0 && !self.is_canceled {
            return Err(format!("{name} is canceled, and nobody asked for that"));
        }
        if compacted != 0 && compacted <= self.record.seen {
            let seen = self.record.seen;
            return Err(format!(
                "{name} has heard of {seen}, and is told that {compacted} is compacted"
            ));
        }
        self.is_cut_off();
        if compacted != 0 {
            self.record.skips_to(compacted - 1);
        }
        Ok(())
    }

    /// Wants everything after `seen`, whatever it has heard of.
    pub(super) fn begins_anew(&mut self, seen: i64) {
        self.record.is_cut_off();
        self.record.seen = seen;
    }

    /// Some events, from a member at `revision`. What they are, for the trace.
    pub(super) fn hears(
        &mut self,
        model: &Model,
        revision: i64,
        response: pb::WatchResponse,
        loses_prev_kv: bool,
    ) -> Result<String, String> {
        let name = &self.record.name;
        if !self.is_announced {
            return Err(format!("{name} hears of events before it is there"));
        }
        if response.fragment && !self.fragment {
            return Err(format!("{name} gets a piece, and wants whole responses"));
        }
        let mut told = Vec::new();
        for mut event in response.events {
            if loses_prev_kv {
                event.prev_kv = None;
            }
            self.judge_previous(model, &event)?;
            told.extend(self::event(&event));
        }
        let (first, last) = (told.first().map(|e| e.0), told.last().map(|e| e.0));
        let text = format!(" {} events {first:?} to {last:?}", told.len());
        if last > Some(revision) {
            return Err(format!("{name} hears at {revision} of{text}"));
        }
        self.record.hears(model, told, response.fragment)?;
        Ok(text)
    }

    /// What the key was before comes with the event, unless that is compacted.
    fn judge_previous(&self, model: &Model, event: &mvccpb::Event) -> Verdict {
        let Some(kv) = &event.kv else {
            return Err(format!("{} hears of {event:?}", self.record.name));
        };
        let before = kv.mod_revision - 1;
        let creates = event.r#type == PUT && kv.create_revision == kv.mod_revision;
        let wanted = self.prev_kv && !creates;
        let expected: Option<&KeyValue> = model.get(&kv.key, before).filter(|_| wanted);
        let shown = event.prev_kv.as_ref();
        let may_be_compacted = shown.is_none() && before < model.newest().compacted;
        if shown == expected || may_be_compacted {
            return Ok(());
        }
        Err(format!(
            "{} hears that {:?} was {shown:?} before {}, which was {expected:?}",
            self.record.name, kv.key, kv.mod_revision
        ))
    }
}

fn event(event: &mvccpb::Event) -> Option<(i64, model::Event)> {
    let kv = event.kv.as_ref()?;
    let told = model::Event {
        key: kv.key.to_vec(),
        value: (event.r#type == PUT).then(|| kv.value.to_vec()),
        create_revision: kv.create_revision,
        version: kv.version,
        lease: kv.lease,
    };
    Some((kv.mod_revision, told))
}
