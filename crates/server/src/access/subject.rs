//! The sender of a request as records of the audit log describe it.

use super::{Access, Admitted, ClientRights, Proof, Requester};
use esker_audit::{Entry, Outcome, Subject};
use std::sync::{Arc, PoisonError};

impl Requester {
    /// Describes the sender of an admitted request.
    pub(crate) fn subject(&self, access: &Access, admitted: &Admitted) -> Arc<Subject> {
        let proofs = self.caller.proofs();
        let mut cached = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, rights, subject)) = &*cached
            && *of == proofs
            && rights == admitted
        {
            return Arc::clone(subject);
        }
        let subject = Arc::new(self.describe(access, admitted.rights()));
        *cached = Some((proofs, admitted.clone(), Arc::clone(&subject)));
        subject
    }

    /// Records a change of access, or that it failed: `call` by this sender, with the facts of the change.
    pub(crate) fn record_change(
        &self,
        access: &Access,
        call: &str,
        details: Vec<(&'static str, String)>,
        done: bool,
    ) {
        self.record(
            access,
            "access",
            (call, self.allowed(access).ok()),
            details,
            done,
        );
    }

    /// Records that a session begins or ends, or that a key was proved.
    pub(crate) fn record_session(
        &self,
        access: &Access,
        call: &str,
        rights: Option<ClientRights>,
        session: String,
    ) {
        self.record(
            access,
            "session",
            (call, rights),
            vec![("session", session)],
            true,
        );
    }

    fn record(
        &self,
        access: &Access,
        event: &'static str,
        (call, rights): (&str, Option<ClientRights>),
        details: Vec<(&'static str, String)>,
        done: bool,
    ) {
        if !access.audit.is_on() {
            return;
        }
        let subject = Arc::new(self.describe(access, rights.as_ref()));
        let outcome = if done {
            Outcome::Done
        } else {
            Outcome::Failed("INVALID_ARGUMENT".into())
        };
        let protocol = if call.contains(' ') { "http" } else { "grpc" };
        access.audit.record(Entry {
            request: self.request,
            protocol,
            details,
            outcome,
            ..Entry::new(event, call, subject)
        });
    }

    /// Describes the sender of a refused request.
    pub(super) fn refused_subject(&self, access: &Access) -> Arc<Subject> {
        Arc::new(self.describe(access, None))
    }

    fn describe(&self, access: &Access, rights: Option<&ClientRights>) -> Subject {
        let who = match rights.map(|rights| rights.proof) {
            Some(Proof::Token) => self.token_name(access),
            Some(Proof::Session) => self.session_owner(access),
            Some(Proof::Process) => self.caller.user().map(|user| format!("user {user}")),
            _ => None,
        };
        let user = rights.and_then(|rights| rights.user.as_ref());
        let own = self.caller.user().map(i64::from);
        Subject {
            who: who.unwrap_or_else(|| self.description()),
            name: rights.and_then(|rights| rights.name.as_deref().map(str::to_owned)),
            uid: user.map(|user| user.uid).or(own),
            gids: user.map(|user| user.gids.clone()).unwrap_or_default(),
            proof: rights.map_or("none", |rights| rights.proof.name()),
            role: rights.map_or("", |rights| rights.role.name()),
            peer: self.caller.address_text(),
        }
    }
}
