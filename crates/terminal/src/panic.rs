//! The message after a bug in Esker: what happened, where, and where to report it. A backtrace is printed only on request.

use std::backtrace::Backtrace;
use std::io::Write as _;
use std::panic::{self, PanicHookInfo};

/// Exit code after a bug.
pub(crate) const EXIT: u8 = 1;

/// Installs a panic hook that prints a plain message on stderr.
pub(crate) fn install_hook() {
    panic::set_hook(Box::new(|panic| {
        // A closed stderr leaves no way to report the error.
        let _ = std::io::stderr().write_all(describe(panic).as_bytes());
    }));
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let what = panic
        .payload_as_str()
        .unwrap_or("the cause left no message");
    let place = panic.location().map_or_else(
        || "an unknown place".to_owned(),
        |l| format!("{}:{}", l.file(), l.line()),
    );
    let mut text = format!(
        "\nerror: esker {} has a bug, and stopped: {what} ({place})\n\
         What was acknowledged before is safe. Please report this line, and the command that you ran, to the maintainers\n\
         (CONTRIBUTING.md says where).\n",
        env!("CARGO_PKG_VERSION"),
    );
    if std::env::var_os("RUST_BACKTRACE").is_some() {
        text.push_str(&Backtrace::force_capture().to_string());
    }
    text
}
