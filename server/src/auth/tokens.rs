//! Simple tokens: on every member a token identifies its user, because the log issues tokens. They
//! are kept in memory and expire when unused.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use raft::Now;

/// Tokens kept at one time; beyond this, those that expire first are dropped.
const TOKENS_MAX: usize = 1 << 20;
/// etcd's default.
pub(super) const DEFAULT_TIME_TO_LIVE: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub struct SimpleTokens {
    tokens: HashMap<Arc<str>, Token>,
    /// Every token, with the time at which to check whether it was used meanwhile.
    by_age: VecDeque<(Now, Arc<str>)>,
    time_to_live: Duration,
}

#[derive(Debug)]
struct Token {
    user: Arc<str>,
    ends: Now,
}

impl SimpleTokens {
    pub fn new(time_to_live: Duration) -> SimpleTokens {
        SimpleTokens {
            tokens: HashMap::new(),
            by_age: VecDeque::new(),
            time_to_live,
        }
    }

    pub fn set_time_to_live(&mut self, time_to_live: Duration) {
        self.time_to_live = time_to_live;
    }

    pub fn assign(&mut self, token: &str, user: &str, now: Now) {
        self.drop_old(now);
        let token: Arc<str> = token.into();
        let ends = now + self.time_to_live;
        let user = user.into();
        self.tokens.insert(Arc::clone(&token), Token { user, ends });
        self.by_age.push_back((ends, token));
    }

    /// The user of a token. Counts as use, which extends its life.
    pub fn user(&mut self, token: &str, now: Now) -> Option<Arc<str>> {
        let held = self.tokens.get_mut(token)?;
        if now > held.ends {
            self.tokens.remove(token);
            return None;
        }
        held.ends = now + self.time_to_live;
        Some(Arc::clone(&held.user))
    }

    /// Drops all tokens of this user.
    pub fn invalidate(&mut self, user: &str) {
        self.tokens.retain(|_, held| &*held.user != user);
    }

    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.tokens.retain(|_, held| keep(&held.user));
    }

    pub fn clear(&mut self) {
        self.tokens.clear();
        self.by_age.clear();
    }

    fn drop_old(&mut self, now: Now) {
        while let Some((due, _)) = self.by_age.front() {
            let is_full = self.tokens.len() >= TOKENS_MAX;
            if *due >= now && !is_full {
                break;
            }
            let Some((_, token)) = self.by_age.pop_front() else {
                break;
            };
            match self.tokens.get(&token) {
                Some(held) if held.ends >= now && !is_full => {
                    self.by_age.push_back((held.ends, token));
                }
                Some(_) => {
                    self.tokens.remove(&token);
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(300);

    fn at(secs: u64) -> Now {
        Now::from_secs(secs)
    }

    #[test]
    fn a_token_lives_as_long_as_it_is_used() {
        let mut tokens = SimpleTokens::new(TTL);
        tokens.assign("a.1", "alice", at(0));
        assert_eq!(tokens.user("a.1", at(300)).as_deref(), Some("alice"));
        assert_eq!(tokens.user("a.1", at(600)).as_deref(), Some("alice"));
        assert_eq!(tokens.user("a.1", at(901)), None);
        assert_eq!(tokens.user("a.1", at(0)), None, "it is gone for good");
        assert_eq!(tokens.user("a.2", at(0)), None);
    }

    #[test]
    fn tokens_that_nobody_asks_for_leave_memory() {
        let mut tokens = SimpleTokens::new(TTL);
        for n in 0..1000 {
            tokens.assign(&format!("a.{n}"), "alice", at(n));
            tokens.user("a.0", at(n));
        }
        // The tokens of the last 300 seconds, and the one in use.
        assert!((301..=303).contains(&tokens.tokens.len()));
        assert_eq!(tokens.by_age.len(), tokens.tokens.len());
        assert_eq!(tokens.user("a.0", at(1000)).as_deref(), Some("alice"));
    }

    #[test]
    fn a_users_tokens_go_together() {
        let mut tokens = SimpleTokens::new(TTL);
        tokens.assign("a.1", "alice", at(0));
        tokens.assign("a.2", "alice", at(0));
        tokens.assign("b.3", "bob", at(0));
        tokens.invalidate("alice");
        assert_eq!(tokens.user("a.1", at(1)), None);
        assert_eq!(tokens.user("a.2", at(1)), None);
        assert_eq!(tokens.user("b.3", at(1)).as_deref(), Some("bob"));
        tokens.clear();
        assert_eq!(tokens.user("b.3", at(1)), None);
    }
}
