//! Answers of webhooks, kept for a while. Whoever asks what is being asked already waits for the
//! same answer.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// Upper bound of questions that are asked at one time. Whoever has no credentials can make up
/// tokens, and each costs a connection.
const ASKED_MAX: usize = 1024;

/// Hides questions from whoever reads the memory, and spares the table collisions made on purpose.
static HIDING: LazyLock<hmac::Key> = LazyLock::new(|| {
    // A system without randomness cannot generate uids either.
    hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).expect("the system is random")
});

/// An answer. An error is never kept.
pub(crate) type Answer<T> = Result<T, String>;

/// What answers are kept by.
pub(crate) type Key = [u8; 32];

/// The table of answers.
pub(crate) struct Kept<T> {
    /// Upper bound of kept answers; the one that ends first goes first.
    answers_max: usize,
    table: Mutex<Table<T>>,
}

struct Table<T> {
    answers: HashMap<Key, (Instant, Answer<T>)>,
    /// The keys of all answers in the order in which they end.
    order: BTreeSet<(Instant, Key)>,
    asked: HashMap<Key, watch::Receiver<Option<Answer<T>>>>,
}

/// The key of a question in several parts. Lengths keep different ones from looking the same.
pub(crate) fn key<'a>(parts: impl IntoIterator<Item = &'a str>) -> Key {
    let mut text = Vec::new();
    for part in parts {
        text.extend_from_slice(&(part.len() as u64).to_le_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    let mut key = Key::default();
    key.copy_from_slice(hmac::sign(&HIDING, &text).as_ref());
    key
}

impl<T: Clone + Send + Sync + 'static> Kept<T> {
    /// A table of at most this many answers.
    pub(crate) fn new(answers_max: usize) -> Kept<T> {
        Kept {
            answers_max,
            table: Mutex::new(Table {
                answers: HashMap::new(),
                order: BTreeSet::new(),
                asked: HashMap::new(),
            }),
        }
    }

    /// Returns the kept answer, or that of `ask`, which says how long it is kept. It goes on if the
    /// caller goes away: others may wait for it.
    pub(crate) async fn get(
        self: &Arc<Self>,
        key: Key,
        ask: impl Future<Output = (Answer<T>, Duration)> + Send + 'static,
    ) -> Answer<T> {
        let mut answered = {
            let mut table = self.table.lock();
            if let Some(answer) = table.find(&key, Instant::now()) {
                return answer;
            }
            match table.asked.get(&key) {
                Some(answered) => answered.clone(),
                None if table.asked.len() == ASKED_MAX => {
                    return Err("too many questions are asked at one time".to_owned());
                }
                None => {
                    let (tell, answered) = watch::channel(None);
                    table.asked.insert(key, answered.clone());
                    let kept = Arc::clone(self);
                    tokio::spawn(async move {
                        let (answer, keep) = ask.await;
                        let answers_max = kept.answers_max;
                        kept.table.lock().take(key, &answer, keep, answers_max);
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

impl<T: Clone> Table<T> {
    fn find(&mut self, key: &Key, now: Instant) -> Option<Answer<T>> {
        while let Some((end, key)) = self.order.first().copied()
            && end <= now
        {
            self.answers.remove(&key);
            self.order.pop_first();
        }
        self.answers.get(key).map(|(_, answer)| answer.clone())
    }

    /// Takes the answer to a question.
    fn take(&mut self, key: Key, answer: &Answer<T>, keep: Duration, answers_max: usize) {
        self.asked.remove(&key);
        if answer.is_err() || keep.is_zero() {
            return;
        }
        if let Some((end, _)) = self.answers.remove(&key) {
            self.order.remove(&(end, key));
        }
        if self.order.len() >= answers_max
            && let Some((_, first)) = self.order.pop_first()
        {
            self.answers.remove(&first);
        }
        let end = Instant::now() + keep;
        self.answers.insert(key, (end, answer.clone()));
        self.order.insert((end, key));
    }
}
