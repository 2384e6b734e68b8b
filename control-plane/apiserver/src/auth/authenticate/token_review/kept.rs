//! Answers about tokens, kept for a while. Whoever asks about a token that is being asked about
//! waits for the same answer.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Answer;

/// Upper bound of kept answers; the oldest goes first.
const ANSWERS_MAX: usize = 32 << 10;
/// Upper bound of tokens that are asked about at one time. Whoever has no credentials can make up
/// tokens, and each costs a connection.
const ASKED_MAX: usize = 1024;

/// Hides tokens from whoever reads the memory, and spares the table collisions made on purpose.
static HIDING: LazyLock<hmac::Key> = LazyLock::new(|| {
    // A system without randomness cannot generate uids either.
    hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).expect("the system is random")
});

/// What answers are kept by.
pub(super) type Key = [u8; 32];

/// The table of answers.
pub(super) struct Kept {
    keep: Duration,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    answers: HashMap<Key, Answer>,
    /// The keys of all answers in the order in which they end.
    order: VecDeque<(Instant, Key)>,
    asked: HashMap<Key, watch::Receiver<Option<Answer>>>,
}

/// The key of a token for some audiences. Lengths keep different ones from looking the same.
pub(super) fn key(token: &str, audiences: &[String]) -> Key {
    let mut text = Vec::new();
    let mut add = |part: &[u8]| {
        text.extend_from_slice(&(part.len() as u64).to_le_bytes());
        text.extend_from_slice(part);
    };
    add(token.as_bytes());
    for audience in audiences {
        add(audience.as_bytes());
    }
    let mut key = Key::default();
    key.copy_from_slice(hmac::sign(&HIDING, &text).as_ref());
    key
}

impl Kept {
    /// Keeps answers for this long.
    pub(super) fn new(keep: Duration) -> Kept {
        Kept {
            keep,
            table: Mutex::default(),
        }
    }

    /// Returns the kept answer, or that of `ask`, which goes on if the caller goes away: others may
    /// wait for it.
    pub(super) async fn get(
        self: &Arc<Kept>,
        key: Key,
        ask: impl Future<Output = Answer> + Send + 'static,
    ) -> Answer {
        let mut answered = {
            let mut table = self.table.lock();
            if let Some(answer) = table.find(&key, Instant::now()) {
                return answer;
            }
            match table.asked.get(&key) {
                Some(answered) => answered.clone(),
                None if table.asked.len() == ASKED_MAX => {
                    return Err("too many tokens are asked about".to_owned());
                }
                None => {
                    let (tell, answered) = watch::channel(None);
                    table.asked.insert(key, answered.clone());
                    let kept = Arc::clone(self);
                    tokio::spawn(async move {
                        let answer = ask.await;
                        kept.table.lock().take(key, &answer, kept.keep);
                        // Nobody may wait for it any more.
                        let _ = tell.send(Some(answer));
                    });
                    answered
                }
            }
        };
        let answer = answered.wait_for(Option::is_some).await;
        let answer = answer.ok().and_then(|answer| answer.clone());
        answer.unwrap_or_else(|| Err("the server stops".to_owned()))
    }
}

impl Table {
    fn find(&mut self, key: &Key, now: Instant) -> Option<Answer> {
        while let Some((end, key)) = self.order.front()
            && *end <= now
        {
            self.answers.remove(key);
            self.order.pop_front();
        }
        self.answers.get(key).cloned()
    }

    /// Takes the answer to a question. Errors are not kept.
    fn take(&mut self, key: Key, answer: &Answer, keep: Duration) {
        self.asked.remove(&key);
        if answer.is_err() || keep.is_zero() {
            return;
        }
        if self.order.len() == ANSWERS_MAX
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
        self.answers.insert(key, answer.clone());
        self.order.push_back((Instant::now() + keep, key));
    }
}
