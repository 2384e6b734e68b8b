//! The media types of patches.

use machinery::status::Status;

use crate::registry::patch::Kind;
use crate::resources::catalogue::Resource;

/// The supported media types.
pub(crate) const MEDIA_TYPES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// The kind of patch of a media type. Nothing says how lists of custom resources merge.
pub(crate) fn kind_of(resource: &Resource, media_type: &str) -> Result<Kind, Status> {
    let custom = resource.custom.is_some();
    match media_type {
        "application/json-patch+json" => Ok(Kind::Json),
        "application/merge-patch+json" => Ok(Kind::Merge),
        "application/strategic-merge-patch+json" if !custom => Ok(Kind::Strategic),
        _ if custom => Err(Status::unsupported_media_type(&MEDIA_TYPES[..2])),
        _ => Err(Status::unsupported_patch()),
    }
}
