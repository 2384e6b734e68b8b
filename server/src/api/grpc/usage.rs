//! `stele.Usage`: the number and the bytes of the keys with a prefix.

use etcd_api::usage::usage_server::Usage;
use etcd_api::usage::{PrefixRequest, PrefixResponse};
use storage::mvcc::KeyRange;
use tonic::{Request as Call, Response, Status};

use super::caller_of;
use crate::auth::{Image, Kind};
use crate::request::AuthInfo;
use crate::runtime::etcd_server::{EtcdServer, run_blocking};
use crate::telemetry::prefix;

pub(crate) struct UsageService {
    server: EtcdServer,
}

impl UsageService {
    pub(crate) fn new(server: EtcdServer) -> UsageService {
        UsageService { server }
    }
}

#[tonic::async_trait]
impl Usage for UsageService {
    /// Allowed for callers that may read all keys with the prefix.
    async fn prefix(&self, call: Call<PrefixRequest>) -> Result<Response<PrefixResponse>, Status> {
        let who = caller_of(&call);
        let request = call.into_inner();
        if !request.serializable {
            self.server.linearizable().await?;
        }
        let view = self.server.view();
        let (key, end) = range_of(&request.prefix);
        let may_read = |image: &Image, by: &AuthInfo| image.check(by, Kind::Read, &key, &end);
        self.server.check_read(&who, may_read).await?;
        let revision = view.revision();
        let is_deleting = view.is_deleting();
        let usage = move || Ok(view.usage(KeyRange::from_wire(&key, &end))?);
        let usage = if is_deleting {
            // May walk over all of the keys.
            run_blocking(usage).await?
        } else {
            usage()?
        };
        Ok(Response::new(PrefixResponse {
            header: Some(self.server.header(revision)),
            keys: usage.keys as i64,
            bytes: usage.bytes as i64,
        }))
    }
}

/// The range (key, range end) of all keys with a prefix.
fn range_of(prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    const OPEN: [u8; 1] = [0];
    let key = match prefix {
        [] => OPEN.to_vec(),
        prefix => prefix.to_vec(),
    };
    let end = match prefix::end(prefix) {
        end if end.is_empty() => OPEN.to_vec(),
        end => end,
    };
    (key, end)
}
