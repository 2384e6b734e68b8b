//! Asks a webhook whose a bearer token is, with a TokenReview of `authentication.k8s.io`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use machinery::object;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Known;
use crate::auth::User;
use crate::webhook::answer;
use crate::webhook::caller::{Caller, PATIENCE};
use crate::webhook::kept::{self, Kept, key};

/// The API group of reviews.
const GROUP: &str = "authentication.k8s.io";
/// The versions that a webhook may speak.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// The pause after the first attempt; it grows.
const PAUSE: Duration = Duration::from_millis(500);
/// Upper bound of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Upper bound of kept answers.
const ANSWERS_MAX: usize = 32 << 10;
/// The longest token that is sent, in bytes.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Where tokens are reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The kubeconfig of the webhook.
    pub config_file: PathBuf,
    /// The version of TokenReview, `v1` or `v1beta1`.
    pub version: String,
    /// How long answers are kept; zero for not at all.
    pub keep: Duration,
}

/// The user of a token; `None` if the webhook does not know it.
type Answer = kept::Answer<Option<Arc<Known>>>;

/// A webhook that knows tokens.
pub struct Reviewer {
    asked: Arc<Asked>,
    keep: Duration,
    kept: Arc<Kept<Option<Arc<Known>>>>,
}

/// The webhook itself.
struct Asked {
    caller: Caller,
    version: String,
    pause: Duration,
}

/// The status of a review. As in Go, what is `null` is not there.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    authenticated: Option<bool>,
    user: Option<UserInfo>,
    audiences: Option<Vec<String>>,
    error: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UserInfo {
    username: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

impl Reviewer {
    /// Reads the kubeconfig. Nothing is sent before the first token.
    pub fn open(options: &Options) -> Result<Reviewer, String> {
        Reviewer::pausing(options, PAUSE)
    }

    /// The same; `pause` is the one after the first attempt.
    fn pausing(options: &Options, pause: Duration) -> Result<Reviewer, String> {
        let version = options.version.clone();
        if !VERSIONS.contains(&version.as_str()) {
            return Err(format!(
                "unsupported authentication webhook version {version:?}, supported versions are \
                 \"v1\", \"v1beta1\""
            ));
        }
        let caller = Caller::read(&options.config_file, PATIENCE)?;
        Ok(Reviewer {
            asked: Arc::new(Asked {
                caller,
                version,
                pause,
            }),
            keep: options.keep,
            kept: Arc::new(Kept::new(ANSWERS_MAX)),
        })
    }

    /// Returns the user of a token. `wanted` are the requested audiences, `ours` those of this
    /// server.
    pub(crate) async fn find(&self, token: &str, wanted: &[String], ours: &[String]) -> Answer {
        if token.len() > TOKEN_BYTES_MAX {
            return Ok(None);
        }
        let asked = Arc::clone(&self.asked);
        let of = (token.to_owned(), wanted.to_vec(), ours.to_vec());
        let keep = self.keep;
        let ask = async move {
            let (token, wanted, ours) = of;
            let known = tokio::time::timeout(PATIENCE, asked.ask(&token, &wanted, &ours)).await;
            let known = known.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
            if let Err(why) = &known {
                tracing::error!(why, "failed to make webhook authenticator request");
            }
            (known, keep)
        };
        let parts = std::iter::once(token).chain(wanted.iter().map(String::as_str));
        self.kept.get(key(parts), ask).await
    }
}

impl Asked {
    async fn ask(&self, token: &str, wanted: &[String], ours: &[String]) -> Answer {
        let review = json!({
            "kind": "TokenReview", "apiVersion": format!("{GROUP}/{}", self.version),
            "metadata": {}, "spec": {"token": token, "audiences": wanted}, "status": {"user": {}},
        });
        let body = Bytes::from(review.to_string());
        let posted = self.caller.post_again(body, ANSWER_BYTES_MAX, self.pause);
        let answer = posted.await.map_err(|failure| failure.why)?;
        let review = answer::read(answer.code.as_u16(), &answer.body)?;
        self.judge(review, wanted, ours)
    }

    /// Reads the webhook's review.
    fn judge(&self, mut review: Value, wanted: &[String], ours: &[String]) -> Answer {
        let version = format!("{GROUP}/{}", self.version);
        let given = object::text(&review, &["apiVersion"]);
        if given != version || object::kind(&review) != "TokenReview" {
            let kind = object::kind(&review);
            return Err(format!(
                "the answer is of {given:?}, Kind={kind:?}, not of {version:?}, Kind=\"TokenReview\""
            ));
        }
        let status = review.get_mut("status").map(Value::take);
        let status: Option<Status> = serde_json::from_value(status.unwrap_or_default())
            .map_err(|error| format!("the status of the answer: {error}"))?;
        let status = status.unwrap_or_default();
        let said = status.audiences.unwrap_or_default();
        let given = if said.is_empty() { ours } else { &said };
        let audiences: Vec<String> = wanted
            .iter()
            .filter(|one| given.contains(one))
            .cloned()
            .collect();
        if audiences.is_empty() {
            return Ok(None);
        }
        if status.authenticated != Some(true) {
            return match status.error.unwrap_or_default() {
                none if none.is_empty() => Ok(None),
                why => Err(why),
            };
        }
        let user = status.user.unwrap_or_default().into_user()?;
        Ok(Some(Arc::new(Known { user, audiences })))
    }
}

impl UserInfo {
    fn into_user(self) -> Result<User, String> {
        let extra = self.extra.unwrap_or_default().into_iter();
        let user = User {
            name: self.username.unwrap_or_default(),
            uid: self.uid.unwrap_or_default(),
            groups: self.groups.unwrap_or_default(),
            extra: extra
                .map(|(key, values)| (key, values.unwrap_or_default()))
                .collect(),
        };
        if user.is_this_process() {
            return Err("the answer names no user".to_owned());
        }
        Ok(user)
    }
}
