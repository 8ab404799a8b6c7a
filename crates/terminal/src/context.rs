//! State that every command receives: the global options, the output, the interrupt flag, and the database.

use crate::args::{DurabilityArg, Globals, Target};
use crate::interrupt::Interrupt;
use crate::output::Style;
use crate::pager::Pager;
use anyhow::Context as _;
use esker::{Database, Durability, OpenOptions};
use std::cell::RefCell;
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
    pager: Option<Pager>,
    /// Notes that are printed when the pager has ended, so that they are not in its page.
    waiting_notes: RefCell<Vec<String>>,
}

impl Context {
    /// Creates the context of the only command of a process.
    pub fn new(globals: Globals, interrupt: &Interrupt) -> Self {
        let stdout = io::stdout();
        let width = terminal_width().filter(|_| !globals.wide);
        let style = Style::new(globals.color, stdout.is_terminal()).with_width(width);
        if stdout.is_terminal() {
            crate::zone::use_zone_of_user();
        }
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
            pager: None,
            waiting_notes: RefCell::default(),
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

    /// Sends further results to a pager if stdout is a terminal. A shell has its own prompt there, and uses none.
    pub fn start_pager(&mut self) {
        if self.in_shell || self.globals.no_pager || !io::stdout().is_terminal() {
            return;
        }
        if let Some((pager, input)) = Pager::start() {
            self.pager = Some(pager);
            self.out = Box::new(io::LineWriter::new(input));
        }
    }

    /// Flushes results, waits for the pager and closes the database, so that errors are reported.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        let flushed = self.out.flush();
        if let Some(pager) = self.pager.take() {
            // The pager reads to the end of its input.
            self.out = Box::new(io::stdout());
            pager.wait().context("waiting for the pager")?;
            self.waiting_notes
                .take()
                .iter()
                .for_each(|text| print_note(text));
        }
        flushed?;
        match self.database.take() {
            Some(database) if !self.in_shell => Ok(database.close()?),
            _ => Ok(()),
        }
    }

    /// Prints a note on stderr, unless `--quiet` is set.
    pub fn note(&self, text: &str) {
        if !self.globals.quiet {
            self.print_note(text);
        }
    }

    /// Prints advice on stderr, such as the next command, if stderr is a terminal.
    pub fn hint(&self, text: &str) {
        if io::stderr().is_terminal() {
            self.note(&self.note_style.dim(text));
        }
    }

    /// Prints a warning on stderr, even with `--quiet`.
    pub fn warn(&self, text: &str) {
        self.print_note(&format!("{} {text}", self.note_style.yellow("warning:")));
    }

    /// Prints an error that does not end the command.
    pub fn complain(&self, text: &str) {
        self.print_note(&format!("{} {text}", self.note_style.red("error:")));
    }

    fn print_note(&self, text: &str) {
        if self.pager.is_some() {
            self.waiting_notes.borrow_mut().push(text.to_owned());
        } else {
            print_note(text);
        }
    }
}

/// Returns the width of the terminal on stdout; `None` for a file or a pipe.
fn terminal_width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(columns.0.into())
}

fn print_note(text: &str) {
    // A closed stderr leaves no way to report the error.
    let _ = writeln!(io::stderr(), "{text}");
}
