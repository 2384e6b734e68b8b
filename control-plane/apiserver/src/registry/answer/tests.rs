use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::Config;
use crate::admission::{Attributes, Context, PLUGINS, Plugin, Warnings};
use crate::auth::authenticate::token::tests::{NOW, account, issuer};
use crate::auth::{Answer, User};

/// Keeps what the plugins of each half see.
#[derive(Default)]
struct Sees(Mutex<Vec<Value>>);

impl Plugin for Sees {
    fn name(&self) -> &'static str {
        "Sees"
    }

    fn handles(&self, _: &Attributes<'_>) -> bool {
        true
    }

    fn mutate<'a>(
        &'a self,
        _: &'a Context,
        _: &'a Attributes<'a>,
        object: &'a mut Value,
    ) -> Answer<'a, ()> {
        self.0.lock().push(object["spec"].clone());
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(
        &'a self,
        _: &'a Context,
        _: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Answer<'a, ()> {
        self.0.lock().push(object["spec"].clone());
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn what_may_refuse_a_token_sees_whom_it_is_for() {
    let sees = Arc::new(Sees::default());
    let config = Config {
        plugins: vec![Arc::clone(&sees) as Arc<dyn Plugin>],
        disabled_plugins: PLUGINS.map(str::to_owned).to_vec(),
        ..Config::default()
    };
    let api = crate::without_store(config);
    let registry = &api.0.registry;
    let writer = Writer {
        registry,
        user: &User::anonymous(),
        resource: registry
            .reader
            .resource("", "v1", "serviceaccounts")
            .unwrap(),
        namespace: "tools",
        dry: false,
        options: Value::Null,
        audit: None,
        warnings: Arc::new(Warnings::default()),
        manager: String::new(),
    };
    let issuer = issuer();
    let (account, mut request) = (account(), json!({"kind": "TokenRequest", "spec": {}}));
    let admitted = writer.admit_token(&issuer, &account, &mut request, NOW);
    admitted.await.unwrap();
    let default = json!({"expirationSeconds": 3600});
    let complete = json!({"audiences": issuer.audiences(), "expirationSeconds": 3600});
    assert_eq!(*sees.0.lock(), [default, complete]);
}
