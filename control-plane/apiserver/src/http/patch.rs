//! The media types of patches.

use machinery::status::Status;

use crate::registry::patch::Kind;

/// The supported media types.
pub(crate) const MEDIA_TYPES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// The kind of patch of a media type.
pub(crate) fn kind_of(media_type: &str) -> Result<Kind, Status> {
    match media_type {
        "application/json-patch+json" => Ok(Kind::Json),
        "application/merge-patch+json" => Ok(Kind::Merge),
        "application/strategic-merge-patch+json" => Ok(Kind::Strategic),
        _ => Err(Status::unsupported_patch()),
    }
}
