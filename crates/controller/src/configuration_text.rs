//! The text of a configuration, which is given up when nobody needs it any more: it may have hundreds of megabytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The text of a configuration. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ConfigurationText(Arc<Mutex<Option<Arc<str>>>>);

impl ConfigurationText {
    /// The text, unless it was given up.
    pub fn get(&self) -> Option<Arc<str>> {
        self.lock().clone()
    }

    /// Gives it up.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<&str> for ConfigurationText {
    fn from(text: &str) -> ConfigurationText {
        ConfigurationText(Arc::new(Mutex::new(Some(text.into()))))
    }
}

impl PartialEq for ConfigurationText {
    fn eq(&self, other: &ConfigurationText) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.get() == other.get()
    }
}
