//! Watch; under way.

/// The way to the hub.
#[derive(Clone, Debug)]
pub struct HubHandle;
