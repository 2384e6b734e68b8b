//! The documents of the new form. Clients ask for them again and again, so each is written once for
//! a state of the catalogue and of other servers.

use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::{SHA512, digest};
use bytes::Bytes;
use data_encoding::HEXUPPER;
use http::HeaderValue;
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::Value;

use super::documents::{AllGroups, internal, written};
use super::remote;
use crate::http::aggregation::Remote;
use crate::http::media::Encoding;
use crate::resources::catalogue::Catalogue;

/// The documents that were asked for last.
#[derive(Default)]
pub(crate) struct Latest {
    /// That of the core group.
    core: Mutex<Option<Made>>,
    /// That of the other groups.
    named: Mutex<Option<Made>>,
}

/// A document in all encodings.
pub(super) struct Document {
    /// By which clients know the document. It is the same in all encodings, as in Kubernetes.
    pub(super) tag: HeaderValue,
    json: Bytes,
    yaml: OnceLock<Bytes>,
    protobuf: OnceLock<Bytes>,
}

/// A document and what it was made of.
struct Made {
    catalogue: Arc<Catalogue>,
    remotes: Vec<Remote>,
    document: Arc<Document>,
}

impl Latest {
    /// `GET /api`.
    pub(super) fn core(&self, catalogue: &Arc<Catalogue>) -> Result<Arc<Document>, Status> {
        latest(&self.core, catalogue, Vec::new(), true)
    }

    /// `GET /apis`, with what other servers serve.
    pub(super) fn named(
        &self,
        catalogue: &Arc<Catalogue>,
        remotes: Vec<Remote>,
    ) -> Result<Arc<Document>, Status> {
        latest(&self.named, catalogue, remotes, false)
    }
}

impl Document {
    fn new(list: &AllGroups) -> Result<Document, Status> {
        let mut json = Vec::from(written(list, Encoding::Json)?);
        json.push(b'\n');
        Ok(Document {
            tag: tag(list)?,
            json: json.into(),
            yaml: OnceLock::new(),
            protobuf: OnceLock::new(),
        })
    }

    pub(super) fn encoded(&self, encoding: Encoding) -> Result<Bytes, Status> {
        let encoded = match encoding {
            Encoding::Json => return Ok(self.json.clone()),
            Encoding::Yaml => &self.yaml,
            Encoding::Protobuf => &self.protobuf,
        };
        if let Some(bytes) = encoded.get() {
            return Ok(bytes.clone());
        }
        let document: Value = serde_json::from_slice(&self.json).map_err(internal)?;
        let bytes = written(&document, encoding)?;
        Ok(encoded.get_or_init(|| bytes).clone())
    }
}

/// The last document if it is of the same state, or a new one.
fn latest(
    last: &Mutex<Option<Made>>,
    catalogue: &Arc<Catalogue>,
    remotes: Vec<Remote>,
    core: bool,
) -> Result<Arc<Document>, Status> {
    let mut last = last.lock();
    if let Some(made) = &*last
        && Arc::ptr_eq(&made.catalogue, catalogue)
        && made.remotes == remotes
    {
        return Ok(Arc::clone(&made.document));
    }
    let mut list = super::aggregated(catalogue, core);
    remote::add_aggregated(&mut list, catalogue, &remotes);
    let document = Arc::new(Document::new(&list)?);
    *last = Some(Made {
        catalogue: Arc::clone(catalogue),
        remotes,
        document: Arc::clone(&document),
    });
    Ok(document)
}

/// As in Kubernetes, a hash of the JSON text without its type.
fn tag(list: &AllGroups) -> Result<HeaderValue, Status> {
    let text = serde_json::to_vec(&list.content).map_err(internal)?;
    let hash = digest(&SHA512, &text);
    let digits = HEXUPPER.encode(hash.as_ref());
    HeaderValue::from_str(&format!("\"{digits}\"")).map_err(internal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::custom::Definition;

    fn catalogue() -> Arc<Catalogue> {
        let resources = Definition::widgets().resources(None).unwrap();
        Arc::new(Catalogue::new(resources))
    }

    #[test]
    fn a_document_is_written_once_for_a_state_of_the_catalogue() {
        let (latest, one, other) = (Latest::default(), catalogue(), catalogue());
        let of = |catalogue| latest.named(catalogue, Vec::new()).unwrap();
        let first = of(&one);
        assert!(Arc::ptr_eq(&first, &of(&one)));
        let second = of(&other);
        assert!(!Arc::ptr_eq(&first, &second));
        // The same groups have the same tag.
        assert_eq!(first.tag, second.tag);
        assert_ne!(latest.core(&one).unwrap().tag, first.tag);
        for encoding in [Encoding::Json, Encoding::Yaml, Encoding::Protobuf] {
            let bytes = || first.encoded(encoding).unwrap();
            assert_eq!(bytes().as_ptr(), bytes().as_ptr(), "{encoding:?}");
        }
    }
}
