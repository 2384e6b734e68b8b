//! The image in force, shared with the threads that answer calls while the state applies entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use raft::Now;

use super::tokens::DEFAULT_TIME_TO_LIVE;
use super::{Image, SimpleTokens, Tokens};
use crate::basics::error::Error;
use crate::request::AuthInfo;

/// The state updates this as it applies an entry, before the entry's writes can be read. So a
/// caller that first takes a view and then checks here never uses permissions older than its view.
#[derive(Debug)]
pub struct CurrentAuth {
    /// The image's `enabled`, kept separately: it is read before each request, and most clusters do
    /// not use auth.
    enabled: AtomicBool,
    image: RwLock<Arc<Image>>,
    pub tokens: Mutex<SimpleTokens>,
}

impl CurrentAuth {
    pub fn new(image: Arc<Image>) -> CurrentAuth {
        CurrentAuth {
            enabled: AtomicBool::new(image.enabled),
            image: RwLock::new(image),
            tokens: Mutex::new(SimpleTokens::new(DEFAULT_TIME_TO_LIVE)),
        }
    }

    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    pub fn image(&self) -> Arc<Image> {
        Arc::clone(&self.image.read())
    }

    /// The user that a certificate's common name stands for.
    pub fn named(&self, common_name: &str) -> AuthInfo {
        AuthInfo {
            user: common_name.to_owned(),
            revision: self.image().revision,
        }
    }

    /// The user of a simple token. `applied` is the newest entry that this member had applied before
    /// this call: the lookup then finds the tokens of all entries up to it. Inner `None`: no user has
    /// this token. Outer `None`: unknown until this member has caught up.
    pub fn user_of(&self, token: &str, applied: u64, now: Now) -> Option<Option<AuthInfo>> {
        let revision = self.image().revision;
        let user = self.tokens.lock().user(token, now);
        let index = Tokens::index_of(token);
        if user.is_none() && index.is_some_and(|before| before >= applied) {
            return None;
        }
        Some(user.map(|user| AuthInfo {
            user: user.to_string(),
            revision,
        }))
    }

    /// Judges a read by the users and roles in force. Like etcd, checks the revision again after
    /// `ask`: a token that claims a later revision than the current one fails here.
    pub fn judge_read(
        &self,
        by: &AuthInfo,
        ask: impl FnOnce(&Image, &AuthInfo) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let image = self.image();
        ask(&image, by)?;
        if image.enabled && by.revision != 0 && by.revision != image.revision {
            Err(Error::AuthOldRevision)
        } else {
            Ok(())
        }
    }

    /// Fails if users or roles count and have changed since `revision`, when an answer was judged.
    pub fn check_unchanged(&self, revision: u64) -> Result<(), Error> {
        let image = self.image();
        if image.enabled && image.revision != revision {
            Err(Error::AuthOldRevision)
        } else {
            Ok(())
        }
    }

    pub(crate) fn publish(&self, image: Arc<Image>) {
        let enabled = image.enabled;
        // Set before the new image is visible, cleared after it.
        if enabled {
            self.enabled.store(true, Ordering::Release);
        }
        *self.image.write() = image;
        self.enabled.store(enabled, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(enabled: bool, revision: u64) -> Arc<Image> {
        Arc::new(Image::new(enabled, revision, Vec::new(), Vec::new()))
    }

    #[test]
    fn what_was_judged_by_other_users_and_roles_is_not_answered() {
        let auth = CurrentAuth::new(image(true, 3));
        assert_eq!(auth.check_unchanged(3), Ok(()));
        auth.publish(image(true, 4));
        assert_eq!(auth.check_unchanged(3), Err(Error::AuthOldRevision));
        auth.publish(image(false, 5));
        assert_eq!(auth.check_unchanged(3), Ok(()));
        // Nobody was judged when they did not count.
        auth.publish(image(true, 6));
        assert_eq!(auth.check_unchanged(5), Err(Error::AuthOldRevision));
    }
}
