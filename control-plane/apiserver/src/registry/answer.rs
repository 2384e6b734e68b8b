//! Bodies that are answered and not stored: reviews, and requests for tokens.

#[cfg(test)]
mod tests;

use machinery::object;
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::Value;

use crate::admission::CREATE;
use crate::auth::authenticate::token::{Issuer, set_defaults};
use crate::auth::notes::Notes;
use crate::auth::user::ISSUED_CREDENTIAL_ID;
use crate::basics::clock;
use crate::registry::lifecycle;
use crate::registry::verbs::writer::Writer;

impl Writer<'_> {
    /// Answers a review: a kind that can only be created and is never stored.
    pub(crate) async fn review(&self, mut object: Value) -> Result<Value, Status> {
        lifecycle::match_namespace(&self.resource, self.namespace, &mut object)?;
        lifecycle::forget_identity(&mut object);
        self.admit_body("", "", &mut object).await?;
        let registry = self.registry;
        let kind = &self.resource.kind;
        match kind.group() {
            "authentication.k8s.io" => {
                let authenticator = &registry.authenticator;
                let (reader, notes) = (&registry.reader, Notes::default());
                let answer = authenticator.review(reader, self.user, kind, object, &notes);
                let answer = answer.await;
                let noted = notes.take();
                for (key, value) in noted.annotations {
                    if let Some(record) = self.audit {
                        record.annotate(key, value);
                    }
                }
                self.warnings.add(noted.warnings);
                answer
            }
            "authorization.k8s.io" => {
                let authorizer = &registry.authorizer;
                let (reader, user) = (&registry.reader, self.user);
                let answer = authorizer.review(reader, user, kind, self.namespace, object);
                answer.await
            }
            _ => Err(Status::unknown_path()),
        }
    }

    /// Answers a TokenRequest for the service account of this name.
    pub(crate) async fn issue_token(
        &self,
        name: &str,
        mut request: Value,
    ) -> Result<Value, Status> {
        lifecycle::match_namespace(&self.resource, self.namespace, &mut request)?;
        let registry = self.registry;
        let (reader, kind) = (&registry.reader, &self.resource.kind);
        let issuer = registry.issuer.as_ref();
        let issuer = issuer.ok_or_else(Status::unknown_path)?;
        let account = reader.get(kind, self.namespace, name).await?;
        let now = clock::now();
        self.admit_token(issuer, &account, &mut request, now)
            .await?;
        let id = clock::uid();
        let credential = format!("JTI={id}");
        let issued = issuer.issue(reader, &account, request, id, now).await?;
        if let Some(record) = self.audit {
            record.annotate(ISSUED_CREDENTIAL_ID, credential);
        }
        Ok(issued)
    }

    /// Admits a TokenRequest. What may refuse it sees it complete: a request that names no audience
    /// is for this server.
    async fn admit_token(
        &self,
        issuer: &Issuer,
        account: &Value,
        request: &mut Value,
        now: Timestamp,
    ) -> Result<(), Status> {
        set_defaults(request);
        let admission = self.admission(CREATE, "token", object::name(account), None);
        let chain = &self.registry.admission;
        let mutated = chain.mutate(&admission, request).await?;
        issuer.complete(account, request, now)?;
        chain.validate(mutated, &admission, request).await
    }

    /// Admits a body that is answered and not stored.
    pub(crate) async fn admit_body(
        &self,
        subresource: &str,
        name: &str,
        body: &mut Value,
    ) -> Result<(), Status> {
        let admission = self.admission(CREATE, subresource, name, None);
        self.registry.admission.admit(&admission, body).await
    }
}
