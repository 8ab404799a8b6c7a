//! State that every command receives: the global options, the output, the interrupt flag, and the database.

use crate::args::{DurabilityArg, Globals, Target};
use crate::interrupt::Interrupt;
use crate::output::Style;
use esker::{Database, Durability, OpenOptions};
use std::io::{self, IsTerminal as _, Write};

/// Global options, output and database of one command. Notes and warnings go to stderr, results to [`Self::out`].
pub struct Context {
    /// Options that every command takes.
    pub globals: Globals,
    /// State of Ctrl-C and `--timeout`.
    pub interrupt: Interrupt,
    /// Standard output, for results.
    pub out: Box<dyn Write>,
    /// Emphasis of text on stdout.
    pub style: Style,
    /// Emphasis of text on stderr.
    pub note_style: Style,
    database: Option<Database>,
    in_shell: bool,
}

impl Context {
    /// Creates the context of the only command of a process.
    pub fn new(globals: Globals, interrupt: &Interrupt) -> Self {
        let stdout = io::stdout();
        let style = Style::new(globals.color, stdout.is_terminal());
        // A terminal shows each line when it is complete; for other readers larger writes are enough.
        let out: Box<dyn Write> = if stdout.is_terminal() {
            Box::new(io::LineWriter::new(stdout))
        } else {
            Box::new(io::BufWriter::with_capacity(64 << 10, stdout))
        };
        Self {
            interrupt: interrupt.with_timeout(globals.timeout),
            note_style: Style::new(globals.color, io::stderr().is_terminal()),
            style,
            out,
            globals,
            database: None,
            in_shell: false,
        }
    }

    /// Creates the context of one command of the shell, whose target is already open.
    pub fn in_shell(globals: Globals, interrupt: &Interrupt, database: &Database) -> Self {
        Self {
            database: Some(database.clone()),
            in_shell: true,
            ..Self::new(globals, interrupt)
        }
    }

    /// Whether the command runs in a shell, together with others.
    pub fn is_in_shell(&self) -> bool {
        self.in_shell
    }

    /// Returns the options for opening a database that follow from the global options.
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions::new()
            .memory_bytes(self.globals.memory)
            .durability(self.durability())
    }

    /// Returns the durability that commits wait for.
    pub fn durability(&self) -> Durability {
        match self.globals.durability {
            DurabilityArg::Sync => Durability::Sync,
            DurabilityArg::Relaxed => Durability::Relaxed,
        }
    }

    /// Opens the target's database, which must exist.
    pub fn open(&mut self, target: &Target) -> anyhow::Result<Database> {
        self.open_with(target, false)
    }

    /// Opens the target's database, and creates it if it does not exist.
    pub fn open_or_create(&mut self, target: &Target) -> anyhow::Result<Database> {
        self.open_with(target, true)
    }

    fn open_with(&mut self, target: &Target, create: bool) -> anyhow::Result<Database> {
        if let Some(database) = &self.database {
            return Ok(database.clone());
        }
        let database = self.open_options().create(create).open(&target.target)?;
        self.database = Some(database.clone());
        Ok(database)
    }

    /// Flushes results and closes the database, so that errors of both are reported.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        self.out.flush()?;
        match self.database.take() {
            Some(database) if !self.in_shell => Ok(database.close()?),
            _ => Ok(()),
        }
    }

    /// Prints a note on stderr, unless `--quiet` is set.
    pub fn note(&self, text: &str) {
        if !self.globals.quiet {
            print_note(text);
        }
    }

    /// Prints a warning on stderr, even with `--quiet`.
    pub fn warn(&self, text: &str) {
        print_note(&format!("{} {text}", self.note_style.yellow("warning:")));
    }

    /// Prints an error that does not end the command.
    pub fn complain(&self, text: &str) {
        print_note(&format!("{} {text}", self.note_style.red("error:")));
    }
}

fn print_note(text: &str) {
    // A closed stderr leaves no way to report the error.
    let _ = writeln!(io::stderr(), "{text}");
}
