//! What requests allocate for services, and leave behind when they end.

use machinery::protobuf;

use super::*;
use crate::registry::allocate::{self, Allocator, Held};

/// The key of the node ports that are taken.
const MARKS: &str = "/registry/ranges/servicenodeports";
/// Long enough for a test that goes well on any machine.
const WITHIN: Duration = Duration::from_secs(30);

/// Lets a request do its first step, and ends it.
async fn ended<T>(request: impl Future<Output = T>) {
    tokio::select! {
        biased;
        _ = request => panic!("it does not wait for the store"),
        () = std::future::ready(()) => {}
    }
}

/// What a request holds that has reserved the address for a new service.
async fn held(registry: &Registry) -> Held {
    let address: IpAddr = ADDRESS.parse().unwrap();
    let reserved = take(&registry.reader, address, &service("new")).await;
    Held::address(registry, ADDRESS, reserved.unwrap().unwrap())
}

#[tokio::test]
async fn an_address_is_given_back_though_its_request_ends_meanwhile() {
    let registry = registry();
    ended(held(&registry).await.give_back()).await;
    let freed = async {
        while is_reserved(&registry).await {
            tokio::task::yield_now().await;
        }
    };
    let freed = tokio::time::timeout(WITHIN, freed).await;
    freed.expect("it is given back");
}

#[tokio::test]
async fn an_address_is_given_back_unless_its_object_is_on_its_way() {
    let registry = registry();
    let mut sent = held(&registry).await;
    sent.sent();
    drop(sent);
    let allocator = Allocator::of(&registry);
    let nothing = allocator.give_back_abandoned();
    ended(nothing).await;
    assert!(is_reserved(&registry).await);
    drop(held(&registry).await);
    let giving = tokio::time::timeout(WITHIN, allocator.give_back_abandoned());
    giving.await.expect("it was abandoned");
    assert!(!is_reserved(&registry).await);
}

#[tokio::test]
async fn what_a_request_allocates_that_ends_meanwhile_is_given_back() {
    let registry = registry();
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"type": "NodePort", "clusterIP": "None", "selector": {"app": "web"},
            "ports": [{"port": 80, "nodePort": 30_100}]},
    });
    ended(allocate::create(&registry, &mut service, false)).await;
    let allocator = Allocator::of(&registry);
    let giving = tokio::time::timeout(WITHIN, allocator.give_back_abandoned());
    giving.await.expect("it was abandoned");
    let (marks, revision) = registry.reader.store.get(MARKS).await.unwrap();
    assert_eq!(revision, 2, "they were taken, and are free");
    let marks = protobuf::decode(marks.unwrap().plain()).unwrap();
    assert_eq!(object::text(&marks, &["data"]), "");
}
