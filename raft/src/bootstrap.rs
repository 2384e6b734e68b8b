//! The log of a cluster that does not exist yet.

use bytes::Bytes;

use crate::io::Recovered;
use crate::message::NodeId;

/// The first entries of a new cluster, the same on each of its members: at term 1, one committed
/// change per member (`context`: etcd's member JSON), in the given order. The caller makes them
/// durable (`LogWriter::bootstrap`) and starts from them; the first election then makes term 2.
pub fn bootstrap(_members: &[(NodeId, Bytes)]) -> Recovered {
    unimplemented!()
}
