//! Deletes tokens that are over.

use super::{Life, is_token, life};
use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, delete};
use crate::known::Key;
use crate::loops::{Context, Loop};
use crate::meta;

pub(crate) struct TokenCleaner;

impl Loop for TokenCleaner {
    fn name(&self) -> &'static str {
        "token-cleaner"
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        if let Changed::Secret(Diff { new: Some(new), .. }) = changed
            && is_token(new)
        {
            wake(meta::key(&new.metadata));
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let token = context.caches.secrets.at(key);
        let Some(token) = token.filter(|token| is_token(token)) else {
            return Decision::nothing();
        };
        let mut decision = Decision::nothing();
        match life(token, context.now) {
            Life::Endless => {}
            Life::Left(left) => decision.again(left),
            Life::Over => {
                decision.push(delete(token.as_ref()));
            }
        }
        decision
    }
}
