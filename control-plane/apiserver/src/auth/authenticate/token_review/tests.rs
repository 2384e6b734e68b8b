use super::*;
use crate::auth::testing::Reviewed;
use crate::webhook::caller::ATTEMPTS;

const MINUTE: Duration = Duration::from_secs(60);

const REVIEW: (&str, &str) = ("authentication.k8s.io", "TokenReview");

async fn world(version: &str, keep: Duration) -> Reviewed<Reviewer> {
    let open = |config_file| {
        let options = Options {
            config_file,
            version: version.to_owned(),
            keep,
        };
        Reviewer::pausing(&options, Duration::from_millis(1)).unwrap()
    };
    Reviewed::start(REVIEW, open).await
}

impl Reviewed<Reviewer> {
    async fn find(&self, token: &str) -> Answer {
        self.find_for(token, &["api"]).await
    }

    async fn find_for(&self, token: &str, wanted: &[&str]) -> Answer {
        let wanted: Vec<_> = wanted.iter().map(|one| (*one).to_owned()).collect();
        self.client.find(token, &wanted, &["api".into()]).await
    }
}

#[tokio::test]
async fn a_webhook_says_whose_a_token_is() {
    let world = world("v1", MINUTE).await;
    world.answers(
        &json!({"authenticated": true, "user": {"username": "jane", "uid": "7",
        "groups": ["devs"], "extra": {"a/b": ["c"], "n": null}}}),
    );
    let known = world.find("t").await.unwrap().unwrap();
    let user = &known.user;
    assert_eq!((&*user.name, &*user.uid), ("jane", "7"));
    assert_eq!(user.groups, ["devs"]);
    assert_eq!(user.extra["a/b"], ["c"]);
    assert_eq!(known.audiences, ["api"]);
    let asked = &world.script.asked()[0];
    assert_eq!(asked["apiVersion"], "authentication.k8s.io/v1");
    assert_eq!(asked["kind"], "TokenReview");
    assert_eq!(asked["spec"], json!({"token": "t", "audiences": ["api"]}));
}

#[tokio::test]
async fn yes_and_no_are_kept_and_errors_are_not() {
    let world = world("v1", MINUTE).await;
    world.answers(&json!({"authenticated": true, "user": {"username": "jane"}}));
    world.answers(&json!({"authenticated": false}));
    world.answers(&json!({"authenticated": false, "error": "no database"}));
    world.answers(&json!({"authenticated": true, "user": {"username": "joe"}}));
    for _ in 0..2 {
        assert_eq!(world.find("a").await.unwrap().unwrap().user.name, "jane");
        assert!(world.find("b").await.unwrap().is_none());
    }
    assert_eq!(world.times(), 2);
    assert_eq!(world.find("c").await.unwrap_err(), "no database");
    assert_eq!(world.find("c").await.unwrap().unwrap().user.name, "joe");
    assert_eq!(world.times(), 4);
    // Another audience is another question.
    world.answers(&json!({"authenticated": true, "user": {"username": "jane"}}));
    assert!(world.find_for("a", &["vault"]).await.unwrap().is_none());
    assert_eq!(world.times(), 5);
}

#[tokio::test]
async fn nothing_is_kept_without_a_time_for_it() {
    let world = world("v1", Duration::ZERO).await;
    for _ in 0..2 {
        world.answers(&json!({"authenticated": false}));
        assert!(world.find("a").await.unwrap().is_none());
    }
    assert_eq!(world.times(), 2);
}

#[tokio::test]
async fn questions_about_one_token_at_one_time_are_one() {
    let world = world("v1", MINUTE).await;
    world.answers(&json!({"authenticated": true, "user": {"username": "jane"}}));
    let both = tokio::join!(world.find("a"), world.find("a"));
    assert_eq!(both.0.unwrap().unwrap().user, both.1.unwrap().unwrap().user);
    assert_eq!(world.times(), 1);
}

#[tokio::test]
async fn a_token_counts_for_the_audiences_that_the_webhook_names() {
    let world = world("v1", MINUTE).await;
    let user = json!({"username": "jane"});
    let yes = json!({"authenticated": true, "user": user, "audiences": ["vault", "x"]});
    world.answers(&yes);
    world.answers(&yes);
    let known = world.find_for("a", &["vault", "api"]).await;
    assert_eq!(known.unwrap().unwrap().audiences, ["vault"]);
    assert!(world.find_for("a", &["api"]).await.unwrap().is_none());
}

#[tokio::test]
async fn answers_that_cannot_be_believed_are_errors() {
    let world = world("v1beta1", MINUTE).await;
    let review = |version, status| world.review(version, &status);
    let yes = json!({"authenticated": true, "user": {"username": "jane"}});
    for (code, answer, words) in [
        (200, review("v1", yes.clone()), "authentication.k8s.io/v1"),
        (200, json!({"status": yes}), "Kind=\"\""),
        (200, json!("nonsense"), "Kind=\"\""),
        (
            200,
            review("v1beta1", json!({"authenticated": "true"})),
            "the status of the answer",
        ),
        (
            200,
            review("v1beta1", json!({"authenticated": true})),
            "names no user",
        ),
        (
            401,
            Value::Null,
            "asked for the client to provide credentials",
        ),
        (503, Value::Null, "currently unable to handle"),
    ] {
        let before = world.times();
        world.script.answers(code, answer);
        let why = world.find("t").await.unwrap_err();
        assert!(why.contains(words), "{why}");
        assert_eq!(world.times(), before + 1, "{words}: not asked again");
    }
    world.script.answers(200, review("v1beta1", yes));
    assert!(world.find("t").await.unwrap().is_some());
}

#[tokio::test]
async fn a_webhook_in_trouble_is_asked_again() {
    let world = world("v1", MINUTE).await;
    for code in [500, 429, 504] {
        world.script.answers(code, Value::Null);
    }
    world.answers(&json!({"authenticated": true, "user": {"username": "jane"}}));
    assert!(world.find("t").await.unwrap().is_some());
    assert_eq!(world.times(), 4);
    for _ in 0..ATTEMPTS {
        world.script.answers(500, Value::Null);
    }
    world.find("u").await.unwrap_err();
    assert_eq!(world.times(), 9);
}

#[test]
fn a_version_that_nobody_speaks_is_refused() {
    let options = Options {
        config_file: PathBuf::from("none"),
        version: "v2".to_owned(),
        keep: MINUTE,
    };
    let why = Reviewer::open(&options).err().unwrap();
    assert!(why.starts_with("unsupported authentication webhook version \"v2\""));
}
