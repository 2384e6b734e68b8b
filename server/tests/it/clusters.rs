//! Stories of several members, of which some stop, come back, are replaced or attacked.

pub(crate) mod catch_up;
pub(crate) mod chaos;
pub(crate) mod cluster;
pub(crate) mod five;
pub(crate) mod hostile;
pub(crate) mod lost_disk;
pub(crate) mod members;
pub(crate) mod stopped_leader;
