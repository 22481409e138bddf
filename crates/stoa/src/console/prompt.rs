//! What stands before a line.

use std::borrow::Cow;

use reedline::{Prompt, PromptEditMode, PromptHistorySearch};

use super::configure::State;

/// The name of the machine, the mode, and where in the configuration the words begin.
pub struct Words {
    left: String,
    sign: &'static str,
}

impl Words {
    pub fn new(state: Option<State>) -> Words {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
        let name = name.map_or_else(|_| "stoa".to_owned(), |name| name.trim().to_owned());
        match state {
            None => Words { left: name, sign: "> " },
            Some(State { above }) if above.is_empty() => Words { left: name, sign: "# " },
            Some(State { above }) => {
                Words { left: format!("[{}] {name}", above.join(" ")), sign: "# " }
            }
        }
    }
}

impl Prompt for Words {
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
