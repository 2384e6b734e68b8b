use std::future::pending;

use super::*;

/// A server of which one group never answers.
#[derive(Clone, Copy)]
struct Half;

impl Api for Half {
    async fn call(&self, call: Call) -> Result<Object, Status> {
        match group(&call) {
            "hung.test" => pending().await,
            _ => Ok(call.to_string().into()),
        }
    }
}

fn read(path: &str) -> Call {
    Call::Read {
        path: path.into(),
        what: "something".into(),
    }
}

#[test]
fn a_question_goes_to_the_group_of_its_path_or_kind() {
    let update = Call::Update {
        kind: Arc::clone(machinery::schema::kind("apps", "v1", "Deployment").unwrap()),
        subresource: "scale",
        object: Object::Null,
    };
    assert_eq!(group(&update), "apps");
    assert_eq!(
        group(&read("/apis/metrics.k8s.io/v1beta1/pods?a=b")),
        "metrics.k8s.io"
    );
    assert_eq!(group(&read("/api/v1/namespaces/n/things/x/scale")), "");
}

#[tokio::test]
async fn who_asks_a_server_that_hangs_holds_up_nobody_who_asks_another() {
    let mut places = Places::default();
    let hung = vec![read("/apis/hung.test/v1/x"); AT_ONCE_MAX + 1];
    for question in places.line_up(&hung) {
        tokio::spawn(async move { answer(&Half, question, ANSWERED_WITHIN).await });
    }
    tokio::task::yield_now().await;
    let good = places.line_up(&[read("/apis/good.test/v1/x")]).remove(0);
    let expected = Object::from("read /apis/good.test/v1/x");
    assert_eq!(answer(&Half, good, ANSWERED_WITHIN).await, Ok(expected));
    let busy = &places.0["hung.test"];
    assert_eq!(busy.available_permits(), 0);
}

/// Of many that wait for a slow server none is given up while it waits.
#[tokio::test]
async fn the_wait_for_a_place_takes_nothing_of_the_time_to_answer() {
    let mut places = Places::default();
    let question = places.line_up(&[read("/apis/good.test/v1/x")]).remove(0);
    let all = Arc::clone(&question.1);
    let taken = all.acquire_many(AT_ONCE_MAX as u32).await.unwrap();
    // No time is enough for an answer that is there at once.
    let asked = tokio::spawn(async move { answer(&Half, question, Duration::ZERO).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!asked.is_finished());
    drop(taken);
    let expected = Object::from("read /apis/good.test/v1/x");
    assert_eq!(asked.await.unwrap(), Ok(expected));
}
