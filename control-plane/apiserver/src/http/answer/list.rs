//! Lists: from the cache if it is new enough, from the store for one exact revision.

use std::sync::Arc;

use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use base64::{DecodeError, Engine, alphabet};
use machinery::status::{Cause, Status};
use serde::{Deserialize, Serialize};

use crate::basics::unsigned;
use crate::http::answer::shown::{ListMeta, Shown};
use crate::http::question::request::{Query, Selectors};
use crate::resources::catalogue::{Resource, Storage};
use crate::storage::reader::Reader;
use crate::storage::store;
use crate::storage::stored::Stored;
use crate::storage::views;

/// Keys per request to the store if the client sets no limit, or if a selector hides many.
const PAGE_KEYS: i64 = 2000;
/// The revision in a token that lets the list continue at the newest revision.
const INCONSISTENT: i64 = -1;

/// Decodes tokens as Go does, which ignores trailing bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// The parameters of a list.
pub(crate) struct Listing {
    pub(crate) namespace: String,
    pub(crate) selectors: Selectors,
    by_stored_labels: bool,
    limit: usize,
    from: From,
}

/// The revision to list.
enum From {
    /// The newest.
    Newest,
    /// This one or any later one; 0 for any.
    AtLeast(i64),
    /// Exactly this one.
    Exactly(i64),
    /// The rest of an earlier list, from a key on.
    Continued { revision: i64, start: String },
}

/// The position where a list continues; opaque to clients.
#[derive(Serialize, Deserialize)]
struct Token {
    #[serde(rename = "v", default)]
    version: String,
    #[serde(rename = "rv", default)]
    revision: i64,
    #[serde(default)]
    start: String,
}

impl Listing {
    /// Parses and checks the parameters.
    pub(crate) fn read(
        resource: &Resource,
        namespace: &str,
        query: &Query,
    ) -> Result<Listing, Status> {
        check(query)?;
        let limit = query.integer("limit")?.unwrap_or(0);
        query.integer("timeoutSeconds")?;
        let selectors = query.selectors(resource)?;
        let version = version(query.text("resourceVersion")).map_err(|error| {
            Status::bad_request(format!("invalid resource version: {}", error.message))
        })?;
        let exact = query.text("resourceVersionMatch") == "Exact";
        let at_least = query.text("resourceVersionMatch") == "NotOlderThan";
        let from = match (query.text("continue"), version) {
            ("", None) => From::Newest,
            ("", Some(version)) if exact => From::Exactly(version),
            ("", Some(version)) if version > 0 && limit > 0 && !at_least => From::Exactly(version),
            ("", Some(version)) => From::AtLeast(version),
            (token, Some(1..)) => {
                read_token(token, &folder(resource, namespace)?)?;
                let text = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(text));
            }
            (token, _) => {
                let folder = folder(resource, namespace)?;
                let (revision, start) = read_token(token, &folder)?;
                From::Continued { revision, start }
            }
        };
        let limit = match from {
            From::AtLeast(0) => 0,
            _ => usize::try_from(limit).unwrap_or(0),
        };
        Ok(Listing {
            namespace: namespace.to_owned(),
            selectors,
            by_stored_labels: false,
            limit,
            from,
        })
    }

    /// The oldest revision whose state may be listed; `None` if only one state will do.
    pub(crate) fn at_least(&self) -> Option<i64> {
        match self.from {
            From::AtLeast(version) => Some(version),
            _ => None,
        }
    }

    /// Selects objects that are converted by the labels that they are stored with, if
    /// only their metadata is shown.
    pub(crate) fn shown_as(mut self, shown: &Shown) -> Listing {
        self.by_stored_labels = !shown.needs_version();
        self
    }

    /// Returns the objects and the metadata of the list. Objects that are converted may be as they
    /// are stored.
    pub(crate) async fn run(
        &self,
        reader: &Reader,
        resource: &Resource,
    ) -> Result<(Vec<Arc<Stored>>, ListMeta), Status> {
        let storage = resource.stored()?;
        let folder = storage.folder(&self.namespace);
        match &self.from {
            From::Newest => {
                let revision = reader.reflector.fresh().await?;
                self.cached(reader, resource, &folder, revision).await
            }
            From::AtLeast(version) => {
                reader.reflector.loaded().await;
                reader.reflector.reach(*version).await?;
                let revision = reader.reflector.revision();
                self.cached(reader, resource, &folder, revision).await
            }
            From::Exactly(revision) => {
                self.stored(
                    reader,
                    resource,
                    storage,
                    &folder,
                    folder.clone(),
                    *revision,
                )
                .await
            }
            From::Continued { revision, start } => {
                let revision = (*revision).max(0);
                let listed = self
                    .stored(reader, resource, storage, &folder, start.clone(), revision)
                    .await;
                listed.map_err(|error| match error.code {
                    410 => expired(start, &folder),
                    _ => error,
                })
            }
        }
    }

    async fn cached(
        &self,
        reader: &Reader,
        resource: &Resource,
        folder: &str,
        revision: i64,
    ) -> Result<(Vec<Arc<Stored>>, ListMeta), Status> {
        let storage = resource.stored()?;
        let Some(cache) = reader.reflector.cache_if_followed(storage) else {
            let start = folder.to_owned();
            let newest = self.stored(reader, resource, storage, folder, start, 0);
            return newest.await;
        };
        cache.check(folder)?;
        let (mut entries, _, changed) = cache.snapshot(folder);
        let revision = revision.max(changed);
        let most = Some(self.limit).filter(|limit| *limit > 0);
        let most = most.unwrap_or(usize::MAX);
        let mut left = entries.len();
        if self.selectors.is_empty() {
            entries.truncate(most);
            left -= entries.len();
        } else {
            let all = self.selectable(resource, entries).await?.into_iter();
            entries = Vec::new();
            // No further than it must be: as in Kubernetes, nothing of what is left may be selected.
            for stored in all {
                if entries.len() == most {
                    break;
                }
                left -= 1;
                if self.selectors.matches(resource, &stored) {
                    entries.push(stored);
                }
            }
        }
        let mut meta = ListMeta {
            revision,
            ..ListMeta::default()
        };
        if let Some(last) = entries.last().filter(|_| left > 0) {
            meta.token = write_token(revision, &format!("{}\0", last.key), folder);
            meta.remaining = self.selectors.is_empty().then_some(left as i64);
        }
        Ok((entries, meta))
    }

    /// Objects in the version that the selectors are about.
    async fn selectable(
        &self,
        resource: &Resource,
        all: Vec<Arc<Stored>>,
    ) -> Result<Vec<Arc<Stored>>, Status> {
        let needs_version = if self.by_stored_labels {
            self.selectors.need_fields()
        } else {
            self.selectors.need_version()
        };
        if !needs_version {
            return Ok(all);
        }
        views::of_all(resource, all).await
    }

    /// Reads pages of the store until there are enough objects.
    async fn stored(
        &self,
        reader: &Reader,
        resource: &Resource,
        storage: &Arc<Storage>,
        folder: &str,
        mut start: String,
        mut revision: i64,
    ) -> Result<(Vec<Arc<Stored>>, ListMeta), Status> {
        let mut entries = Vec::new();
        let mut meta = ListMeta::default();
        loop {
            let wanted = match (self.limit, self.selectors.is_empty()) {
                (0, _) => PAGE_KEYS,
                (limit, true) => limit as i64,
                (limit, false) => (limit as i64).max(PAGE_KEYS),
            };
            let page = reader.store.list(&start, folder, wanted, revision).await;
            let page = page.map_err(|error| too_new(error, revision, reader))?;
            if revision == 0 {
                revision = page.revision;
            }
            let (total, read) = (page.items.len(), page.count);
            let mut found = Vec::with_capacity(total);
            for raw in &page.items {
                let key = String::from_utf8_lossy(&raw.key);
                found.push(reader.stored_of(storage, &key, raw).await?);
            }
            let found = self.selectable(resource, found).await?;
            for (at, stored) in found.into_iter().enumerate() {
                start = format!("{}\0", stored.key);
                if !self.selectors.matches(resource, &stored) {
                    continue;
                }
                entries.push(stored);
                let left = read - at as i64 - 1;
                if self.limit > 0 && entries.len() == self.limit && left > 0 {
                    meta.token = write_token(revision, &start, folder);
                    meta.remaining = self.selectors.is_empty().then_some(left);
                    break;
                }
            }
            if !page.more || !meta.token.is_empty() || total == 0 {
                meta.revision = revision;
                return Ok((entries, meta));
            }
        }
    }
}

/// Parses `resourceVersion`.
pub(crate) fn version(text: &str) -> Result<Option<i64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let version = unsigned::parse(text).map_err(|why| {
        let cause = Cause::invalid("resourceVersion", &text.into(), &why);
        Status::new(500, "", format!("resourceVersion: {}", cause.message))
    })?;
    // The store has no larger one either.
    Ok(Some(i64::try_from(version).unwrap_or(i64::MAX)))
}

/// Checks which parameters may be combined.
fn check(query: &Query) -> Result<(), Status> {
    let mut causes = Vec::new();
    let (matching, version) = (
        query.text("resourceVersionMatch"),
        query.text("resourceVersion"),
    );
    let mut forbid = |why: &str| causes.push(Cause::forbidden("resourceVersionMatch", why));
    if !matching.is_empty() {
        if version.is_empty() {
            forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !query.text("continue").is_empty() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if matching == "Exact" && version == "0" {
            forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
        if !["Exact", "NotOlderThan"].contains(&matching) {
            let known = ["Exact", "NotOlderThan", ""];
            let cause = Cause::not_supported("resourceVersionMatch", &matching.into(), &known);
            causes.push(cause);
        }
    }
    if query.given("sendInitialEvents").is_some() {
        let why = "sendInitialEvents is forbidden for list";
        causes.push(Cause::forbidden("sendInitialEvents", why));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("meta.k8s.io", "ListOptions", "", causes))
    }
}

fn folder(resource: &Resource, namespace: &str) -> Result<String, Status> {
    let storage = resource.stored()?;
    Ok(storage.folder(namespace))
}

fn write_token(revision: i64, start: &str, folder: &str) -> String {
    let start = start.strip_prefix(folder).unwrap_or(start);
    let token = Token {
        version: "meta.k8s.io/v1".into(),
        revision,
        start: start.to_owned(),
    };
    // A struct of strings and numbers always serializes.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// Parses a token. The key is always below the folder, whatever the client changed in the token.
fn read_token(text: &str, folder: &str) -> Result<(i64, String), Status> {
    let wrong = |why: String| {
        let text = format!("invalid continue token: continue key is not valid: {why}");
        Status::bad_request(text)
    };
    let bytes = LENIENT.decode(text).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            _ => text.len(),
        };
        wrong(format!("illegal base64 data at input byte {at}"))
    })?;
    let token: Token = serde_json::from_slice(&bytes).map_err(|error| {
        wrong(match bytes.first() {
            Some(first) if !b" \t\r\n{[\"-0123456789tfn".contains(first) => {
                let letter = char::from(*first);
                format!("invalid character {letter:?} looking for beginning of value")
            }
            _ => error.to_string(),
        })
    })?;
    if token.version != "meta.k8s.io/v1" {
        return Err(wrong(format!(
            "server does not recognize this encoded version {}",
            token.version
        )));
    }
    if token.revision == 0 || token.revision < INCONSISTENT || token.start.is_empty() {
        return Err(wrong(
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into(),
        ));
    }
    Ok((token.revision, format!("{folder}{}", token.start)))
}

fn expired(start: &str, folder: &str) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.resume = write_token(INCONSISTENT, start, folder).into();
    status
}

/// The error for a future revision.
fn too_new(error: Status, revision: i64, reader: &Reader) -> Status {
    if store::is_future(&error) {
        Status::future_version(revision, reader.reflector.revision())
    } else {
        error
    }
}
