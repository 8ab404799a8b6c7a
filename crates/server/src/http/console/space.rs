//! Space usage, from the sums that directories keep.

use super::super::ApiError;
use super::super::api::{Answer, ApiRequest};
use super::super::files::{names, path_of};
use super::super::query::unknown_value;
use esker_model::namespace::{NamePath, Space, SpaceBy, Usage};
use serde_json::{Value as Json, json};
use std::ops::ControlFlow;

/// Largest number of levels below the requested directory, and of children shown per directory; the others are summed up as one.
const DEPTH_MAX: u64 = 6;
const CHILDREN_MAX: usize = 60;
/// Largest number of rows by user, group, ending or age.
const ROWS_MAX: usize = 500;

struct Directory {
    path: NamePath,
    usage: Usage,
    children: Vec<Self>,
}

fn name_of(path: &NamePath) -> String {
    let whole = path.to_string();
    esker_console::label::last_part(&whole).to_owned()
}

fn sums(usage: &Usage) -> Json {
    json!({"files": usage.files, "directories": usage.directories, "bytes": usage.bytes, "blocks": usage.blocks})
}

impl Directory {
    /// Encodes the directory as JSON, the largest children first.
    fn into_json(mut self) -> Json {
        let mut out = sums(&self.usage);
        out["name"] = name_of(&self.path).into();
        out["path"] = self.path.to_string().into();
        self.children.sort_by(|a, b| {
            b.usage
                .bytes
                .cmp(&a.usage.bytes)
                .then_with(|| a.path.cmp(&b.path))
        });
        let below: u64 = self.children.iter().map(|c| c.usage.bytes).sum();
        // Bytes of the files directly in the directory.
        out["own_bytes"] = self.usage.bytes.saturating_sub(below).into();
        let rest = self
            .children
            .split_off(self.children.len().min(CHILDREN_MAX));
        if !rest.is_empty() {
            let bytes: u64 = rest.iter().map(|c| c.usage.bytes).sum();
            let files: u64 = rest.iter().map(|c| c.usage.files).sum();
            out["rest"] = json!({"count": rest.len(), "bytes": bytes, "files": files});
        }
        out["children"] = self.children.into_iter().map(Self::into_json).collect();
        out
    }
}

/// Builds a tree from paths in any order that include their parents.
fn tree(mut all: Vec<(NamePath, Usage)>) -> Option<Directory> {
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let mut open: Vec<Directory> = Vec::new();
    let close = |open: &mut Vec<Directory>| {
        if let Some(done) = open.pop() {
            match open.last_mut() {
                Some(parent) => parent.children.push(done),
                None => open.push(done),
            }
        }
    };
    for (path, usage) in all {
        let depth = path.names().count();
        while open.len() > 1
            && open
                .last()
                .is_some_and(|last| last.path.names().count() >= depth)
        {
            close(&mut open);
        }
        open.push(Directory {
            path,
            usage,
            children: Vec::new(),
        });
    }
    while open.len() > 1 {
        close(&mut open);
    }
    open.pop()
}

/// Usage of the directories directly below a path, as in `esker top --by project`.
fn projects(request: &ApiRequest<'_>) -> Answer {
    let principal = request.principal.clone();
    let path = path_of(request.query.get("path").unwrap_or("/"))?;
    let top = path.names().count();
    let (mut total, mut all) = (Usage::default(), Vec::new());
    names(request).usages(
        principal.as_ref(),
        &path,
        request.call_state,
        &mut |path, usage| {
            match path.names().count() - top {
                0 => total = *usage,
                1 => all.push((path.to_string(), *usage)),
                _ => {}
            }
            ControlFlow::Continue(())
        },
    )?;
    all.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
    let cut = all.len() > ROWS_MAX;
    let rows = all.iter().take(ROWS_MAX).map(|(name, usage)| {
        let mut row = sums(usage);
        row["name"] = name.as_str().into();
        row
    });
    Ok(json!({
        "by": "project", "root": null, "rows": rows.collect::<Json>(), "cut": cut, "files": total.files, "bytes": total.bytes,
    })
    .to_string())
}

/// Answers the request `GET /api/v1/view/space`.
pub(in super::super) fn space(request: &ApiRequest<'_>) -> Answer {
    let principal = request.principal.clone();
    let by = match request
        .query
        .get("space_by")
        .or_else(|| request.query.get("by"))
    {
        None | Some("dir" | "") => None,
        Some("user") => Some(SpaceBy::User),
        Some("project") => return projects(request),
        Some("group") => Some(SpaceBy::Group),
        Some("type") => Some(SpaceBy::Ending),
        Some("kind") => Some(SpaceBy::Kind),
        Some("age") => Some(SpaceBy::Day),
        Some(other) => {
            let known = ["dir", "user", "project", "group", "type", "kind", "age"];
            return Err(ApiError::bad(unknown_value("by", other, &known)));
        }
    };
    if let Some(by) = by {
        if request.is_limited() {
            return Err(ApiError::bad(
                "sums over the whole namespace are not made on a user's behalf: leave out `uid`, or ask by=dir".into(),
            ));
        }
        let mut rows = names(request).space(by)?;
        match by {
            SpaceBy::Day => rows.sort_by(|a, b| a.key.cmp(&b.key)),
            _ => rows.sort_by(|a, b| {
                b.usage
                    .bytes
                    .cmp(&a.usage.bytes)
                    .then_with(|| a.key.cmp(&b.key))
            }),
        }
        let total = rows.iter().fold((0, 0), |sum: (u64, u64), row| {
            (sum.0 + row.usage.files, sum.1 + row.usage.bytes)
        });
        let cut = rows.len() > ROWS_MAX;
        let told = rows.iter().take(ROWS_MAX).map(|Space { key, usage }| {
            let mut row = sums(usage);
            row["name"] = key.as_str().into();
            row
        });
        return Ok(json!({
            "by": request.query.get("by"), "root": null, "rows": told.collect::<Json>(), "cut": cut,
            "files": total.0, "bytes": total.1,
        })
        .to_string());
    }
    let path = path_of(request.query.get("path").unwrap_or("/"))?;
    let depth = request.query.number("depth")?.unwrap_or(2).min(DEPTH_MAX);
    let top = path.names().count() as u64;
    let mut all: Vec<(NamePath, Usage)> = Vec::new();
    names(request).usages(
        principal.as_ref(),
        &path,
        request.call_state,
        &mut |path, usage| {
            if path.names().count() as u64 <= top + depth {
                all.push((path.clone(), *usage));
            }
            ControlFlow::Continue(())
        },
    )?;
    let root = tree(all);
    let (files, bytes) = root
        .as_ref()
        .map_or((0, 0), |r| (r.usage.files, r.usage.bytes));
    Ok(json!({
        "by": "dir", "root": root.map(Directory::into_json), "rows": [], "cut": false, "files": files, "bytes": bytes,
    })
    .to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_a_tree() {
        let usage = |bytes| Usage {
            bytes,
            files: 1,
            ..Usage::default()
        };
        let path = |text: &str| NamePath::parse(text.as_bytes()).unwrap();
        let all = vec![
            (path("/a/b"), usage(3)),
            (path("/"), usage(10)),
            (path("/c"), usage(6)),
            (path("/a"), usage(4)),
        ];
        let told = tree(all).unwrap().into_json();
        assert_eq!(told["children"][0]["name"], "c");
        assert_eq!(told["children"][1]["children"][0]["path"], "/a/b");
        assert_eq!(told["children"][1]["own_bytes"], 1);
        assert_eq!(told["own_bytes"], 0);
        assert!(tree(Vec::new()).is_none());
    }
}
