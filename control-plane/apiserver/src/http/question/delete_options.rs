//! The options of a deletion, from its body, or from its query if it has no body.

use machinery::object;
use machinery::schema;
use machinery::status::Status;

use crate::audit::Record;
use crate::http::question::body::{self, Expected};
use crate::http::question::request::Query;
use crate::registry::options::Validation;
use crate::registry::verbs::delete::{Options, orphaning, propagation};

/// The version that events show, whichever the client names. It is an accident of Kubernetes that
/// readers of its logs know.
const RECORDED_VERSION: &str = "meta.k8s.io/__internal";

/// Parses the options of a deletion, and records those of its body.
pub(crate) fn read(
    query: &Query,
    media_type: &str,
    bytes: &[u8],
    audit: Option<&Record>,
) -> Result<Options, Status> {
    if bytes.is_empty() {
        let options = Options {
            grace: query.integer("gracePeriodSeconds")?,
            propagation: propagation(query.given("propagationPolicy"))?
                .or_else(|| query.given("orphanDependents").map(orphaning)),
            dry: query.options("DeleteOptions", false)?.dry,
            ..Options::default()
        };
        return Ok(options);
    }
    let message = schema::body("", "v1", "DeleteOptions")
        .ok_or_else(|| Status::internal("no DeleteOptions in the schema"))?;
    let expected = Expected {
        group: "",
        version: "v1",
        kind: "DeleteOptions",
        message,
    };
    let options = body::decode(bytes, media_type, &expected, Validation::Ignore)?.object;
    if let Some(record) = audit {
        record.request_object(&options, |sent| {
            object::set_type(sent, RECORDED_VERSION, "DeleteOptions");
        });
    }
    Options::of(&options)
}
