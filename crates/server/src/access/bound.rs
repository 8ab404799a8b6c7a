//! Clients whose key or token is bound to a user (`esker-user`): each of their requests is answered as that user's, whatever it says, or not at
//! all.

use esker_model::object::Asker;
use esker_rpc::client::reads_graph;
use esker_rpc::convert::{asker_in, asker_out};
use esker_rpc::proto;
use esker_rpc::proto::request::Call;

/// As whom a request is answered by the rights of whoever sends it; none if they may ask on anybody's behalf.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BoundUser(pub(crate) Option<Asker>);

impl BoundUser {
    /// As whom a request is answered that says `said`. A user of its own may name fewer of its groups; another user is refused.
    pub(crate) fn asker(&self, said: Option<Asker>) -> Result<Option<Asker>, String> {
        let Some(user) = &self.0 else {
            return Ok(said);
        };
        match said {
            None => Ok(Some(user.clone())),
            Some(mut said) if said.uid == user.uid => {
                said.gids.retain(|gid| user.gids.contains(gid));
                Ok(Some(said))
            }
            Some(said) => Err(format!(
                "the key or token is bound to user {}, and cannot ask on behalf of user {}: leave out `uid` (--as)",
                user.uid, said.uid
            )),
        }
    }

    /// What is said where something is not answered as one user's.
    pub(crate) fn refusal(user: &Asker, what: &str) -> String {
        format!(
            "the key or token is bound to user {}, and `{what}` is not answered on behalf of one user: ask with a key that is bound to none",
            user.uid
        )
    }

    /// A message of a client as it is answered.
    pub(crate) fn bind(
        &self,
        mut request: proto::Request,
        what: &str,
    ) -> Result<proto::Request, String> {
        let Some(user) = &self.0 else {
            return Ok(request);
        };
        if reads_graph(&request) {
            let call = proto::AsRequest {
                asker: asker_out(Some(user)),
                request: Some(Box::new(request)),
            };
            return Ok(proto::Request {
                call: Some(Call::As(Box::new(call))),
            });
        }
        let mut paths: Vec<&[u8]> = Vec::new();
        let slot = match request.call.as_mut() {
            // What types and servers there are is no secret.
            Some(Call::Ping(_) | Call::Schema(_) | Call::Cluster(_)) => None,
            Some(Call::As(call)) => Some(&mut call.asker),
            Some(Call::ReadObjects(call)) => Some(&mut call.asker),
            Some(Call::Find(call)) => Some(&mut call.asker),
            Some(Call::Tags(call)) => Some(&mut call.asker),
            Some(Call::StatFile(call)) => {
                // Who watches may be somebody else.
                call.watcher = 0;
                paths.push(&call.path);
                Some(&mut call.asker)
            }
            Some(Call::ListFiles(call)) => {
                paths.push(&call.path);
                Some(&mut call.asker)
            }
            Some(Call::WalkFiles(call)) => {
                paths.push(&call.path);
                Some(&mut call.asker)
            }
            Some(Call::Usage(call)) => {
                paths.push(&call.path);
                Some(&mut call.asker)
            }
            Some(Call::Usages(call)) => {
                paths.push(&call.path);
                Some(&mut call.asker)
            }
            Some(Call::FileIds(call)) => {
                paths.extend(call.paths.iter().map(|path| &**path));
                Some(&mut call.asker)
            }
            _ => return Err(Self::refusal(user, what)),
        };
        // What stands for an open file would be read by whoever knows it.
        if paths.iter().any(|path| path.first() != Some(&b'/')) {
            return Err(Self::refusal(user, "open files"));
        }
        if let Some(slot) = slot {
            *slot = asker_out(self.asker(asker_in(slot.take()))?.as_ref());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(uid: i64, gids: &[i64]) -> Asker {
        Asker {
            uid,
            gids: gids.to_vec(),
        }
    }

    fn bound() -> BoundUser {
        BoundUser(Some(asker(1002, &[100, 7])))
    }

    fn request(call: Call) -> proto::Request {
        proto::Request { call: Some(call) }
    }

    #[test]
    fn what_is_said_counts_for_less_than_the_key() {
        assert_eq!(bound().asker(None), Ok(Some(asker(1002, &[100, 7]))));
        let said = Some(asker(1002, &[7, 0]));
        assert_eq!(bound().asker(said), Ok(Some(asker(1002, &[7]))));
        let refused = bound().asker(Some(asker(0, &[]))).unwrap_err();
        assert!(refused.contains("bound to user 1002"), "{refused}");
        let free = BoundUser::default();
        assert_eq!(free.asker(None), Ok(None));
        assert_eq!(free.asker(Some(asker(5, &[]))), Ok(Some(asker(5, &[]))));
    }

    #[test]
    fn messages_are_answered_as_the_user_s_or_not_at_all() {
        let user = asker_out(Some(&asker(1002, &[100, 7])));
        let counts = request(Call::Counts(proto::CountsRequest::default()));
        let as_user = request(Call::As(Box::new(proto::AsRequest {
            asker: user.clone(),
            request: Some(Box::new(counts.clone())),
        })));
        assert_eq!(bound().bind(counts.clone(), "counts"), Ok(as_user.clone()));
        assert_eq!(bound().bind(as_user.clone(), "as"), Ok(as_user));
        let root = request(Call::As(Box::new(proto::AsRequest {
            asker: asker_out(Some(&asker(0, &[]))),
            request: Some(Box::new(counts.clone())),
        })));
        assert!(bound().bind(root.clone(), "as").is_err());
        let stat = |path: &[u8], asker| {
            request(Call::StatFile(proto::StatFileRequest {
                asker,
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
        assert!(bound().bind(proto::Request::default(), "none").is_err());
        assert_eq!(BoundUser::default().bind(root.clone(), "as"), Ok(root));
    }
}
