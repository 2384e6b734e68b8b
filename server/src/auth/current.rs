//! The image in force, shared with the threads that answer calls while the state applies entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use super::tokens::DEFAULT_TIME_TO_LIVE;
use super::{Image, SimpleTokens};

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
