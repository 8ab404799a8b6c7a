//! Clients that are bound to a user (by their key or token, a certificate, Munge or the kernel): each of their requests is answered on behalf of that user, whatever the
//! request says, or refused.

use crate::calls::reads_graph;
use esker_model::codec::DecodeError;
use esker_model::graph_read::{GraphCall, GraphCallAs};
use esker_model::object::Principal;
use esker_model::wire::{decode, encode};
use esker_rpc::convert::{principal_in, principal_out};
use esker_rpc::proto;
use esker_rpc::proto::request::Call;

/// The user on whose behalf all requests of a client are answered; `None` if the client may name any principal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BoundUser {
    pub(crate) user: Option<Principal>,
    /// Whether the client may name other users than its own, except root.
    pub(crate) impersonates: bool,
}

impl BoundUser {
    /// Returns the principal for a request that names `said`: the bound user with all groups. Another user is an error. Groups that a
    /// client names do not count, and neither do those that it leaves out: a mode may permit others what it denies to a group.
    pub(crate) fn principal(&self, said: Option<Principal>) -> Result<Option<Principal>, String> {
        let Some(user) = &self.user else {
            return Ok(said);
        };
        match said {
            Some(said) if said.uid != user.uid && self.impersonates && said.uid > 0 => {
                Ok(Some(said))
            }
            Some(said) if said.uid != user.uid => Err(format!(
                "the key or token is bound to user {}, and cannot ask on behalf of user {}: leave out `uid` (--as)",
                user.uid, said.uid
            )),
            _ => Ok(Some(user.clone())),
        }
    }

    /// Message for requests that cannot be answered on behalf of one user.
    pub(crate) fn refusal(user: &Principal, what: &str) -> String {
        format!(
            "the key or token is bound to user {}, and `{what}` is not answered on behalf of one user: ask with a key that is bound to none",
            user.uid
        )
    }

    /// Rewrites a client's request so that it is answered on behalf of the bound user.
    pub(crate) fn bind(
        &self,
        mut request: proto::Request,
        what: &str,
    ) -> Result<proto::Request, String> {
        let Some(user) = &self.user else {
            return Ok(request);
        };
        if reads_graph(&request) {
            let call = proto::AsRequest {
                principal: principal_out(Some(user)),
                request: Some(Box::new(request)),
            };
            return Ok(proto::Request {
                call: Some(Call::As(Box::new(call))),
            });
        }
        match request.call.as_ref() {
            Some(Call::Graph(bytes)) => {
                let call = decode::<GraphCall>(bytes).map_err(|e| malformed("graph", &e))?;
                return self.bind_read(call, None, what);
            }
            Some(Call::GraphAs(bytes)) => {
                let read = decode::<GraphCallAs>(bytes).map_err(|e| malformed("graph_as", &e))?;
                return self.bind_read(read.call, Some(read.principal), what);
            }
            _ => {}
        }
        let mut paths: Vec<&[u8]> = Vec::new();
        let slot = match request.call.as_mut() {
            // Types and servers are visible to everybody.
            Some(Call::Ping(_) | Call::Schema(_) | Call::Cluster(_)) => None,
            Some(Call::As(call)) => Some(&mut call.principal),
            Some(Call::ReadObjects(call)) => Some(&mut call.principal),
            Some(Call::Find(call)) => Some(&mut call.principal),
            Some(Call::Tags(call)) => Some(&mut call.principal),
            Some(Call::Share(call)) => Some(&mut call.principal),
            Some(Call::StatFile(call)) => {
                // The watcher may belong to another user.
                call.watcher = 0;
                paths.push(&call.path);
                Some(&mut call.principal)
            }
            Some(Call::ListFiles(call)) => {
                paths.push(&call.path);
                Some(&mut call.principal)
            }
            Some(Call::WalkFiles(call)) => {
                paths.push(&call.path);
                Some(&mut call.principal)
            }
            Some(Call::Usage(call)) => {
                paths.push(&call.path);
                Some(&mut call.principal)
            }
            Some(Call::Usages(call)) => {
                paths.push(&call.path);
                Some(&mut call.principal)
            }
            Some(Call::FileIds(call)) => {
                paths.extend(call.paths.iter().map(|path| &**path));
                Some(&mut call.principal)
            }
            _ => return Err(Self::refusal(user, what)),
        };
        // A handle of an open file would give access to any client that knows it.
        if paths.iter().any(|path| path.first() != Some(&b'/')) {
            return Err(Self::refusal(user, "open files"));
        }
        if let Some(slot) = slot {
            *slot = principal_out(self.principal(principal_in(slot.take()))?.as_ref());
        }
        Ok(request)
    }

    /// Rewrites a read of the graph so that it is answered on behalf of the bound user.
    fn bind_read(
        &self,
        call: GraphCall,
        said: Option<Principal>,
        what: &str,
    ) -> Result<proto::Request, String> {
        let call = match self.principal(said)? {
            Some(principal) if call.depends_on_principal() => {
                Call::GraphAs(encode(&GraphCallAs { call, principal }))
            }
            // Types are visible to everybody.
            _ if call == GraphCall::Schema => Call::Graph(encode(&call)),
            Some(user) => return Err(Self::refusal(&user, what)),
            None => Call::Graph(encode(&call)),
        };
        Ok(proto::Request { call: Some(call) })
    }
}

fn malformed(field: &str, e: &DecodeError) -> String {
    format!("malformed message: `{field}`: {e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(uid: i64, gids: &[i64]) -> Principal {
        Principal {
            uid,
            gids: gids.to_vec(),
        }
    }

    fn bound() -> BoundUser {
        BoundUser {
            user: Some(principal(1002, &[100, 7])),
            impersonates: false,
        }
    }

    fn request(call: Call) -> proto::Request {
        proto::Request { call: Some(call) }
    }

    #[test]
    fn what_is_said_counts_for_less_than_the_key() {
        assert_eq!(
            bound().principal(None),
            Ok(Some(principal(1002, &[100, 7])))
        );
        // Neither a group of others nor the lack of an own one changes anything.
        for gids in [&[7, 0][..], &[7], &[]] {
            let said = Some(principal(1002, gids));
            assert_eq!(bound().principal(said), Ok(bound().user));
        }
        let refused = bound().principal(Some(principal(0, &[]))).unwrap_err();
        assert!(refused.contains("bound to user 1002"), "{refused}");
        let portal = BoundUser {
            impersonates: true,
            ..bound()
        };
        let ada = principal(1001, &[100]);
        assert_eq!(portal.principal(None), bound().principal(None));
        assert_eq!(portal.principal(Some(ada.clone())), Ok(Some(ada)));
        // Root sees everything.
        assert!(portal.principal(Some(principal(0, &[]))).is_err());
        assert!(portal.principal(Some(principal(-1, &[]))).is_err());
        let free = BoundUser::default();
        assert_eq!(free.principal(None), Ok(None));
        assert_eq!(
            free.principal(Some(principal(5, &[]))),
            Ok(Some(principal(5, &[])))
        );
    }

    #[test]
    fn messages_are_answered_as_the_user_s_or_not_at_all() {
        let user = principal_out(Some(&principal(1002, &[100, 7])));
        let counts = request(Call::Counts(proto::CountsRequest::default()));
        let as_user = request(Call::As(Box::new(proto::AsRequest {
            principal: user.clone(),
            request: Some(Box::new(counts.clone())),
        })));
        assert_eq!(bound().bind(counts.clone(), "counts"), Ok(as_user.clone()));
        assert_eq!(bound().bind(as_user.clone(), "as"), Ok(as_user));
        let root = request(Call::As(Box::new(proto::AsRequest {
            principal: principal_out(Some(&principal(0, &[]))),
            request: Some(Box::new(counts.clone())),
        })));
        assert!(bound().bind(root.clone(), "as").is_err());
        let stat = |path: &[u8], principal| {
            request(Call::StatFile(proto::StatFileRequest {
                principal,
                path: path.to_vec(),
                ..Default::default()
            }))
        };
        assert_eq!(
            bound().bind(stat(b"/a", None), "stat_file"),
            Ok(stat(b"/a", user))
        );
        for path in [&b"\0handle"[..], b""] {
            assert!(bound().bind(stat(path, None), "stat_file").is_err());
        }
        let share = |principal| {
            let call = None;
            request(Call::Share(proto::ShareRequest { principal, call }))
        };
        let bound_share = bound().bind(share(None), "share");
        assert_eq!(
            bound_share,
            Ok(share(principal_out(Some(&principal(1002, &[100, 7])))))
        );
        let other = principal_out(Some(&principal(1003, &[])));
        assert!(bound().bind(share(other), "share").is_err());
        for call in [
            Call::Stats(proto::StatsRequest::default()),
            Call::Check(proto::CheckRequest::default()),
            Call::Apply(proto::ApplyRequest::default()),
            Call::Space(proto::SpaceRequest::default()),
            Call::LookFile(proto::LookFileRequest::default()),
            Call::WatchFiles(proto::WatchFilesRequest::default()),
            Call::TagWhere(proto::TagWhereRequest::default()),
        ] {
            let refused = bound().bind(request(call), "it").unwrap_err();
            assert!(refused.contains("not answered on behalf of one user"));
        }
        let counts = GraphCall::Counts;
        let as_user = request(Call::GraphAs(encode(&GraphCallAs {
            call: counts.clone(),
            principal: principal(1002, &[100, 7]),
        })));
        let bare = request(Call::Graph(encode(&counts)));
        assert_eq!(bound().bind(bare, "counts"), Ok(as_user.clone()));
        assert_eq!(bound().bind(as_user.clone(), "as"), Ok(as_user));
        let root_read = request(Call::GraphAs(encode(&GraphCallAs {
            call: counts,
            principal: principal(0, &[]),
        })));
        assert!(bound().bind(root_read, "as").is_err());
        let schema = request(Call::Graph(encode(&GraphCall::Schema)));
        assert_eq!(bound().bind(schema.clone(), "schema"), Ok(schema));
        let applied = request(Call::Graph(encode(&GraphCall::Applied(vec![1]))));
        assert!(bound().bind(applied, "applied").is_err());
        assert!(
            bound()
                .bind(request(Call::Graph(vec![99])), "graph")
                .is_err()
        );
        assert!(bound().bind(proto::Request::default(), "none").is_err());
        assert_eq!(BoundUser::default().bind(root.clone(), "as"), Ok(root));
    }
}
