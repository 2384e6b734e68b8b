//! `v3lockpb.Lock` and `v3electionpb.Election`: recipes on the server's side, missing so far.
//! Clients' own locks and elections need only KV, Watch and Lease.

use tonic::Status;

use crate::metrics::Service;

pub fn missing(service: Service) -> Status {
    Status::unimplemented(format!(
        "etcdserver: {} is not supported by Stele yet",
        service.name()
    ))
}
