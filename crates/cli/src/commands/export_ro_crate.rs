//! `esker export ro-crate`: writes the lineage of a vertex as a research object, with its files on request.

pub(super) mod files;

use super::note_if_stopped;
use super::run::deliver::open_with_runs;
use crate::args::{CrateProfile, ExportRoCrateArgs};
use crate::graph::NamedVertex;
use crate::near;
use crate::times::now_nanos;
use anyhow::Context as _;
use esker::lineage::{LineageOptions, lineage};
use esker_console::ro_crate::{Facts, Profile, Settings, describe};
use esker_model::namespace::display;
use esker_model::{Cancel as _, Error, GraphRead as _, Version, VertexId};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::units::{counted, size as bytes};
use files::{Crate, Rules};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// File name of the metadata document in the specification.
const METADATA: &str = "ro-crate-metadata.json";

/// A folder that is removed on drop unless it is kept.
struct PartialFolder(Option<PathBuf>);

impl Drop for PartialFolder {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

const fn profile(wanted: CrateProfile) -> Option<Profile> {
    match wanted {
        CrateProfile::Auto => None,
        CrateProfile::Process => Some(Profile::Process),
        CrateProfile::Workflow => Some(Profile::Workflow),
        CrateProfile::Provenance => Some(Profile::Provenance),
    }
}

pub(crate) fn run(args: &ExportRoCrateArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let stdout = args.folder == Path::new("-");
    if stdout && args.files {
        return Err(usage(
            "--files needs a folder to put them in; `-` takes the metadata alone",
        ));
    }
    if !stdout && args.folder.exists() {
        return Err(usage(format!(
            "{} exists already; name a new folder",
            args.folder.display()
        )));
    }
    let database =
        open_with_runs(context, &args.target)?.on_behalf_of(args.principal.principal.as_ref());
    let schema = database.schema()?;
    let named = NamedVertex::find(&args.vertex, &database, &schema)?;
    let options = LineageOptions {
        as_of: args.as_of.unwrap_or(Version::MAX),
        depth: args.depth,
        bytes: Some(context.globals.memory),
        ..LineageOptions::default()
    };
    let found = match lineage(&database, named.vertex.id, &options, &context.interrupt) {
        Err(Error::NoVertex { hint, .. }) => {
            return Err(near::missing(&named, &hint, &database, &schema).into());
        }
        found => found?,
    };
    let facts = Facts::new(&found, &schema);
    let wanted = profile(args.profile);
    if let Some(wanted) = wanted.filter(|wanted| *wanted > facts.profile()) {
        return Err(usage(profile_error(&facts, wanted)));
    }
    let mut settings = Settings {
        made: now_nanos(),
        profile: wanted,
        name: args.name.clone(),
        license: args.license.clone(),
        environment: args.environment,
        ..Settings::default()
    };
    if stdout {
        let told = describe(&facts, &settings);
        serde_json::to_writer_pretty(&mut context.out, &told)?;
        writeln!(context.out)?;
        return Ok(Outcome::partly_if(!found.complete));
    }
    let mut partial = args.folder.clone().into_os_string();
    partial.push(".unfinished");
    let partial = PathBuf::from(partial);
    if let Some(parent) = partial.parent() {
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    }
    // An existing folder may belong to another user, or be a link.
    let made = Crate::make(&partial).with_context(|| {
        format!(
            "making {}; if an interrupted export left it behind, remove it",
            partial.display()
        )
    })?;
    let mut unfinished = PartialFolder(Some(partial.clone()));
    let (mut copied, mut size, mut left) = (0_u64, 0, 0_u64);
    if args.files {
        let rules = Rules::new(args.files_from_anywhere, args.files_without_size);
        let leave = |path: &str, why: &str| {
            let path = display(path.as_bytes());
            context.warn(&format!(
                "{path}: {why}; the crate only refers to its location"
            ));
        };
        let mut wanted = Vec::new();
        for (id, path) in facts.files() {
            match rules.open(path, facts.size(id)) {
                Ok(source) => wanted.push((id, path, source.size)),
                Err(why) => {
                    left += 1;
                    leave(path, &why);
                }
            }
        }
        context.note(&list(&wanted));
        for (id, path, _) in wanted {
            if context.interrupt.cancelled() {
                return Ok(note_if_stopped(context));
            }
            let opened = rules.open(path, facts.size(id));
            let done = opened.and_then(|source| Ok((made.copy(path, &source)?, source.size)));
            match done {
                Ok((place, length)) => {
                    settings.inside.insert(id, place);
                    copied += 1;
                    size += length;
                }
                Err(why) => {
                    left += 1;
                    leave(path, &why);
                }
            }
        }
    }
    let told = describe(&facts, &settings);
    let text = serde_json::to_string_pretty(&told)? + "\n";
    made.file(METADATA)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("writing {}", partial.join(METADATA).display()))?;
    fs::rename(&partial, &args.folder).with_context(|| {
        format!(
            "renaming {} to {}",
            partial.display(),
            args.folder.display()
        )
    })?;
    unfinished.0 = None;
    let profile = wanted.unwrap_or_else(|| facts.profile());
    if !context.globals.quiet {
        writeln!(
            context.out,
            "{}: {} run crate of {}, with {} in it ({})",
            args.folder.display(),
            profile.name(),
            args.vertex,
            counted(copied, "file", "files"),
            bytes(size),
        )?;
    }
    if !found.complete {
        context.warn("the lineage is incomplete, and the crate says so");
    }
    Ok(Outcome::partly_if(left > 0 || !found.complete))
}

/// Returns why the data does not allow a crate of that profile.
fn profile_error(facts: &Facts<'_>, wanted: Profile) -> String {
    let what = if facts.workflow.is_none() {
        "no known run contains others and has as its program a script whose extension names its language (flow.sh, flow.py, flow.nf …)"
    } else {
        "the programs of the runs in the workflow are not known"
    };
    format!(
        "a {} run crate needs more than is known: {what}. Record it with `esker run` for the workflow and in it for each step, or take --profile {}",
        wanted.name(),
        facts.profile().name()
    )
}

/// Lists the files that the crate will contain, for a check before publication: a sentence, and one line per file.
fn list(wanted: &[(VertexId, &str, u64)]) -> String {
    let sum = wanted.iter().map(|(_, _, size)| size).sum();
    let count = counted(wanted.len() as u64, "file goes", "files go");
    let lines = wanted.iter().map(|(_, path, size)| {
        let path = display(path.as_bytes());
        format!("\n  {path} ({})", bytes(*size))
    });
    let lines: String = lines.collect();
    format!("{count} into the crate ({}):{lines}", bytes(sum))
}
