//! What is in force, for those who answer calls while the state goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use super::tokens::DEFAULT_TIME_TO_LIVE;
use super::{Image, SimpleTokens};

/// Changed by the state as it applies entries, before what they wrote can be read: whoever takes a
/// view first and asks here then is never judged by what was in force before that view.
#[derive(Debug)]
pub struct Shared {
    /// That of the image: asked before each request, and most stores have no users.
    enabled: AtomicBool,
    image: RwLock<Arc<Image>>,
    pub tokens: Mutex<SimpleTokens>,
}

impl Shared {
    pub fn new(image: Arc<Image>) -> Shared {
        Shared {
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

    pub(crate) fn publish(&self, image: Arc<Image>) {
        let enabled = image.enabled;
        // On before it is needed, off after it was.
        if enabled {
            self.enabled.store(true, Ordering::Release);
        }
        *self.image.write() = image;
        self.enabled.store(enabled, Ordering::Release);
    }
}
