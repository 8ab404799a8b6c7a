//! What every command is given: the global options, where to print, whether to stop, and the database.

use crate::args::{DurabilityArg, Globals, Target};
use crate::interrupt::Interrupt;
use crate::output::Style;
use esker::{Database, Durability, OpenOptions};
use std::io::{self, IsTerminal as _, Write};

/// The surroundings of one command. Notes and warnings go to stderr, results to [`Self::out`].
pub(crate) struct Context {
    /// Options that every command takes.
    pub(crate) globals: Globals,
    /// Whether to stop.
    pub(crate) interrupt: Interrupt,
    /// Where results go.
    pub(crate) out: Box<dyn Write>,
    /// Emphasis on stdout.
    pub(crate) style: Style,
    /// Emphasis on stderr.
    pub(crate) note_style: Style,
    database: Option<Database>,
    in_shell: bool,
}

impl Context {
    /// For one command of a process.
    pub(crate) fn new(globals: Globals, interrupt: &Interrupt) -> Self {
        let stdout = io::stdout();
        let style = Style::new(globals.color, stdout.is_terminal());
        // On a terminal a line shows when it is done; elsewhere nobody waits for it.
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

    /// For one command of the shell, whose target is open already.
    pub(crate) fn in_shell(globals: Globals, interrupt: &Interrupt, database: &Database) -> Self {
        Self {
            database: Some(database.clone()),
            in_shell: true,
            ..Self::new(globals, interrupt)
        }
    }

    /// Whether this is one of several commands of a shell.
    pub(crate) fn is_in_shell(&self) -> bool {
        self.in_shell
    }

    /// How the global options say to open a database.
    pub(crate) fn open_options(&self) -> OpenOptions {
        OpenOptions::new()
            .memory_bytes(self.globals.memory)
            .durability(self.durability())
    }

    /// What commits wait for.
    pub(crate) fn durability(&self) -> Durability {
        match self.globals.durability {
            DurabilityArg::Sync => Durability::Sync,
            DurabilityArg::Relaxed => Durability::Relaxed,
        }
    }

    /// The database, which must exist.
    pub(crate) fn open(&mut self, target: &Target) -> anyhow::Result<Database> {
        self.open_with(target, false)
    }

    /// The database, made if there is none yet.
    pub(crate) fn open_or_create(&mut self, target: &Target) -> anyhow::Result<Database> {
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

    /// Flushes results and lets go of the database, so that a failure to do either is seen.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        self.out.flush()?;
        match self.database.take() {
            Some(database) if !self.in_shell => Ok(database.close()?),
            _ => Ok(()),
        }
    }

    /// A line for people on stderr, unless they asked for quiet.
    pub(crate) fn note(&self, text: &str) {
        if !self.globals.quiet {
            print_note(text);
        }
    }

    /// A line about something wrong on stderr, quiet or not.
    pub(crate) fn warn(&self, text: &str) {
        print_note(&format!("{} {text}", self.note_style.yellow("warning:")));
    }

    /// An error that does not end the command.
    pub(crate) fn complain(&self, text: &str) {
        print_note(&format!("{} {text}", self.note_style.red("error:")));
    }
}

fn print_note(text: &str) {
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(io::stderr(), "{text}");
}
