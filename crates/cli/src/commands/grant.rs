//! `esker grant` and `esker revoke`: manage rights to use a database through its server.

use crate::args::{GrantArgs, RevokeArgs, Target};
use esker::rpc::http::RequestBody;
use esker::rpc::{Address, Grants, proto};
use esker_access::authorized::Terms;
use esker_access::token::TokenRights;
use esker_access::{HostKey, PublicKey, Role, fingerprint, grants, host_key, rights};
use esker_model::Error;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Default lifetime of a token, in seconds.
const TOKEN_SECONDS: u64 = 8 * 3_600;
/// Maximum size of a key or a token on standard input, in bytes.
const CREDENTIAL_BYTES_MAX: u64 = 64 << 10;

/// The place where rights are stored.
enum RightsLocation {
    Folder(PathBuf),
    Server(Address),
}

fn rights_location(target: &Target) -> anyhow::Result<RightsLocation> {
    if Address::is_address(&target.target) {
        return Ok(RightsLocation::Server(Address::parse(&target.target)?));
    }
    let folder = PathBuf::from(&target.target);
    // A tier of the site cache has its host key in the folder of its rights.
    let is_database = ["FORMAT", "CLUSTER", host_key::NAME]
        .iter()
        .any(|f| folder.join(f).is_file());
    if !is_database {
        return Err(Error::Target(format!(
            "`{}` is not a database, nor the storage of a cluster, nor the access folder of a tier",
            folder.display()
        ))
        .into());
    }
    Ok(RightsLocation::Folder(folder))
}

/// Returns the public key that a text contains or whose file it names.
fn key_of(text: &str) -> anyhow::Result<PublicKey> {
    if let Ok(key) = PublicKey::from_openssh(text.trim()) {
        return Ok(key);
    }
    let read = std::fs::read_to_string(text).map_err(|e| {
        usage(format!(
            "`{text}` is not an SSH public key, nor a file with one: {e}"
        ))
    })?;
    if read.contains("PRIVATE KEY") {
        return Err(usage(format!(
            "`{text}` is a private key, which must stay secret: name the public key, `{text}.pub`"
        )));
    }
    PublicKey::from_openssh(read.trim())
        .map_err(|e| usage(format!("`{text}` contains no SSH public key: {e}")))
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
        user: args.user.clone(),
    };
    let whose = if args.all {
        grants::grant_all(&key, &terms)?;
        "all databases of this user".to_owned()
    } else {
        match rights_location(&args.target)? {
            RightsLocation::Folder(folder) => grants::grant(&folder, &key, &terms)?,
            RightsLocation::Server(address) => {
                let request = proto::GrantRequest {
                    key: key.to_openssh()?,
                    role: role.name().into(),
                    expires,
                    from: args.from.clone(),
                    user: args.user.as_ref().map(ToString::to_string),
                };
                Grants::of(&address).grant(&request)?;
            }
        }
        args.target.target.clone()
    };
    let print = fingerprint(key.key_data());
    let bound = match &args.user {
        Some(user) => format!(" as user {user}"),
        None => String::new(),
    };
    context.note(&format!(
        "key {print} {} may {role} {whose}{bound}",
        key.comment()
    ));
    Ok(Outcome::Done)
}

fn token(args: &GrantArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let seconds = args.period.map_or(TOKEN_SECONDS, |p| p.as_secs());
    if seconds == 0 {
        return Err(usage("a token must be valid for at least one second"));
    }
    let role = Role::from(args.role);
    let comment = std::env::var("USER").unwrap_or_default();
    let user = args.user.as_ref().map(ToString::to_string);
    let opens = TokenRights::new(role, user.as_deref()).map_err(usage)?;
    let token = match rights_location(&args.target)? {
        RightsLocation::Folder(folder) => grants::make_token(&folder, &opens, seconds, &comment)?,
        RightsLocation::Server(address) => Grants::of(&address).token(&proto::TokenRequest {
            role: role.name().into(),
            seconds,
            comment,
            user,
        })?,
    };
    writeln!(context.out, "{token}")?;
    Ok(Outcome::Done)
}

/// Reads a key or a token from standard input.
fn read_credential() -> anyhow::Result<String> {
    let mut text = String::new();
    let read = std::io::stdin()
        .lock()
        .take(CREDENTIAL_BYTES_MAX)
        .read_to_string(&mut text);
    read.map_err(|e| Error::io("reading a key or a token from standard input", e))?;
    let text = text.trim();
    if text.is_empty() {
        return Err(usage("standard input has no key and no token"));
    }
    Ok(text.to_owned())
}

pub(crate) fn revoke(args: &RevokeArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    // A file is read for its key; any other text is passed on unchanged.
    let key = if args.key == "-" {
        read_credential()?
    } else {
        match key_of(&args.key) {
            Ok(key) => key.to_openssh()?,
            Err(e) if Path::new(&args.key).exists() => return Err(e),
            Err(_) => args.key.clone(),
        }
    };
    let revoked = match rights_location(&args.target)? {
        RightsLocation::Folder(folder) if key.starts_with(SESSION) => end_session(&folder, &key)?,
        RightsLocation::Folder(folder) => grants::revoke(&folder, &key)?,
        RightsLocation::Server(address) => Grants::of(&address).revoke(&key)?,
    };
    context.note(&format!("revoked {revoked}"));
    Ok(Outcome::Done)
}

/// Prefix of a session's name.
const SESSION: &str = "session:";
/// Maximum size of an answer about sessions, in bytes.
const ANSWER_MAX: usize = 1 << 20;

/// Sends a request about sessions to the server of a folder; `None` if there is no server.
fn request_sessions(
    folder: &Path,
    method: &str,
    path: &str,
) -> anyhow::Result<Option<serde_json::Value>> {
    let Some(server) = esker::http_endpoint_of(folder) else {
        return Ok(None);
    };
    let mut answer = server.request(method, path, &[], RequestBody::Nothing, &|| false, None)?;
    let failed = |e| Error::io(format!("asking the server of `{}`", folder.display()), e);
    let text = answer.text(ANSWER_MAX).map_err(failed)?;
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|e| {
        Error::Target(format!(
            "the server of `{}` did not answer in JSON: {e}",
            folder.display()
        ))
    })?;
    match json["error"].as_str() {
        None => Ok(Some(json)),
        Some(why) => Err(Error::Target(why.to_owned()).into()),
    }
}

fn end_session(folder: &Path, id: &str) -> anyhow::Result<String> {
    let path = format!("/api/v1/sessions/{id}");
    let ended = request_sessions(folder, "DELETE", &path)?;
    let ended = ended.ok_or_else(|| {
        Error::Target(format!(
            "no server has `{}` open, and sessions end with their server",
            folder.display()
        ))
    })?;
    Ok(format!(
        "{id} of {}",
        ended["who"].as_str().unwrap_or_default()
    ))
}

/// Returns the sessions of a folder's server; none if there is no server.
fn sessions(folder: &Path) -> anyhow::Result<Vec<proto::grants_reply::Line>> {
    let reply = request_sessions(folder, "GET", "/api/v1/sessions")?.unwrap_or_default();
    let all = reply["sessions"].as_array().cloned().unwrap_or_default();
    let line = |session: &serde_json::Value| {
        let text = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
        proto::grants_reply::Line {
            fingerprint: text("id"),
            comment: text("who"),
            role: text("role"),
            expires: text("until"),
            from: text("bound"),
            file: "console".into(),
            user: text("user"),
        }
    };
    Ok(all.iter().map(line).collect())
}

/// Returns all rights that a folder or a server stores.
fn read_grants(target: &Target) -> anyhow::Result<proto::GrantsReply> {
    let folder = match rights_location(target)? {
        RightsLocation::Server(address) => return Ok(Grants::of(&address).list()?),
        RightsLocation::Folder(folder) => folder,
    };
    let host = HostKey::read(&folder.join(host_key::NAME))?;
    let (lines, mut mistakes) = grants::list(&folder)?;
    let sessions = sessions(&folder).unwrap_or_else(|e| {
        mistakes.push(format!("the sessions of its server are not listed: {e}"));
        Vec::new()
    });
    Ok(proto::GrantsReply {
        host_key: host.map(|h| h.fingerprint()).unwrap_or_default(),
        lines: lines.into_iter().map(Into::into).chain(sessions).collect(),
        mistakes,
    })
}

fn list(args: &GrantArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let reply = read_grants(&args.target)?;
    if !reply.host_key.is_empty() {
        context.note(&format!("host key {}", reply.host_key));
    }
    let columns = ["key", "role", "as", "until", "from", "comment", "file"];
    let mut rows = Rows::new(
        &mut context.out,
        args.format.format,
        context.style,
        &columns,
    );
    for line in reply.lines {
        let role = if line.role.is_empty() {
            "revoked".to_owned()
        } else {
            line.role
        };
        let cells = vec![
            Cell::from(line.fingerprint),
            role.into(),
            line.user.into(),
            line.expires.into(),
            line.from.into(),
            line.comment.into(),
            line.file.into(),
        ];
        rows.row(cells)?;
    }
    rows.finish()?;
    for mistake in &reply.mistakes {
        context.warn(mistake);
    }
    Ok(Outcome::partly_if(!reply.mistakes.is_empty()))
}
