//! Conversion of paths, files and changes of the namespace.

use super::ids::{halves, vertex_id};
use super::object::{principal_in, principal_out};
use super::{At as _, Decoded, Malformed, list, required};
use crate::failure::{failure_in, failure_out};
use crate::proto;
use crate::proto::change_files_reply::outcome::Outcome as OutcomeMessage;
use crate::proto::change_files_reply::{Done as DoneMessage, Outcome};
use crate::proto::file_change::Change as Message;
use crate::proto::file_content::Content as ContentMessage;
use crate::proto::set_xattr::Mode as ModeMessage;
use crate::proto::space_request::By;
use esker_model::namespace::{
    AppliedChange, Change, Changes, Content, Cookie, Entry, Inode, Kind, Name, NamePath, NewFile,
    Open, OpenLookup, Partition, Route, SetAttributes, Space, SpaceBy, Subtree, Usage, XattrMode,
};
use esker_model::{Result, Version, VertexId};

/// Decodes a path, or the address of an open file, whose sender is authenticated elsewhere. An invalid path is refused
/// with the
/// error of a file system.
pub fn path_in(bytes: &[u8]) -> Decoded<NamePath> {
    NamePath::from_wire(bytes).map_err(Malformed::model)
}

/// Encodes a path as bytes.
pub fn path_out(path: &NamePath) -> Vec<u8> {
    path.as_bytes().to_vec()
}

fn content_out(content: &Content) -> Option<proto::FileContent> {
    let content = match content {
        Content::None => return None,
        Content::Symlink(target) => ContentMessage::Symlink(target.clone()),
        Content::Inline(data) => ContentMessage::Inline(data.clone()),
        Content::Object(path) => ContentMessage::Object(path.clone()),
    };
    Some(proto::FileContent {
        content: Some(content),
    })
}

fn content_in(content: Option<proto::FileContent>) -> Content {
    match content.and_then(|c| c.content) {
        None => Content::None,
        Some(ContentMessage::Symlink(target)) => Content::Symlink(target),
        Some(ContentMessage::Inline(data)) => Content::Inline(data),
        Some(ContentMessage::Object(path)) => Content::Object(path),
    }
}

fn xattrs_out(xattrs: &[(Vec<u8>, Vec<u8>)]) -> Vec<proto::Xattr> {
    let out = |(name, value): &(Vec<u8>, Vec<u8>)| proto::Xattr {
        name: name.clone(),
        value: value.clone(),
    };
    xattrs.iter().map(out).collect()
}

fn xattrs_in(xattrs: Vec<proto::Xattr>) -> Vec<(Vec<u8>, Vec<u8>)> {
    xattrs.into_iter().map(|x| (x.name, x.value)).collect()
}

/// Encodes the attributes of a file.
pub fn inode_out(inode: &Inode) -> proto::Inode {
    let (high, low) = halves(inode.id);
    proto::Inode {
        high,
        low,
        version: inode.version.0,
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        links: inode.links,
        size: inode.size,
        blocks: inode.blocks,
        rdev: inode.rdev,
        atime: inode.atime,
        mtime: inode.mtime,
        ctime: inode.ctime,
        btime: inode.btime,
        content: content_out(&inode.content),
        xattrs: xattrs_out(&inode.xattrs),
        tracked: inode.tracked,
    }
}

/// Decodes the attributes of a file.
pub fn inode_in(inode: Option<proto::Inode>) -> Decoded<Inode> {
    let inode = required(inode, "inode")?;
    Ok(Inode {
        id: vertex_id(inode.high, inode.low),
        version: Version(inode.version),
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        links: inode.links,
        size: inode.size,
        blocks: inode.blocks,
        rdev: inode.rdev,
        atime: inode.atime,
        mtime: inode.mtime,
        ctime: inode.ctime,
        btime: inode.btime,
        content: content_in(inode.content),
        xattrs: xattrs_in(inode.xattrs),
        tracked: inode.tracked,
    })
}

/// Encodes the id and kind of the file at a path.
pub fn at_path_out(found: &Option<(VertexId, Kind)>) -> proto::file_ids_reply::Item {
    let Some((id, kind)) = found else {
        return proto::file_ids_reply::Item::default();
    };
    let (high, low) = halves(*id);
    proto::file_ids_reply::Item {
        high,
        low,
        kind: kind.bits(),
    }
}

/// Decodes the id and kind of the file at a path.
pub fn at_path_in(item: proto::file_ids_reply::Item) -> Decoded<Option<(VertexId, Kind)>> {
    if (item.high, item.low, item.kind) == (0, 0, 0) {
        return Ok(None);
    }
    let kind = Kind::of_mode(item.kind)
        .ok_or_else(|| Malformed::new("kind", "the type bits of a mode"))?;
    Ok(Some((vertex_id(item.high, item.low), kind)))
}

/// Encodes the position of a listing.
pub fn cookie_out(cookie: Cookie) -> proto::FileCookie {
    proto::FileCookie {
        hash: cookie.hash,
        n: cookie.n.into(),
    }
}

/// Decodes the position of a listing.
pub fn cookie_in(cookie: proto::FileCookie) -> Decoded<Cookie> {
    let n = u8::try_from(cookie.n)
        .map_err(|_| Malformed::new("n", format!("a number up to 255; got {}", cookie.n)))?;
    Ok(Cookie {
        hash: cookie.hash,
        n,
    })
}

/// Encodes an entry of a listing.
pub fn entry_out(cookie: Cookie, entry: &Entry) -> proto::list_files_reply::Entry {
    proto::list_files_reply::Entry {
        cookie: Some(cookie_out(cookie)),
        name: entry.name.as_bytes().to_vec(),
        inode: Some(inode_out(&entry.inode)),
    }
}

/// Decodes an entry of a listing.
pub fn entry_in(entry: proto::list_files_reply::Entry) -> Decoded<(Cookie, Entry)> {
    let cookie = required(entry.cookie, "cookie")?;
    let name = Name::new(&entry.name).map_err(Malformed::model)?;
    let inode = inode_in(entry.inode)?;
    Ok((cookie_in(cookie).at("cookie")?, Entry { name, inode }))
}

/// Encodes the result of opening a file: the file, or the directory where it may be created.
pub fn looked_out(looked: &OpenLookup) -> proto::LookFileReply {
    match looked {
        OpenLookup::Found(path, inode) => proto::LookFileReply {
            handle: path_out(path),
            inode: Some(inode_out(inode)),
            ..Default::default()
        },
        OpenLookup::Missing { directory, path } => {
            let (high, low) = halves(*directory);
            proto::LookFileReply {
                high,
                low,
                path: path_out(path),
                ..Default::default()
            }
        }
    }
}

/// Decodes the result of opening a file.
pub fn looked_in(reply: proto::LookFileReply) -> Decoded<OpenLookup> {
    if reply.handle.is_empty() {
        return Ok(OpenLookup::Missing {
            directory: vertex_id(reply.high, reply.low),
            path: path_in(&reply.path)?,
        });
    }
    let inode = Box::new(inode_in(reply.inode)?);
    Ok(OpenLookup::Found(path_in(&reply.handle)?, inode))
}

/// Decodes the mode of opening a file.
pub fn open_in(how: u32) -> Decoded<Open> {
    let open = u8::try_from(how).ok().and_then(Open::of_bits);
    open.ok_or_else(|| Malformed::new("how", format!("bits up to 127; got {how}")))
}

/// Encodes a file of a walk.
pub fn walked_out(path: &NamePath, inode: &Inode) -> proto::walk_files_reply::File {
    proto::walk_files_reply::File {
        path: path_out(path),
        inode: Some(inode_out(inode)),
    }
}

/// Decodes a file of a walk.
pub fn walked_in(file: proto::walk_files_reply::File) -> Decoded<(NamePath, Inode)> {
    Ok((path_in(&file.path)?, inode_in(file.inode)?))
}

/// Encodes a change of files.
pub fn file_change_out(change: &Change) -> proto::FileChange {
    let message = match change {
        Change::Create(path, make) => {
            let [atime, mtime, ctime, btime] = make.times;
            Message::Make(proto::MakeFile {
                path: path_out(path),
                mode: make.mode,
                uid: make.uid,
                gid: make.gid,
                size: make.size,
                blocks: make.blocks,
                rdev: make.rdev,
                atime,
                mtime,
                ctime,
                btime,
                content: content_out(&make.content),
                xattrs: xattrs_out(&make.xattrs),
                umask: make.umask,
            })
        }
        Change::Unlink(path) => Message::Unlink(path_out(path)),
        Change::Rmdir(path) => Message::Rmdir(path_out(path)),
        Change::Rename {
            from,
            to,
            no_replace,
        } => Message::Rename(proto::RenameFile {
            from: path_out(from),
            to: path_out(to),
            no_replace: *no_replace,
        }),
        Change::Exchange { from, to } => Message::Exchange(proto::ExchangeFiles {
            from: path_out(from),
            to: path_out(to),
        }),
        Change::Link { from, to } => Message::Link(proto::LinkFile {
            from: path_out(from),
            to: path_out(to),
        }),
        Change::Set { path, follow, set } => Message::Set(proto::SetFile {
            path: path_out(path),
            follow: *follow,
            mode: set.mode,
            uid: set.uid,
            gid: set.gid,
            size: set.size,
            blocks: set.blocks,
            atime: set.atime,
            mtime: set.mtime,
            ctime: set.ctime,
            content: set.content.as_ref().map(|content| {
                // An empty content that is set differs from an absent one.
                content_out(content).unwrap_or_default()
            }),
        }),
        Change::Xattr {
            path,
            name,
            value,
            mode,
        } => Message::Xattr(proto::SetXattr {
            path: path_out(path),
            name: name.clone(),
            value: value.clone(),
            mode: match mode {
                XattrMode::Any => ModeMessage::Any,
                XattrMode::Create => ModeMessage::Create,
                XattrMode::Replace => ModeMessage::Replace,
            }
            .into(),
        }),
        Change::Write { path, at, data } => Message::Write(proto::WriteFile {
            path: path_out(path),
            at: *at,
            data: data.clone(),
        }),
        Change::Merge(subtree) => Message::Merge(proto::MergeFiles {
            path: path_out(subtree.path()),
            subtree: subtree.as_bytes().to_vec(),
        }),
    };
    proto::FileChange {
        change: Some(message),
    }
}

/// Decodes a change of files.
pub fn file_change_in(change: proto::FileChange) -> Decoded<Change> {
    Ok(match change.change {
        Some(Message::Make(make)) => Change::Create(
            path_in(&make.path)?,
            NewFile {
                mode: make.mode,
                umask: make.umask,
                uid: make.uid,
                gid: make.gid,
                size: make.size,
                blocks: make.blocks,
                rdev: make.rdev,
                times: [make.atime, make.mtime, make.ctime, make.btime],
                content: content_in(make.content),
                xattrs: xattrs_in(make.xattrs),
            },
        ),
        Some(Message::Unlink(path)) => Change::Unlink(path_in(&path)?),
        Some(Message::Rmdir(path)) => Change::Rmdir(path_in(&path)?),
        Some(Message::Rename(rename)) => Change::Rename {
            from: path_in(&rename.from)?,
            to: path_in(&rename.to)?,
            no_replace: rename.no_replace,
        },
        Some(Message::Exchange(exchange)) => Change::Exchange {
            from: path_in(&exchange.from)?,
            to: path_in(&exchange.to)?,
        },
        Some(Message::Link(link)) => Change::Link {
            from: path_in(&link.from)?,
            to: path_in(&link.to)?,
        },
        Some(Message::Set(set)) => Change::Set {
            path: path_in(&set.path)?,
            follow: set.follow,
            set: SetAttributes {
                mode: set.mode,
                uid: set.uid,
                gid: set.gid,
                size: set.size,
                blocks: set.blocks,
                atime: set.atime,
                mtime: set.mtime,
                ctime: set.ctime,
                content: set.content.map(|content| content_in(Some(content))),
            },
        },
        Some(Message::Xattr(xattr)) => Change::Xattr {
            mode: match xattr.mode() {
                ModeMessage::Any => XattrMode::Any,
                ModeMessage::Create => XattrMode::Create,
                ModeMessage::Replace => XattrMode::Replace,
            },
            path: path_in(&xattr.path)?,
            name: xattr.name,
            value: xattr.value,
        },
        Some(Message::Write(write)) => Change::Write {
            path: path_in(&write.path)?,
            at: write.at,
            data: write.data,
        },
        Some(Message::Merge(merge)) => {
            Change::Merge(Subtree::new(path_in(&merge.path)?, merge.subtree))
        }
        None => return Err(Malformed::new("change", "one of its fields to be set")),
    })
}

/// Encodes the changes of one caller.
pub fn changes_out(changes: &Changes, sync: bool) -> proto::ChangeFilesRequest {
    proto::ChangeFilesRequest {
        principal: principal_out(changes.principal.as_ref()),
        changes: changes.changes.iter().map(file_change_out).collect(),
        idempotency_key: changes.idempotency_key.clone().unwrap_or_default(),
        sync,
        routes: false,
        is_retry: changes.is_retry,
    }
}

/// Decodes the changes of one caller, and whether they must survive a power failure before they are acknowledged.
pub fn changes_in(request: proto::ChangeFilesRequest) -> Decoded<(Changes, bool)> {
    let changes = Changes {
        principal: principal_in(request.principal),
        changes: list(request.changes, "changes", file_change_in)?,
        idempotency_key: (!request.idempotency_key.is_empty()).then_some(request.idempotency_key),
        is_retry: request.is_retry,
    };
    Ok((changes, request.sync))
}

/// Encodes the results of changes.
pub fn outcomes_out(outcomes: &[Result<AppliedChange>]) -> proto::ChangeFilesReply {
    let out = |outcome: &Result<AppliedChange>| Outcome {
        outcome: Some(match outcome {
            Ok(done) => {
                let (high, low) = halves(done.id);
                OutcomeMessage::Done(DoneMessage {
                    high,
                    low,
                    version: done.version.0,
                })
            }
            Err(e) => OutcomeMessage::Failure(failure_out(e)),
        }),
    };
    proto::ChangeFilesReply {
        outcomes: outcomes.iter().map(out).collect(),
        routes: Vec::new(),
    }
}

/// Encodes the partitioning of a directory over servers.
pub fn route_out(route: &Route) -> proto::FileRoute {
    let (first, server) = route.ranges().iter().copied().unzip();
    proto::FileRoute {
        directory: path_out(route.directory()),
        first,
        server,
    }
}

/// Decodes the partitioning of a directory over servers.
pub fn route_in(route: proto::FileRoute) -> Decoded<Route> {
    let directory = path_in(&route.directory)?;
    let same = route.first.len() == route.server.len();
    let ranges = route.first.into_iter().zip(route.server).collect();
    let route = same.then(|| Route::new(directory, ranges)).flatten();
    route.ok_or_else(|| {
        Malformed::new(
            "route",
            "the first hashes of ranges in order, from 0, and as many servers",
        )
    })
}

/// Decodes the result of one change.
pub fn outcome_in(outcome: Outcome) -> Decoded<Result<AppliedChange>> {
    match outcome.outcome {
        Some(OutcomeMessage::Done(done)) => Ok(Ok(AppliedChange {
            id: vertex_id(done.high, done.low),
            version: Version(done.version),
        })),
        Some(OutcomeMessage::Failure(failure)) => Ok(Err(failure_in(failure))),
        None => Err(Malformed::new("outcome", "one of its fields to be set")),
    }
}

/// Encodes the usage of a tree.
pub fn usage_out(usage: &Usage) -> proto::FileUsage {
    proto::FileUsage {
        files: usage.files,
        directories: usage.directories,
        bytes: usage.bytes,
        blocks: usage.blocks,
    }
}

/// Decodes the usage of a tree.
pub fn usage_in(usage: Option<proto::FileUsage>) -> Decoded<Usage> {
    let usage = required(usage, "usage")?;
    Ok(Usage {
        files: usage.files,
        directories: usage.directories,
        bytes: usage.bytes,
        blocks: usage.blocks,
    })
}

/// Encodes the usage of one directory.
pub fn directory_usage_out(path: &NamePath, usage: &Usage) -> proto::usages_reply::Directory {
    proto::usages_reply::Directory {
        path: path_out(path),
        usage: Some(usage_out(usage)),
    }
}

/// Decodes the usage of one directory.
#[allow(
    clippy::needless_pass_by_value,
    reason = "lists are decoded item by item"
)]
pub fn directory_usage_in(directory: proto::usages_reply::Directory) -> Decoded<(NamePath, Usage)> {
    Ok((path_in(&directory.path)?, usage_in(directory.usage)?))
}

/// Encodes the grouping of a space report.
pub fn space_by_out(by: SpaceBy) -> By {
    match by {
        SpaceBy::User => By::User,
        SpaceBy::Group => By::Group,
        SpaceBy::Kind => By::Kind,
        SpaceBy::Ending => By::Ending,
        SpaceBy::Day => By::Day,
    }
}

/// Decodes the grouping of a space report.
pub fn space_by_in(by: i32) -> Decoded<SpaceBy> {
    Ok(match By::try_from(by) {
        Ok(By::User) => SpaceBy::User,
        Ok(By::Group) => SpaceBy::Group,
        Ok(By::Kind) => SpaceBy::Kind,
        Ok(By::Ending) => SpaceBy::Ending,
        Ok(By::Day) => SpaceBy::Day,
        Err(_) => {
            return Err(Malformed::new(
                "by",
                format!("a number from 0 to 4; got {by}"),
            ));
        }
    })
}

/// Encodes one row of a space report.
pub fn space_out(space: &Space) -> proto::space_reply::Row {
    proto::space_reply::Row {
        key: space.key.clone(),
        usage: Some(usage_out(&space.usage)),
    }
}

/// Decodes one row of a space report.
pub fn space_in(row: proto::space_reply::Row) -> Decoded<Space> {
    Ok(Space {
        key: row.key,
        usage: usage_in(row.usage)?,
    })
}

/// Encodes a directory partition.
pub fn partition_out(partition: &Partition) -> proto::partitions_reply::Partition {
    proto::partitions_reply::Partition {
        index: partition.index,
        depth: partition.depth,
        server: partition.server,
        entries: partition.entries,
    }
}

/// Decodes a directory partition.
pub fn partition_in(partition: proto::partitions_reply::Partition) -> Decoded<Partition> {
    Ok(Partition {
        index: partition.index,
        depth: partition.depth,
        server: partition.server,
        entries: partition.entries,
    })
}

/// Decodes the results of changes, one per change sent.
pub fn outcomes_in(reply: proto::ChangeFilesReply) -> Decoded<Vec<Result<AppliedChange>>> {
    list(reply.outcomes, "outcomes", outcome_in)
}
