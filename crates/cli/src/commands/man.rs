//! `esker man`: writes manual pages from the definitions of `--help`.

use crate::args::{Cli, ManArgs};
use anyhow::Context as _;
use clap::CommandFactory as _;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use std::fs;
use std::io::Write as _;
use std::path::Path;

pub(crate) fn run(args: &ManArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        context.out.write_all(&page)?;
        return Ok(Outcome::Done);
    };
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    let pages = write_pages(&command, "esker", directory)?;
    context.note(&format!("wrote {pages} pages to {}", directory.display()));
    Ok(Outcome::Done)
}

/// Writes `esker.1`, `esker-get.1`, `esker-import-darshan.1`, …
fn write_pages(command: &clap::Command, name: &str, directory: &Path) -> anyhow::Result<usize> {
    let mut page = Vec::new();
    // clap requires static names; there are some forty.
    let title: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let man = clap_mangen::Man::new(command.clone().name(title));
    man.render(&mut page)?;
    let path = directory.join(format!("{name}.1"));
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    let mut pages = 1;
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        pages += write_pages(sub, &format!("{name}-{}", sub.get_name()), directory)?;
    }
    Ok(pages)
}
