//! OpenTelemetry: Stele must send a collector the same spans as etcd for the same calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use etcd_api::otlp::trace_service_server::{TraceService, TraceServiceServer};
use etcd_api::otlp::{
    ExportTraceServiceRequest, ExportTraceServiceResponse, KeyValue, Span, any_value,
};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use testkit::{Launch, Server, Tools};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

use crate::harness::fleet::PATIENCE;

const STELE: &str = env!("CARGO_BIN_EXE_stele");
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const UNSAMPLED: &str = "1af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A span as far as it is the same from server to server.
type Seen = (String, String, i32, u32, String, BTreeMap<String, String>);

/// Spans with the attributes of their service and the name of what made them.
type Spans = Arc<Mutex<Vec<(BTreeMap<String, String>, String, Span)>>>;

struct Collector {
    spans: Spans,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = self.spans.lock().unwrap();
        for of_resource in request.into_inner().resource_spans {
            let resource = texts(&of_resource.resource.unwrap().attributes);
            for of_scope in of_resource.scope_spans {
                let scope = of_scope.scope.unwrap().name;
                let found = of_scope.spans.into_iter();
                spans.extend(found.map(|span| (resource.clone(), scope.clone(), span)));
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A collector and its port.
async fn collect() -> (Spans, u16) {
    let spans = Spans::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let collector = TraceServiceServer::new(Collector {
        spans: Arc::clone(&spans),
    });
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(collector.clone());
            let connection = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    (spans, port)
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|v| v.value.as_ref())
    {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::BoolValue(flag)) => flag.to_string(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        None => panic!("{attribute:?}"),
    };
    let pairs = attributes.iter().map(|pair| (pair.key.clone(), text(pair)));
    pairs.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn traced<T>(message: T, trace: &str, sampled: bool) -> Request<T> {
    let mut request = Request::new(message);
    let parent = format!("00-{trace}-{PARENT}-0{}", u8::from(sampled));
    let metadata = request.metadata_mut();
    metadata.insert("traceparent", parent.parse().unwrap());
    metadata.insert("tracestate", "a=b".parse().unwrap());
    request
}

fn range(key: &'static str) -> pb::RangeRequest {
    pb::RangeRequest {
        key: key.into(),
        ..Default::default()
    }
}

/// Every kind of call that has a span of its own within that of the call, and some that have not.
async fn calls(client: &Client) {
    let (mut kv, mut lease) = (client.kv(), client.lease());
    let put = pb::PutRequest {
        key: "foo".into(),
        value: "bar".into(),
        ..Default::default()
    };
    let lost = pb::PutRequest {
        lease: 99,
        ..put.clone()
    };
    let txn = pb::TxnRequest {
        success: vec![pb::RequestOp {
            request: Some(pb::request_op::Request::RequestPut(put.clone())),
        }],
        ..Default::default()
    };
    let delete = pb::DeleteRangeRequest {
        key: "fo".into(),
        range_end: "fp".into(),
        ..Default::default()
    };
    let compact = pb::CompactionRequest {
        revision: 2,
        physical: false,
    };
    kv.put(traced(put, TRACE, true)).await.unwrap();
    kv.put(traced(lost, TRACE, true)).await.unwrap_err();
    kv.range(traced(range("foo"), TRACE, true)).await.unwrap();
    kv.range(traced(range("foo"), UNSAMPLED, false))
        .await
        .unwrap();
    kv.range(range("foo")).await.unwrap();
    kv.range(traced(range(""), TRACE, true)).await.unwrap_err();
    kv.txn(traced(txn, TRACE, true)).await.unwrap();
    kv.delete_range(traced(delete, TRACE, true)).await.unwrap();
    kv.compact(traced(compact, TRACE, true)).await.unwrap();
    let grant = pb::LeaseGrantRequest { ttl: 100, id: 7 };
    lease.lease_grant(traced(grant, TRACE, true)).await.unwrap();
    let revoke = pb::LeaseRevokeRequest { id: 7 };
    lease
        .lease_revoke(traced(revoke, TRACE, true))
        .await
        .unwrap();
    let status = traced(pb::StatusRequest::default(), TRACE, true);
    client.maintenance().status(status).await.unwrap();
    let leader = etcd_api::v3electionpb::LeaderRequest {
        name: "nobody".into(),
    };
    client
        .election()
        .leader(traced(leader, TRACE, true))
        .await
        .unwrap_err();
}

/// Until there are so many.
async fn arrived(spans: &Spans, count: usize) -> Vec<(BTreeMap<String, String>, String, Span)> {
    let all = async {
        while spans.lock().unwrap().len() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, all).await;
    let found = spans.lock().unwrap().clone();
    waited.unwrap_or_else(|_| panic!("{} of {count} spans: {found:#?}", found.len()));
    found
}

/// Sorted, and the ids of spans replaced by the names of those that have them.
fn seen(spans: &[(BTreeMap<String, String>, String, Span)]) -> Vec<Seen> {
    let names: BTreeMap<String, &str> = spans
        .iter()
        .map(|(_, _, span)| (hex(&span.span_id), span.name.as_str()))
        .collect();
    let mut seen: Vec<Seen> = spans
        .iter()
        .map(|(_, scope, span)| {
            assert!(
                span.start_time_unix_nano < span.end_time_unix_nano,
                "{span:?}"
            );
            assert_eq!(hex(&span.trace_id), TRACE);
            let parent = hex(&span.parent_span_id);
            let parent = names.get(&parent).map_or(parent, |name| (*name).to_owned());
            let status = span.status.clone().unwrap();
            let mut attributes = texts(&span.attributes);
            // Each server has its own.
            attributes.retain(|name, _| name != "server.port");
            attributes.insert("state".to_owned(), span.trace_state.clone());
            attributes.insert(
                "status".to_owned(),
                format!("{} {}", status.code, status.message),
            );
            (
                scope.clone(),
                span.name.clone(),
                span.kind,
                span.flags,
                parent,
                attributes,
            )
        })
        .collect();
    seen.sort();
    seen
}

fn start(launch: Launch, port: u16, flags: &[&str]) -> Server {
    let launch = launch
        .flag("--enable-distributed-tracing")
        .flag(format!("--distributed-tracing-address=127.0.0.1:{port}"))
        .flags(flags);
    launch.start().unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_with_a_sampled_parent_make_the_spans_that_etcd_makes() {
    let flags = [
        "--distributed-tracing-service-name=store",
        "--distributed-tracing-instance-id=one",
        "--distributed-tracing-sampling-rate=0",
    ];
    let (spans, port) = collect().await;
    let mut stele = start(Launch::program(STELE), port, &flags);
    calls(&Client::connect(stele.url()).await.unwrap()).await;
    // Sends what it has.
    stele.terminate();
    // Eleven calls, and within eight of them what the server did.
    let ours = arrived(&spans, 19).await;
    let service = [("service.instance.id", "one"), ("service.name", "store")];
    let service = service.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for (resource, _, _) in &ours {
        assert_eq!(*resource, BTreeMap::from(service.clone()));
    }
    let puts = ours
        .iter()
        .filter(|(_, _, span)| span.name == "etcdserverpb.KV/Put");
    assert!(
        puts.clone().count() == 2
            && puts
                .clone()
                .all(|(_, _, span)| hex(&span.parent_span_id) == PARENT)
    );
    let Some(tools) = Tools::or_skip("spans beside real etcd") else {
        return;
    };
    let (spans, port) = collect().await;
    let etcd = start(Launch::etcd(&tools), port, &flags);
    calls(&Client::connect(etcd.url()).await.unwrap()).await;
    let mut theirs = arrived(&spans, 20).await;
    // Within the election's call etcd makes one of its own.
    let leader = theirs
        .iter()
        .find(|(_, _, span)| span.name == "v3electionpb.Election/Leader");
    let leader = leader.unwrap().2.span_id.clone();
    theirs.retain(|(_, _, span)| span.parent_span_id != leader);
    assert_same(&seen(&ours), &seen(&theirs));
}

fn assert_same(ours: &[Seen], theirs: &[Seen]) {
    for (our, their) in ours.iter().zip(theirs) {
        assert_eq!(our, their);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_begin_here_at_the_rate_that_is_asked_for() {
    let (spans, port) = collect().await;
    let rate = "--distributed-tracing-sampling-rate=1000000";
    let mut server = start(Launch::program(STELE), port, &[rate]);
    let client = Client::connect(server.url()).await.unwrap();
    let mut kv = client.kv();
    kv.range(traced(range("a"), UNSAMPLED, false))
        .await
        .unwrap();
    kv.range(range("b")).await.unwrap();
    server.terminate();
    let found = arrived(&spans, 2).await;
    let (resource, _, call) = found.iter().find(|(_, _, span)| span.kind == 2).unwrap();
    assert_eq!(resource["service.name"], "etcd");
    assert_eq!(resource.len(), 1);
    assert!(call.parent_span_id.is_empty() && call.trace_id.iter().any(|byte| *byte != 0));
    let (_, _, inner) = found.iter().find(|(_, _, span)| span.kind == 1).unwrap();
    assert_eq!(texts(&inner.attributes)["range_begin"], "b");
    assert_eq!(
        (&inner.parent_span_id, &inner.trace_id),
        (&call.span_id, &call.trace_id)
    );
    // Nobody listens there: that costs spans and no calls.
    let mut alone = start(Launch::program(STELE), 1, &[rate]);
    let client = Client::connect(alone.url()).await.unwrap();
    client.kv().range(range("b")).await.unwrap();
    alone.terminate();
    assert!(
        alone.log().contains("failed to send traces"),
        "{}",
        alone.log()
    );
}
