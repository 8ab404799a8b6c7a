//! State of a source tree. Git itself reports whether files were changed; without it, the commit is read from its files.

use crate::run::Git;
use esker_import::secrets::redacted;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the state of the tree that contains a folder, if any. Takes as long as `git status`.
pub fn git(folder: &Path) -> Option<Git> {
    let tree = folder.ancestors().find(|f| f.join(".git").exists())?;
    let dir = git_dir(tree)?;
    // Folder shared by all worktrees.
    let common = fs::read_to_string(dir.join("commondir"));
    let common = common.map_or_else(|_| dir.clone(), |to| dir.join(to.trim()));
    let head = fs::read_to_string(dir.join("HEAD")).ok()?;
    let head = head.trim();
    let (commit, branch) = match head.strip_prefix("ref: ") {
        Some(name) => {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
            (commit_of(&dir, &common, name)?, Some(branch.to_owned()))
        }
        None => (head.to_owned(), None),
    };
    Some(Git {
        commit,
        branch,
        dirty: dirty(tree, &common),
        remote: remote(&common),
    })
}

fn git_dir(tree: &Path) -> Option<PathBuf> {
    let dot = tree.join(".git");
    if dot.is_dir() {
        return Some(dot);
    }
    // In a worktree or submodule, `.git` is a file with the path.
    let text = fs::read_to_string(&dot).ok()?;
    Some(tree.join(text.strip_prefix("gitdir:")?.trim()))
}

fn commit_of(dir: &Path, common: &Path, name: &str) -> Option<String> {
    for dir in [dir, common] {
        if let Ok(commit) = fs::read_to_string(dir.join(name)) {
            return Some(commit.trim().to_owned());
        }
    }
    let packed = fs::read_to_string(common.join("packed-refs")).ok()?;
    let line = packed.lines().find_map(|line| line.strip_suffix(name));
    line.map(|commit| commit.trim().to_owned())
}

/// Returns `None` for a tree of another user, whose filters and hooks must not run as this user.
fn dirty(tree: &Path, dir: &Path) -> Option<bool> {
    let user = rustix::process::geteuid().as_raw();
    let own = |path: &Path| fs::metadata(path).is_ok_and(|m| m.uid() == user);
    let config = dir.join("config");
    if !own(dir) || (config.exists() && !own(&config)) {
        return None;
    }
    let out = Command::new("git")
        // These options name programs that `git status` would run.
        .args([
            "-c",
            "core.fsmonitor=false",
            "-c",
            "core.hooksPath=/dev/null",
        ])
        .args(["status", "--porcelain", "--untracked-files=no"])
        // In submodules, another `git status` would run without the above options.
        .arg("--ignore-submodules=dirty")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .current_dir(tree)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    out.status.success().then_some(!out.stdout.is_empty())
}

fn remote(common: &Path) -> Option<String> {
    let config = fs::read_to_string(common.join("config")).ok()?;
    let url = config
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("[remote "))
        .find_map(|line| line.trim().strip_prefix("url"))?;
    let url = url.trim_start().strip_prefix('=')?.trim();
    Some(redacted(url).into_owned())
}
