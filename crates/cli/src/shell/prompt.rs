//! The shell on a terminal: prompt, history, completion, several lines.

use super::complete::ShellCompleter;
use super::statement::is_complete;
use super::{Flow, Session};
use anyhow::Context as _;
use esker::Role;
use esker_terminal::context::Context;
use reedline::{
    ColumnarMenu, DefaultHinter, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder as _,
    Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    ValidationResult, Validator, default_emacs_keybindings,
};
use std::borrow::Cow;
use std::path::PathBuf;

/// Maximum number of lines in the history.
const HISTORY_LINES: usize = 10_000;
const MENU: &str = "completions";

pub(super) fn run(session: &mut Session, target: &str, context: &Context) -> anyhow::Result<()> {
    let mut editor = editor(session, context);
    let prompt = ShellPrompt {
        name: name_of(target),
    };
    let owner = match session.database.role() {
        Role::Owner | Role::Client { .. } => String::new(),
        Role::Attached { pid } => format!(" (served by process {pid})"),
    };
    context.note(&format!(
        "esker {} on {target}{owner}. `help` lists the commands, Tab completes, Ctrl-D leaves.",
        env!("CARGO_PKG_VERSION")
    ));
    loop {
        match editor.read_line(&prompt).context("reading the terminal")? {
            Signal::Success(text) if session.execute(&text) == Flow::Leave => return Ok(()),
            Signal::CtrlD => return Ok(()),
            // Ctrl-C clears the line and does not end the shell.
            _ => {}
        }
    }
}

fn editor(session: &Session, context: &Context) -> Reedline {
    let mut keys = default_emacs_keybindings();
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ]),
    );
    let menu = ColumnarMenu::default().with_name(MENU);
    let mut editor = Reedline::create()
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_completer(Box::new(ShellCompleter::new(session.database.clone())))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_validator(Box::new(WholeStatement))
        .with_hinter(Box::new(DefaultHinter::default()))
        .with_ansi_colors(
            context.style
                != esker_terminal::output::Style::new(esker_terminal::args::Color::Never, false),
        );
    if let Some(path) = history_path() {
        match FileBackedHistory::with_file(HISTORY_LINES, path.clone()) {
            Ok(history) => editor = editor.with_history(Box::new(history)),
            Err(error) => context.warn(&format!("no history: {}: {error}", path.display())),
        }
    }
    editor
}

/// Returns `$XDG_STATE_HOME/esker/history`, else `~/.local/state/esker/history`.
fn history_path() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME").filter(|v| !v.is_empty()) {
        Some(state) => PathBuf::from(state),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    Some(state.join("esker").join("history"))
}

/// Returns the last component of the target's path.
fn name_of(target: &str) -> String {
    let trimmed = target.trim_end_matches('/');
    trimmed.rsplit('/').next().unwrap_or(trimmed).to_owned()
}

/// Validator that lets Return end a statement only if it is complete.
struct WholeStatement;

impl Validator for WholeStatement {
    fn validate(&self, line: &str) -> ValidationResult {
        if is_complete(line) {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}

struct ShellPrompt {
    name: String,
}

impl Prompt for ShellPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("... ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(history: {}) ", search.term))
    }
}
