use machinery::selector::{FieldSelector, LabelSelector};

use super::*;
use crate::auth::User;
use crate::auth::testing::Reviewed;

const MINUTE: Duration = Duration::from_secs(60);

const REVIEW: (&str, &str) = ("authorization.k8s.io", "SubjectAccessReview");

async fn world(change: impl FnOnce(&mut WebhookOptions)) -> Reviewed<Webhook> {
    let open = |kubeconfig| {
        let mut options = WebhookOptions {
            name: "w".to_owned(),
            kubeconfig,
            version: "v1".to_owned(),
            timeout: MINUTE,
            keeps_allowed: true,
            keep_allowed: MINUTE,
            keeps_others: true,
            keep_others: MINUTE,
            denies_on_error: false,
            conditions: Vec::new(),
        };
        change(&mut options);
        Webhook::pausing(&options, Duration::from_millis(1)).unwrap()
    };
    Reviewed::start(REVIEW, open).await
}

fn asked(name: &str) -> Attributes {
    Attributes {
        user: User {
            name: "jane".into(),
            groups: vec!["devs".into()],
            ..User::default()
        },
        verb: "get".into(),
        of_resource: true,
        api_group: "apps".into(),
        api_version: "v1".into(),
        resource: "deployments".into(),
        namespace: "a".into(),
        name: name.into(),
        ..Attributes::default()
    }
}

#[tokio::test]
async fn a_webhook_allows_denies_or_has_no_opinion() {
    let world = world(|_| {}).await;
    world.answers(&json!({"allowed": true, "reason": "friend"}));
    world.answers(&json!({"allowed": false, "reason": "stranger"}));
    world.answers(&json!({"allowed": false, "denied": true, "reason": "foe"}));
    world.answers(&json!({"allowed": true, "denied": true}));
    let friend = Decision::allow("friend".to_owned());
    assert_eq!(world.client.decide(&asked("a")).await, friend);
    let stranger = Decision::refuse("stranger".to_owned());
    assert_eq!(world.client.decide(&asked("b")).await, stranger);
    assert!(world.client.decide(&asked("c")).await.denied);
    let both = world.client.decide(&asked("d")).await;
    assert!(both.denied && !both.allowed && both.error.is_some());
    // What was answered is kept.
    assert_eq!(world.client.decide(&asked("a")).await, friend);
    assert_eq!(world.client.decide(&asked("b")).await, stranger);
    assert_eq!(world.times(), 4);
    let first = &world.script.asked()[0];
    assert_eq!(first["apiVersion"], "authorization.k8s.io/v1");
    assert_eq!(
        first["spec"],
        json!({"user": "jane", "groups": ["devs"], "resourceAttributes": {
            "namespace": "a", "verb": "get", "group": "apps", "version": "v1",
            "resource": "deployments", "name": "a"}})
    );
}

#[tokio::test]
async fn what_is_not_kept_is_asked_again() {
    let world = world(|options| options.keeps_others = false).await;
    world.answers(&json!({"allowed": false}));
    world.answers(&json!({"allowed": true}));
    assert!(!world.client.decide(&asked("a")).await.allowed);
    assert!(world.client.decide(&asked("a")).await.allowed);
    let large = asked(&"x".repeat(KEPT_BYTES_MAX));
    for _ in 0..2 {
        world.answers(&json!({"allowed": true}));
        world.client.decide(&large).await;
    }
    assert_eq!(world.times(), 4);
}

#[tokio::test]
async fn a_webhook_that_fails_denies_if_it_says_so() {
    for denies in [false, true] {
        let world = world(|options| options.denies_on_error = denies).await;
        world.script.answers(400, json!({"any": "thing"}));
        let decision = world.client.decide(&asked("a")).await;
        assert_eq!((decision.allowed, decision.denied), (false, denies));
        let why = "the server rejected our request for an unknown reason";
        assert_eq!(decision.error.as_deref(), Some(why));
    }
}

#[tokio::test]
async fn a_webhook_is_asked_only_where_all_conditions_hold() {
    let world = world(|options| {
        options.conditions = vec![
            "has(request.resourceAttributes) && request.resourceAttributes.namespace == 'a'".into(),
            "request.uid == '' && request.groups.exists(one, one == 'devs')".into(),
        ];
    })
    .await;
    world.answers(&json!({"allowed": true}));
    assert!(world.client.decide(&asked("a")).await.allowed);
    let elsewhere = Attributes {
        namespace: "b".into(),
        ..asked("a")
    };
    let nothing = Decision::refuse(String::new());
    assert_eq!(world.client.decide(&elsewhere).await, nothing);
    let path = Attributes {
        user: asked("a").user,
        verb: "get".into(),
        path: "/healthz".into(),
        ..Attributes::default()
    };
    assert_eq!(world.client.decide(&path).await, nothing);
    assert_eq!(world.times(), 1);
}

#[tokio::test]
async fn a_condition_that_fails_counts_as_a_webhook_that_fails() {
    let world = world(|options| {
        options.denies_on_error = true;
        options.conditions = vec!["request.nonResourceAttributes.path == '/'".into()];
    })
    .await;
    let decision = world.client.decide(&asked("a")).await;
    assert!(decision.denied);
    let why = decision.error.unwrap();
    assert!(why.contains("resulted in error: no such key"), "{why}");
    assert_eq!(world.times(), 0);
}

#[tokio::test]
async fn selectors_and_older_reviews_are_sent_as_kubernetes_sends_them() {
    let world = world(|options| options.version = "v1beta1".to_owned()).await;
    let review = world.review("v1beta1", &json!({"allowed": true}));
    world.script.answers(200, review);
    let asked = Attributes {
        fields: FieldSelector::parse("spec.nodeName=n,metadata.name!=x").unwrap(),
        labels: LabelSelector::parse("app in (a,b),!c").unwrap(),
        ..asked("")
    };
    assert!(world.client.decide(&asked).await.allowed);
    let spec = &world.script.asked()[0]["spec"];
    assert_eq!(spec["group"], json!(["devs"]));
    assert_eq!(
        spec["resourceAttributes"]["fieldSelector"]["requirements"][0],
        json!({"key": "metadata.name", "operator": "NotIn", "values": ["x"]})
    );
    let labels = &spec["resourceAttributes"]["labelSelector"]["requirements"];
    assert!(
        labels
            .as_array()
            .unwrap()
            .contains(&json!({"key": "c", "operator": "DoesNotExist"})),
        "{labels}"
    );
}
