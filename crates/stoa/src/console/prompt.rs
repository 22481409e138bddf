//! The prompt of the console.

use std::borrow::Cow;

use reedline::{Prompt, PromptEditMode, PromptHistorySearch};

use super::configure::State;

/// The prompt: host name, mode, and the configuration node that words are relative to.
pub struct ConsolePrompt {
    left: String,
    sign: &'static str,
}

impl ConsolePrompt {
    pub fn new(state: Option<State>) -> ConsolePrompt {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
        let name = name.map_or_else(|_| "stoa".to_owned(), |name| name.trim().to_owned());
        match state {
            None => ConsolePrompt { left: name, sign: "> " },
            Some(State { above }) if above.is_empty() => ConsolePrompt { left: name, sign: "# " },
            Some(State { above }) => {
                ConsolePrompt { left: format!("[{}] {name}", above.join(" ")), sign: "# " }
            }
        }
    }
}

impl Prompt for ConsolePrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.left)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(self.sign)
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }
}
