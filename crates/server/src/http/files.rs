//! Files as JSON: lookups by path, listings, searches and space usage.

use super::ApiError;
use super::api::{Answer, ApiRequest};
use super::find::filter;
use super::json::{value_out, version_out};
use super::query::{Query, unknown_value};
use crate::cluster::Names;
use crate::limits::JSON_ANSWER_BYTES;
use esker_model::filter::{Fields as _, Prepared};
use esker_model::namespace::{
    Content, Cookie, FIELD_NAMES, Inode, NamePath, Space, SpaceBy, Usage, check_kinds, display,
    parse_display, walk_tagged,
};
use esker_model::object::Principal;
use esker_model::schema::nearest;
use esker_model::{Value, Version};
use serde_json::{Value as Json, json};
use std::ops::ControlFlow;

pub(super) fn names<'a>(request: &ApiRequest<'a>) -> Names<'a> {
    let seen = request.service.cluster.as_ref().map(|c| c.node.newest());
    request.service.names(seen.unwrap_or(Version::ZERO))
}

/// Parses a path in its displayed form.
pub(super) fn path_of(text: &str) -> Result<NamePath, ApiError> {
    let bytes = parse_display(text).ok_or_else(|| {
        ApiError::bad(format!(
            "parameter `path`: expected `\\\\` for a backslash and `\\xHH` for a byte; got `{text}`"
        ))
    })?;
    Ok(NamePath::parse(&bytes)?)
}

fn path(query: &Query) -> Result<NamePath, ApiError> {
    path_of(query.required("path")?)
}

fn file_out(path: &NamePath, inode: &Inode) -> Json {
    let time = |t| value_out(&Value::Timestamp(t));
    let target = match &inode.content {
        Content::Symlink(target) => Json::String(display(target).to_string()),
        _ => Json::Null,
    };
    json!({
        "path": path.to_string(),
        "vertex": inode.id.to_string(),
        "kind": inode.kind().name(),
        "mode": format!("{:04o}", inode.mode & 0o7777),
        "links": inode.links,
        "uid": inode.uid,
        "gid": inode.gid,
        "size": inode.size,
        "blocks": inode.blocks,
        "atime": time(inode.atime),
        "mtime": time(inode.mtime),
        "ctime": time(inode.ctime),
        "btime": time(inode.btime),
        "version": version_out(inode.version),
        "target": target,
        "acl": inode.acl_texts(),
    })
}

/// Collected files, up to a number and a total size.
struct FileCollector {
    files: Vec<Json>,
    limit: usize,
    bytes: usize,
    complete: bool,
}

impl FileCollector {
    fn new(limit: usize) -> Self {
        Self {
            files: Vec::new(),
            limit,
            bytes: 0,
            complete: true,
        }
    }

    /// Adds a file; false if it exceeds the limits.
    fn add(&mut self, path: &NamePath, inode: &Inode) -> bool {
        if self.files.len() >= self.limit || self.bytes > JSON_ANSWER_BYTES {
            self.complete = false;
            return false;
        }
        // Estimate of the size of the other fields.
        self.bytes += 400 + 2 * path.as_bytes().len();
        self.files.push(file_out(path, inode));
        true
    }
}

/// Answers the request `GET /api/v1/files/stat`.
pub(super) fn stat(request: &ApiRequest<'_>) -> Answer {
    let (path, principal) = (path(&request.query)?, request.principal.clone());
    let follow = request.query.flag("follow")?;
    let inode = names(request).stat(principal.as_ref(), &path, follow)?;
    Ok(file_out(&path, &inode).to_string())
}

fn cookie_in(text: &str) -> Result<Cookie, ApiError> {
    let parsed = text.split_once('-').and_then(|(hash, n)| {
        Some(Cookie {
            hash: u64::from_str_radix(hash, 16).ok()?,
            n: n.parse().ok()?,
        })
    });
    parsed.ok_or_else(|| {
        ApiError::bad(format!(
            "parameter `after`: expected the `next` of the previous answer; got `{text}`"
        ))
    })
}

/// Answers the request `GET /api/v1/files/list`.
pub(super) fn list(request: &ApiRequest<'_>) -> Answer {
    let (path, principal) = (path(&request.query)?, request.principal.clone());
    let after = request.query.get("after").map(cookie_in).transpose()?;
    let mut all = FileCollector::new(request.query.limit()?);
    let mut last = None;
    names(request).list(principal.as_ref(), &path, after, &mut |cookie, entry| {
        if !all.add(&path.join(&entry.name), &entry.inode) {
            return ControlFlow::Break(());
        }
        last = Some(cookie);
        ControlFlow::Continue(())
    })?;
    let next = last.filter(|_| !all.complete);
    let next = next.map(|c| format!("{:016x}-{}", c.hash, c.n));
    Ok(json!({"entries": all.files, "next": next}).to_string())
}

/// Answers the request `GET /api/v1/files/find`.
pub(super) fn find(request: &ApiRequest<'_>) -> Answer {
    let (path, principal) = (path(&request.query)?, request.principal.clone());
    let filter = filter(request.query.get("filter").unwrap_or_default())?;
    check_kinds(&filter)?;
    // A name that is no attribute of files is a tag.
    let tags: Vec<&str> = filter
        .names()
        .into_iter()
        .filter(|n| !FIELD_NAMES.contains(n))
        .collect();
    let mut known = vec![false; tags.len()];
    let prepared = Prepared::new(&filter);
    let mut all = FileCollector::new(request.query.limit()?);
    let (names, graph) = (names(request), request.graph());
    walk_tagged(
        (&*names, &*graph),
        principal.as_ref(),
        &path,
        !tags.is_empty(),
        request.call_state,
        &mut |found| {
            for (known, name) in known.iter_mut().zip(&tags) {
                *known = *known || found.field(name).is_some();
            }
            let file = found.file;
            if prepared.matches(&found) && !all.add(file.path, file.inode) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        },
    )?;
    if let Some((unknown, _)) = tags.iter().zip(&known).find(|(_, known)| !**known)
        && all.complete
    {
        let near = nearest(unknown, FIELD_NAMES.iter().copied());
        let hint = near.map_or_else(String::new, |n| format!(", did you mean `{n}`?"));
        return Err(ApiError::bad(format!(
            "unknown attribute `{unknown}` of files{hint} (they have: {}; and no file below {path} has a tag of that name)",
            FIELD_NAMES.join(", ")
        )));
    }
    Ok(json!({"files": all.files, "complete": all.complete}).to_string())
}

fn row(key: &str, usage: &Usage) -> Json {
    json!({
        "key": key,
        "files": usage.files,
        "directories": usage.directories,
        "bytes": usage.bytes,
        "blocks": usage.blocks,
    })
}

/// Returns the usage of directories from a path down to a number of levels.
fn directories(
    request: &ApiRequest<'_>,
    principal: Option<&Principal>,
    path: &NamePath,
    levels: u64,
) -> Result<Vec<(NamePath, Usage)>, ApiError> {
    let top = path.names().count() as u64;
    let mut all = Vec::new();
    names(request).usages(principal, path, request.call_state, &mut |path, usage| {
        if path.names().count() as u64 - top <= levels {
            all.push((path.clone(), *usage));
        }
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

fn rows(all: &[(String, Usage)], limit: usize) -> String {
    let rows: Vec<Json> = all.iter().take(limit).map(|(k, u)| row(k, u)).collect();
    json!({"rows": rows, "complete": all.len() <= limit}).to_string()
}

/// Answers the request `GET /api/v1/files/usage`.
pub(super) fn usage(request: &ApiRequest<'_>) -> Answer {
    let (path, principal) = (path(&request.query)?, request.principal.clone());
    let limit = request.query.limit()?;
    let levels = request.query.number("depth")?.unwrap_or_default();
    let names = names(request);
    let is_directory = names.stat(principal.as_ref(), &path, false)?.is_directory();
    let mut all = if levels == 0 || !is_directory {
        let usage = names.usage(principal.as_ref(), &path, true)?;
        vec![(path, usage)]
    } else {
        directories(request, principal.as_ref(), &path, levels)?
    };
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let all: Vec<_> = all.iter().map(|(p, u)| (p.to_string(), *u)).collect();
    Ok(rows(&all, limit))
}

/// Answers the request `GET /api/v1/files/top`.
pub(super) fn top(request: &ApiRequest<'_>) -> Answer {
    let (limit, principal) = (request.query.limit()?, request.principal.clone());
    let by = match request.query.required("by")? {
        "dir" => None,
        "user" => Some(SpaceBy::User),
        "group" => Some(SpaceBy::Group),
        "kind" => Some(SpaceBy::Kind),
        "type" => Some(SpaceBy::Ending),
        "age" => Some(SpaceBy::Day),
        other => {
            let known = ["dir", "user", "group", "kind", "type", "age"];
            return Err(ApiError::bad(unknown_value("by", other, &known)));
        }
    };
    let mut all: Vec<(String, Usage)> = match by {
        None => {
            let path = path_of(request.query.get("path").unwrap_or("/"))?;
            let all = directories(request, principal.as_ref(), &path, u64::MAX)?;
            all.iter().map(|(p, u)| (p.to_string(), *u)).collect()
        }
        Some(_) if request.query.get("path").is_some() => {
            return Err(ApiError::bad("parameter `path` requires by=dir".into()));
        }
        Some(_) if request.is_limited() => {
            return Err(ApiError::bad(
                "sums over the whole namespace are not made on a user\'s behalf: leave out `uid`, or ask by=dir".into(),
            ));
        }
        Some(by) => {
            let space = names(request).space(by)?;
            space
                .into_iter()
                .map(|Space { key, usage }| (key, usage))
                .collect()
        }
    };
    all.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
    Ok(rows(&all, limit))
}
