//! `esker grant` and `esker revoke`: who may use a database through its server.

use crate::args::{GrantArgs, RevokeArgs, Target};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::output::{Cell, Rows};
use esker::rpc::{Address, Grants, proto};
use esker_access::authorized::Terms;
use esker_access::{HostKey, PublicKey, Role, fingerprint, grants, host_key, rights};
use esker_model::Error;
use std::path::{Path, PathBuf};

/// How long a token holds if nothing is said.
const TOKEN_SECONDS: u64 = 8 * 3_600;

/// Where rights are kept.
enum Place {
    Folder(PathBuf),
    Server(Address),
}

fn place(target: &Target) -> anyhow::Result<Place> {
    if Address::is_address(&target.target) {
        return Ok(Place::Server(Address::parse(&target.target)?));
    }
    let folder = PathBuf::from(&target.target);
    let is_database = ["FORMAT", "CLUSTER"]
        .iter()
        .any(|f| folder.join(f).is_file());
    if !is_database {
        return Err(Error::Target(format!(
            "`{}` is no database, nor the storage of a cluster",
            folder.display()
        ))
        .into());
    }
    Ok(Place::Folder(folder))
}

/// The public key that somebody names: itself, or by its file.
fn key_of(text: &str) -> anyhow::Result<PublicKey> {
    if let Ok(key) = PublicKey::from_openssh(text.trim()) {
        return Ok(key);
    }
    let read = std::fs::read_to_string(text).map_err(|e| {
        usage(format!(
            "`{text}` is no public key of SSH, and no file of one: {e}"
        ))
    })?;
    if read.contains("PRIVATE KEY") {
        return Err(usage(format!(
            "`{text}` is a private key, which nobody should give away: name the public one, `{text}.pub`"
        )));
    }
    PublicKey::from_openssh(read.trim())
        .map_err(|e| usage(format!("`{text}` holds no public key of SSH: {e}")))
}

pub(crate) fn grant(args: &GrantArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if args.list {
        return list(args, context);
    }
    if args.token {
        return token(args, context);
    }
    let key = key_of(args.key.as_deref().unwrap_or_default())?;
    let role = Role::from(args.role);
    let period = args
        .period
        .map(|p| i64::try_from(p.as_secs()).unwrap_or(i64::MAX));
    let expires = period.map(|seconds| rights::now().saturating_add(seconds));
    let terms = Terms {
        role: Some(role),
        expires,
        from: args.from.clone(),
    };
    let whose = if args.all {
        grants::grant_all(&key, &terms)?;
        "all databases of this user".to_owned()
    } else {
        match place(&args.target)? {
            Place::Folder(folder) => grants::grant(&folder, &key, &terms)?,
            Place::Server(address) => {
                let request = proto::GrantRequest {
                    key: key.to_openssh()?,
                    role: role.name().into(),
                    expires,
                    from: args.from.clone(),
                };
                Grants::of(&address).grant(&request)?;
            }
        }
        args.target.target.clone()
    };
    let print = fingerprint(key.key_data());
    context.note(&format!("key {print} {} may {role} {whose}", key.comment()));
    Ok(Outcome::Done)
}

fn token(args: &GrantArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let seconds = args.period.map_or(TOKEN_SECONDS, |p| p.as_secs());
    if seconds == 0 {
        return Err(usage("a token holds for a second at least"));
    }
    let role = Role::from(args.role);
    let user = std::env::var("USER").unwrap_or_default();
    let token = match place(&args.target)? {
        Place::Folder(folder) => grants::make_token(&folder, role, seconds, &user)?,
        Place::Server(address) => Grants::of(&address).token(role.name(), seconds, &user)?,
    };
    writeln!(context.out, "{token}")?;
    Ok(Outcome::Done)
}

pub(crate) fn revoke(args: &RevokeArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    // A file's key; else what is there is what is meant.
    let key = match key_of(&args.key) {
        Ok(key) => key.to_openssh()?,
        Err(e) if Path::new(&args.key).exists() => return Err(e),
        Err(_) => args.key.clone(),
    };
    let revoked = match place(&args.target)? {
        Place::Folder(folder) => grants::revoke(&folder, &key)?,
        Place::Server(address) => Grants::of(&address).revoke(&key)?,
    };
    context.note(&format!("revoked {revoked}"));
    Ok(Outcome::Done)
}

/// What a folder or a server says of everybody's rights.
fn told(target: &Target) -> anyhow::Result<proto::GrantsReply> {
    let folder = match place(target)? {
        Place::Server(address) => return Ok(Grants::of(&address).list()?),
        Place::Folder(folder) => folder,
    };
    let host = HostKey::read(&folder.join(host_key::NAME))?;
    let (lines, mistakes) = grants::list(&folder)?;
    let line = |l: grants::Listed| proto::grants_reply::Line {
        fingerprint: l.fingerprint,
        comment: l.comment,
        role: l.role,
        expires: l.expires,
        from: l.from,
        file: l.file,
    };
    Ok(proto::GrantsReply {
        host_key: host.map(|h| h.fingerprint()).unwrap_or_default(),
        lines: lines.into_iter().map(line).collect(),
        mistakes,
    })
}

fn list(args: &GrantArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let told = told(&args.target)?;
    if !told.host_key.is_empty() {
        context.note(&format!("host key {}", told.host_key));
    }
    let columns = ["key", "role", "until", "from", "comment", "file"];
    let mut rows = Rows::new(
        &mut context.out,
        args.format.format,
        context.style,
        &columns,
    );
    for line in told.lines {
        let role = if line.role.is_empty() {
            "revoked".to_owned()
        } else {
            line.role
        };
        let cells = vec![
            Cell::from(line.fingerprint),
            role.into(),
            line.expires.into(),
            line.from.into(),
            line.comment.into(),
            line.file.into(),
        ];
        rows.row(cells)?;
    }
    rows.finish()?;
    for mistake in &told.mistakes {
        context.warn(mistake);
    }
    Ok(Outcome::partly_if(!told.mistakes.is_empty()))
}
