//! Who makes a call, and what they may do. Checked anew for each request, also on streams.
//! A read takes its view first. It is then judged by the users and roles in force at that moment,
//! which are never older than the view. A change is judged when it is applied; one without a user
//! is refused before it enters the log.

use std::sync::Arc;

use aws_lc_rs::digest;
use etcd_api::etcdserverpb as pb;

use super::EtcdServer;
use crate::auth::Authenticated;
use crate::auth::{Credentials, Image, Tokens};
use crate::basics::error::Error;
use crate::member::event::{Answer, Outcome};
use crate::request::{AuthInfo, AuthRequest, Request};

/// bcrypt's limit. It would silently cut off longer passwords.
const PASSWORD_BYTES_MAX: usize = 72;

/// Characters that the log shows of the name in a login that failed. Anybody may send any name, of
/// more than a megabyte.
const NAME_CHARS_LOGGED: usize = 64;

impl EtcdServer {
    /// True if auth is enabled.
    pub(crate) fn is_auth_enabled(&self) -> bool {
        self.0.auth.is_enabled()
    }

    /// The user that makes a call; `None` if it names none. Tokens count only if auth is enabled.
    pub(crate) async fn auth_info(&self, who: &Credentials) -> Result<Option<AuthInfo>, Error> {
        match self.auth_info_now(who) {
            Some(known) => known,
            None => {
                // The token may come from an entry that is not applied here yet.
                self.linearizable().await?;
                self.auth_info_now(who)
                    .unwrap_or(Err(Error::InvalidAuthToken))
            }
        }
    }

    /// Like [`Self::auth_info`] without waiting. `None`: unknown until this member has caught up.
    pub(crate) fn auth_info_now(
        &self,
        who: &Credentials,
    ) -> Option<Result<Option<AuthInfo>, Error>> {
        let auth = &self.0.auth;
        if auth.is_enabled()
            && let Some(token) = &who.token
        {
            return self.token_info(token);
        }
        let common_name = who.common_name.as_ref();
        Some(Ok(common_name.map(|name| auth.named(name))))
    }

    /// The user of a token, as far as this member knows.
    pub(crate) fn user_of_token(&self, token: &str) -> Option<String> {
        Some(self.look_up_token(token)??.user)
    }

    fn token_info(&self, token: &str) -> Option<Result<Option<AuthInfo>, Error>> {
        let info = self.look_up_token(token)?;
        if info.is_none() {
            let fingerprint = fingerprint(token);
            tracing::warn!("token-fingerprint" = fingerprint, "invalid auth token");
        }
        Some(info.map(Some).ok_or(Error::InvalidAuthToken))
    }

    /// Inner `None`: no user has this token. Outer `None`: unknown until this member has caught up.
    fn look_up_token(&self, token: &str) -> Option<Option<AuthInfo>> {
        // Read before the lookup: the lookup then finds the tokens of all entries up to this index.
        let applied = self.0.shared.progress.applied();
        match &self.0.tokens {
            Tokens::Simple => self.0.auth.user_of(token, applied, self.0.clock.now()),
            Tokens::Signed(signed) => Some(signed.verify(token, crate::basics::clock::unix_time())),
            Tokens::Off => Some(None),
        }
    }

    /// Judges a read by the users and roles in force, and returns its user. Take the read's view
    /// before this call.
    pub(crate) async fn check_read(
        &self,
        who: &Credentials,
        ask: impl FnOnce(&Image, &AuthInfo) -> Result<(), Error>,
    ) -> Result<AuthInfo, Error> {
        if !self.0.auth.is_enabled() {
            return Ok(AuthInfo::default());
        }
        let by = self.auth_info(who).await?.unwrap_or_default();
        self.0.auth.judge_read(&by, ask)?;
        Ok(by)
    }

    /// Fails if users or roles have changed since `by` was admitted. For reads that take long.
    pub(crate) fn check_still(&self, by: &AuthInfo) -> Result<(), Error> {
        if by.revision != 0 && by.revision != self.0.auth.image().revision {
            Err(Error::AuthOldRevision)
        } else {
            Ok(())
        }
    }

    /// Whether a watch may be created. `None`: ask again after [`EtcdServer::linearizable`].
    pub(crate) fn check_watch_now(
        &self,
        who: &Credentials,
        ask: impl FnOnce(&Image, &AuthInfo) -> Result<(), Error>,
    ) -> Option<Result<(), Error>> {
        if !self.0.auth.is_enabled() {
            return Some(Ok(()));
        }
        let known = self.auth_info_now(who)?;
        Some(known.and_then(|by| ask(&self.0.auth.image(), &by.unwrap_or_default())))
    }

    /// Fails if auth is enabled and the call names no user.
    pub(crate) async fn require_user(&self, who: &Credentials) -> Result<(), Error> {
        if !self.0.auth.is_enabled() {
            return Ok(());
        }
        let by = self.auth_info(who).await?;
        self.0.auth.image().check_any(by.as_ref())
    }

    /// Fails if auth is enabled and the user does not have the root role.
    pub(crate) async fn require_admin(&self, who: &Credentials) -> Result<(), Error> {
        if !self.0.auth.is_enabled() {
            return Ok(());
        }
        let by = self.auth_info(who).await?;
        self.0.auth.image().check_admin(by.as_ref())
    }

    /// Checks a question about leases, because its answer shows their keys.
    pub(crate) async fn check_leases(
        &self,
        who: &Credentials,
        ask: impl FnOnce(&Image, &AuthInfo) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.0.auth.is_enabled() {
            return Ok(());
        }
        let by = self.auth_info(who).await?;
        let image = self.0.auth.image();
        image.check_any(by.as_ref())?;
        ask(&image, &by.unwrap_or_default())
    }

    /// Fails if users or roles count and have changed since `revision`. For answers that took long
    /// to get.
    pub(crate) fn check_unchanged(&self, revision: u64) -> Result<(), Error> {
        self.0.auth.check_unchanged(revision)
    }

    pub(crate) fn auth_image(&self) -> Arc<Image> {
        self.0.auth.image()
    }

    /// For questions about users and roles. Returns the user that asks, and the rules that include
    /// every change acknowledged before the call.
    pub(crate) async fn auth_question(
        &self,
        who: &Credentials,
    ) -> Result<(AuthInfo, Arc<Image>), Error> {
        let by = self.auth_info(who).await?.unwrap_or_default();
        self.linearizable().await?;
        Ok((by, self.0.auth.image()))
    }

    /// Changes users or roles. Callers without permission are refused before anything is hashed or
    /// written; the decisive check happens when the change is applied.
    pub(crate) async fn change_auth(
        &self,
        who: &Credentials,
        mut request: AuthRequest,
    ) -> Result<Answer, Error> {
        let password = match &mut request {
            AuthRequest::UserAdd(r) if !r.options.unwrap_or_default().no_password => {
                Some((&mut r.password, &mut r.hashed_password))
            }
            AuthRequest::UserChangePassword(r) if !r.password.is_empty() => {
                Some((&mut r.password, &mut r.hashed_password))
            }
            _ => None,
        };
        if let Some((password, _)) = &password
            && password.len() > PASSWORD_BYTES_MAX
        {
            let text = format!("bcrypt: password length exceeds {PASSWORD_BYTES_MAX} bytes");
            return Err(Error::Other(tonic::Code::Unknown, text));
        }
        let (by, image) = self.auth_question(who).await?;
        image.check_admin(Some(&by))?;
        if let Some((password, hashed)) = password {
            *hashed = self.0.login.hash(std::mem::take(password)).await?;
        }
        self.propose_by(Request::Auth(request), who).await
    }

    /// Checks a password and returns a token.
    pub(crate) async fn authenticate(
        &self,
        name: String,
        password: String,
    ) -> Result<(String, i64), Error> {
        self.linearizable().await?;
        loop {
            let image = self.0.auth.image();
            if let Err(error) = self.check_password(&image, &name, &password).await {
                if error != Error::AuthNotEnabled {
                    let user: String = name.chars().take(NAME_CHARS_LOGGED).collect();
                    tracing::warn!(user, %error, "invalid authentication was requested");
                }
                return Err(error);
            }
            let request = pb::InternalAuthenticateRequest {
                name: name.clone(),
                password: String::new(),
                simple_token: self.0.tokens.prefix()?,
            };
            let applied = self.propose(Request::Authenticate(request)).await?;
            // The password may have changed before this became an entry.
            if self.0.auth.image().revision != image.revision {
                tracing::info!("revision when password checked became stale; retrying");
                continue;
            }
            let Outcome::Authenticated(authenticated) = applied.outcome else {
                unreachable!("a login was answered with {:?}", applied.outcome);
            };
            return Ok((self.token_for(authenticated)?, applied.revision));
        }
    }

    async fn check_password(&self, image: &Image, name: &str, password: &str) -> Result<(), Error> {
        if !image.enabled {
            return Err(Error::AuthNotEnabled);
        }
        let user = image.user(name).ok_or(Error::AuthFailed)?;
        if user.has_no_password() {
            return Err(Error::no_password_user());
        }
        let (login, hash) = (&self.0.login, user.row.password.clone());
        login.check(name, hash, password, self.0.clock).await
    }

    fn token_for(&self, authenticated: Authenticated) -> Result<String, Error> {
        match &self.0.tokens {
            Tokens::Simple => Ok(authenticated.token),
            Tokens::Signed(signed) => {
                signed.sign(&authenticated, crate::basics::clock::unix_time())
            }
            Tokens::Off => Err(Error::AuthFailed),
        }
    }
}

/// Distinguishes tokens in the log and reveals nothing else. Same as etcd's.
fn fingerprint(token: &str) -> String {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    digest.as_ref()[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
