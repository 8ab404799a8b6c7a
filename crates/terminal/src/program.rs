//! The life of a process: signals, the command's error, its exit code; and the other programs that are installed with this one.

use crate::args::Globals;
use crate::context::Context;
use crate::exit::{self, Outcome};
use crate::interrupt::Interrupt;
use crate::output::Style;
use crate::panic;
use anyhow::Context as _;
use esker_model::Error;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Makes a panic print a plain message: what happened, where, and where to report it.
pub fn install_panic_hook() {
    panic::install_hook();
}

/// Prints a usage error, the help or the version, and returns the exit code. clap returns all three as errors.
pub fn print_usage(error: &clap::Error) -> ExitCode {
    // A closed stdout is not an error.
    let _ = error.print();
    exit::exit_code(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Runs the only command of a process: catches Ctrl-C, runs the command, prints its error, and returns the exit code.
pub fn run(
    globals: Globals,
    command: impl FnOnce(&mut Context, &Interrupt) -> anyhow::Result<Outcome>,
) -> ExitCode {
    if globals.trust_new_host {
        esker_access::known_hosts::trust_new_hosts();
    }
    let interrupt = match Interrupt::install() {
        Ok(interrupt) => interrupt,
        Err(error) => {
            let error = anyhow::Error::new(error).context("catching Ctrl-C");
            return exit::exit_code(complain(&error, Style::new(globals.color, false)));
        }
    };
    let work = || {
        let mut context = Context::new(globals, &interrupt);
        run_to_code(&mut context, |context| command(context, &interrupt))
    };
    // The panic hook has already printed the message.
    let code = std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or(panic::EXIT);
    exit::exit_code(code)
}

/// Runs one command, prints its error if it fails, and returns its exit code.
pub fn run_to_code(
    context: &mut Context,
    command: impl FnOnce(&mut Context) -> anyhow::Result<Outcome>,
) -> u8 {
    let outcome = command(context);
    let finished = context.finish();
    match outcome.and_then(|outcome| finished.map(|()| outcome)) {
        Ok(outcome) => outcome.code(),
        Err(error) if exit::is_broken_pipe(&error) => 0,
        Err(error) => complain(&with_operation(error), context.note_style),
    }
}

/// Adds the failed operation to a bare I/O error. Only writes of results cause such errors; all others say what was being done.
fn with_operation(error: anyhow::Error) -> anyhow::Error {
    let is_bare = error
        .chain()
        .next()
        .is_some_and(<dyn std::error::Error>::is::<io::Error>);
    if is_bare {
        return error.context("writing the result");
    }
    error
}

/// Prints an error and returns its exit code.
pub fn complain(error: &anyhow::Error, style: Style) -> u8 {
    let text = exit::message_of(error);
    // Errors of the traversal parser span several lines and begin with the word `error` already.
    let line = match text.strip_prefix("error") {
        Some(rest) if rest.starts_with([':', ' ']) => format!("{}{rest}", style.red("error")),
        _ => format!("{} {text}", style.red("error:")),
    };
    let _ = writeln!(io::stderr(), "{line}");
    exit::code_of(error)
}

/// Returns the path of this program, even if the file was replaced since the start.
pub fn own_path() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("finding this program's own file")?;
    let text = path.to_string_lossy();
    // Linux appends this to the path of a replaced file.
    Ok(match text.strip_suffix(" (deleted)") {
        Some(newer) if !path.exists() => PathBuf::from(newer),
        _ => path,
    })
}

/// Returns the path of a program that is installed with this one: in the same folder, else on `PATH`.
///
/// # Errors
///
/// An error that says how to install the program if it is in neither.
pub fn installed(name: &str) -> anyhow::Result<PathBuf> {
    let own = own_path()?;
    let sibling = own.with_file_name(name);
    if sibling.is_file() {
        return Ok(sibling);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(name));
    all.find(|program| program.is_file()).ok_or_else(|| {
        anyhow::anyhow!(
            "the program `{name}` is neither beside `{}` nor on PATH: install it with the package that has it, or build it \
             in a checkout with `cargo build --release --locked --bin {name}`",
            own.display()
        )
    })
}

/// Writes the address at which a program listens to a file, atomically: readers never see a part of it.
pub fn announce(file: &Path, address: &str) -> esker_model::Result<()> {
    let failed = |e| Error::io(format!("writing `{}`", file.display()), e);
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    // The temporary file follows no link and replaces no existing file; its mode depends on the umask.
    let mut draft = tempfile::Builder::new()
        .prefix(".port")
        .make_in(folder.unwrap_or(Path::new(".")), |path| {
            // The sandbox lets a server create files in that folder but not read others, so the file is opened for writing only.
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true).mode(0o666).open(path)
        })
        .map_err(failed)?;
    writeln!(draft, "{address}").map_err(failed)?;
    draft.persist(file).map(drop).map_err(|e| failed(e.error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_a_bare_error_is_one_of_writing_the_result() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let message = |error| exit::message_of(&with_operation(error));
        let bare = message(full().into());
        assert!(bare.starts_with("writing the result: "), "{bare}");
        let named = message(anyhow::Error::new(full()).context("reading `graph.tsv`"));
        assert!(named.starts_with("reading `graph.tsv`: "), "{named}");
    }

    #[test]
    fn a_program_that_is_not_installed_is_an_error_that_says_how_to_get_it() {
        let error = installed("esker-no-such-program").unwrap_err().to_string();
        assert!(error.contains("neither beside"), "{error}");
        assert!(error.contains("--bin esker-no-such-program"), "{error}");
    }

    #[test]
    fn an_address_is_announced_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("port"), dir.path().join("other"));
        fs::write(&other, "kept").unwrap();
        for link in ["port", "port.new"] {
            std::os::unix::fs::symlink(&other, dir.path().join(link)).unwrap();
        }
        announce(&file, "127.0.0.1:7400").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "127.0.0.1:7400\n");
        assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
        assert!(!file.is_symlink());
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o600, 0o600);
        assert_ne!(mode & 0o044, 0, "others may read it");
        assert!(announce(&dir.path().join("none/port"), "x").is_err());
    }
}
