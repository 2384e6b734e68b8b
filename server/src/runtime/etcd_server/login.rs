//! Hashes and checks passwords. bcrypt is slow on purpose, so it runs on separate threads, a few at
//! a time. A password that was right before is recognised by a digest that is useless outside this
//! process.

use std::collections::HashMap;
use std::time::Duration;

use aws_lc_rs::{constant_time, hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::run_blocking;
use crate::basics::clock::Clock;
use crate::basics::error::Error;

/// Passwords hashed at one time. More would only take processor time from other work.
const HASHES_AT_ONCE: usize = 2;
/// Passwords that wait to be hashed. One more is refused with "too many requests".
const HASHES_WAITING: usize = 256;
/// Users whose password is recognised without bcrypt.
const KNOWN_MAX: usize = 16_384;
/// Wrong passwords of one user in a row before further tries are delayed.
const FREE_FAILURES: u32 = 10;
/// The first delay. Each further failure doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(5);
/// A try that would have to wait longer is refused.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Login {
    cost: u32,
    /// Random; known to this process alone.
    key: hmac::Key,
    tries: Mutex<Tries>,
    /// One permit for each password that is hashed or waits.
    places: Semaphore,
    turns: Semaphore,
}

#[derive(Default)]
struct Tries {
    /// Per user, a digest of the stored hash and the password that matched it.
    known: HashMap<String, hmac::Tag>,
    /// Users whose last tries were wrong.
    failed: HashMap<String, Failed>,
}

#[derive(Default)]
struct Failed {
    count: u32,
    /// Earliest time of the next try.
    next: Duration,
}

impl Login {
    pub(crate) fn new(cost: u32) -> Result<Login, Error> {
        let mut key = [0; 32];
        fill(&mut key)?;
        Ok(Login {
            cost,
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            tries: Mutex::default(),
            places: Semaphore::new(HASHES_AT_ONCE + HASHES_WAITING),
            turns: Semaphore::new(HASHES_AT_ONCE),
        })
    }

    /// Hashes a password into the form that the log carries.
    pub(super) async fn hash(&self, password: String) -> Result<String, Error> {
        let _turn = self.turn().await?;
        let (cost, mut salt) = (self.cost, [0; 16]);
        fill(&mut salt)?;
        let hash = run_blocking(move || {
            let hash = bcrypt::hash_with_salt(password, cost, salt);
            hash.map_err(|error| Error::Other(tonic::Code::Unknown, format!("bcrypt: {error}")))
        });
        // The bcrypt version that Go writes and every etcd reads.
        let text = hash.await?.format_for_version(bcrypt::Version::TwoA);
        Ok(STANDARD.encode(text))
    }

    /// Fails unless the password matches the stored hash.
    pub(super) async fn check(
        &self,
        user: &str,
        hash: Bytes,
        password: &str,
        clock: Clock,
    ) -> Result<(), Error> {
        let digest = self.digest(&hash, password);
        if self.is_known(user, &digest) {
            return Ok(());
        }
        let wait = self.delay(user, clock.now())?;
        if !wait.is_zero() {
            tracing::warn!(
                "user-name" = user,
                delay = ?wait,
                "too many wrong passwords in a row; delaying the next try"
            );
            tokio::time::sleep(wait).await;
        }
        let _turn = self.turn().await?;
        let password = password.to_owned();
        let is_right = run_blocking(move || {
            let hash = std::str::from_utf8(&hash).unwrap_or_default();
            // A malformed hash matches no password.
            Ok(bcrypt::verify(password, hash).unwrap_or(false))
        });
        if is_right.await? {
            self.note_right(user, digest);
            Ok(())
        } else {
            tracing::info!("user-name" = user, "invalid password");
            self.note_wrong(user, clock.now());
            Err(Error::AuthFailed)
        }
    }

    async fn turn(&self) -> Result<[SemaphorePermit<'_>; 2], Error> {
        let place = self.places.try_acquire();
        let place = place.map_err(|_| Error::TooManyRequests)?;
        let turn = self.turns.acquire().await.map_err(|_| Error::Stopped)?;
        Ok([place, turn])
    }

    fn digest(&self, hash: &[u8], password: &str) -> hmac::Tag {
        let mut digest = hmac::Context::with_key(&self.key);
        // The length keeps hash and password apart in the digest.
        digest.update(&(hash.len() as u64).to_le_bytes());
        digest.update(hash);
        digest.update(password.as_bytes());
        digest.sign()
    }

    fn is_known(&self, user: &str, digest: &hmac::Tag) -> bool {
        let tries = self.tries.lock();
        tries.known.get(user).is_some_and(|known| {
            constant_time::verify_slices_are_equal(known.as_ref(), digest.as_ref()).is_ok()
        })
    }

    /// How long this try must wait. Tries queue one behind the other, so sending many at once is no
    /// faster.
    fn delay(&self, user: &str, now: Duration) -> Result<Duration, Error> {
        let mut tries = self.tries.lock();
        let Some(failed) = tries.failed.get_mut(user) else {
            return Ok(Duration::ZERO);
        };
        let Some(excess) = failed.count.checked_sub(FREE_FAILURES) else {
            return Ok(Duration::ZERO);
        };
        let wait = failed.next.saturating_sub(now);
        if wait > PATIENCE {
            return Err(Error::TooManyRequests);
        }
        let pause = FIRST_DELAY
            .saturating_mul(1 << excess.min(16))
            .min(DELAY_MAX);
        failed.next = failed.next.max(now) + pause;
        Ok(wait)
    }

    fn note_right(&self, user: &str, digest: hmac::Tag) {
        let mut tries = self.tries.lock();
        tries.failed.remove(user);
        if tries.known.len() >= KNOWN_MAX
            && !tries.known.contains_key(user)
            && let Some(any) = tries.known.keys().next().cloned()
        {
            tries.known.remove(&any);
        }
        tries.known.insert(user.to_owned(), digest);
    }

    /// Called for existing users only, so the map has at most one entry for each of them.
    fn note_wrong(&self, user: &str, now: Duration) {
        let mut tries = self.tries.lock();
        let failed = tries.failed.entry(user.to_owned()).or_default();
        failed.count = failed.count.saturating_add(1);
        failed.next = failed.next.max(now);
    }
}

fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    rand::fill(bytes).map_err(|_| Error::Other(tonic::Code::Unknown, "no randomness".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: u32 = 4;
    const NOON: Duration = Duration::from_secs(43_200);

    async fn hash(login: &Login, password: &str) -> Bytes {
        let text = login.hash(password.to_owned()).await.unwrap();
        STANDARD.decode(text).unwrap().into()
    }

    #[tokio::test]
    async fn who_was_right_before_is_known_without_bcrypt_until_something_changes() {
        let login = Login::new(CHEAP).unwrap();
        let clock = Clock::start();
        let (secret, other) = (hash(&login, "secret").await, hash(&login, "other").await);
        assert_eq!(
            login.check("alice", secret.clone(), "secret", clock).await,
            Ok(())
        );
        let wrong = login.check("alice", secret.clone(), "other", clock).await;
        assert_eq!(wrong, Err(Error::AuthFailed));
        // From here on, a try that needs bcrypt is refused.
        let all = (HASHES_AT_ONCE + HASHES_WAITING) as u32;
        let _all = login.places.acquire_many(all).await.unwrap();
        let asked = async |user, hash: &Bytes, password| {
            login.check(user, hash.clone(), password, clock).await
        };
        assert_eq!(asked("alice", &secret, "secret").await, Ok(()));
        for (user, hash, password) in [
            ("alice", &secret, "secre"),
            ("alice", &secret, ""),
            // Her password has changed, or another user has got her name.
            ("alice", &other, "secret"),
            ("alice", &other, "other"),
            ("bob", &secret, "secret"),
        ] {
            let refused = asked(user, hash, password).await;
            assert_eq!(refused, Err(Error::TooManyRequests), "{user} {password}");
        }
    }

    #[test]
    fn wrong_passwords_in_a_row_make_the_next_try_wait() {
        let login = Login::new(CHEAP).unwrap();
        for _ in 0..FREE_FAILURES {
            assert_eq!(login.delay("alice", NOON), Ok(Duration::ZERO));
            login.note_wrong("alice", NOON);
        }
        // They queue one behind the other, however many come at once.
        for place in 0..3 {
            assert_eq!(login.delay("alice", NOON), Ok(FIRST_DELAY * place));
        }
        login.note_wrong("alice", NOON);
        assert_eq!(login.delay("alice", NOON), Ok(FIRST_DELAY * 3));
        assert_eq!(login.delay("alice", NOON), Ok(FIRST_DELAY * 5));
        let tries = (0..100).map(|_| {
            login.note_wrong("alice", NOON);
            login.delay("alice", NOON)
        });
        let refused = tries.filter(|tried| *tried == Err(Error::TooManyRequests));
        assert!(refused.count() > 90);
        assert_eq!(login.delay("bob", NOON), Ok(Duration::ZERO));
        // Later, one try is let in again.
        let later = NOON + DELAY_MAX * 3;
        assert_eq!(login.delay("alice", later), Ok(Duration::ZERO));
        assert_eq!(login.delay("alice", later), Ok(DELAY_MAX));
        // The right password ends the delay.
        login.note_right("alice", login.digest(b"", ""));
        assert_eq!(login.delay("alice", NOON), Ok(Duration::ZERO));
    }
}
