//! Plugins: capabilities that another program adds to the router. `docs/dev/plugin.md` has a whole one.

use std::collections::BTreeSet;
use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::sync::OnceLock;

use clap::ArgMatches;
use stoa_controller::capability::{Capability, list};

pub use crate::failure::Failure;
pub use crate::operator::Client;
pub use crate::show::{number, table, write};

/// A capability that another program adds to the router: one value, with a part for each layer.
pub struct Plugin {
    /// Its YANG module. The module's name is that of the plugin.
    pub module: stoa_yang::Module,
    /// Its part in the forwarder, of the same name.
    pub forwarder: stoa_forwarder::plugin::Plugin,
    /// Its part in the controller.
    pub controller: Box<dyn Capability>,
    /// Its topics of `stoa show`.
    pub topics: Vec<Box<dyn Topic>>,
}

/// A topic of `stoa show`.
pub trait Topic: Send + Sync {
    /// Its name, help and options. `--json`, `--watch` and `--socket` are there already.
    fn command(&self) -> clap::Command;

    /// Requests the state and prints it.
    fn show<'a>(&'a self, query: Query<'a>) -> Shown<'a>;
}

/// What a topic is asked for.
pub struct Query<'a> {
    /// The running router.
    pub client: &'a mut Client,
    /// The options of the topic.
    pub matches: &'a ArgMatches,
    /// Whether to print one JSON object on one line, instead of a table.
    pub json: bool,
    /// Where to print.
    pub out: &'a mut dyn Write,
}

/// What [`Topic::show`] returns.
pub type Shown<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

static TOPICS: OnceLock<Vec<Box<dyn Topic>>> = OnceLock::new();

/// The topics of all plugins.
pub(crate) fn topics() -> impl Iterator<Item = &'static dyn Topic> {
    TOPICS.get_or_init(Vec::new).iter().map(Box::as_ref)
}

/// The topic of a plugin that the command line names, with the options of `show` and of the topic.
pub(crate) fn topic_of(
    matches: &ArgMatches,
) -> Option<(&'static dyn Topic, &ArgMatches, &ArgMatches)> {
    let (_, of_show) = matches.subcommand().filter(|(name, _)| *name == "show")?;
    let (name, of_topic) = of_show.subcommand()?;
    let topic = topics().find(|topic| topic.command().get_name() == name)?;
    Some((topic, of_show, of_topic))
}

/// Adds plugins to all layers of this process.
///
/// # Panics
/// If a plugin is wrong: an error of the program.
pub(crate) fn install(plugins: Vec<Plugin>) {
    let mut names = BTreeSet::new();
    let (mut modules, mut forwarder) = (Vec::new(), Vec::new());
    let (mut capabilities, mut topics) = (Vec::new(), Vec::new());
    for plugin in plugins {
        let name = plugin.module.name;
        assert!(names.insert(name), "plugin {name} is there twice");
        assert_eq!(plugin.forwarder.name, name, "the name of the plugin is that of its module");
        let is_secret = plugin.module.text.contains("default-deny-");
        assert!(!is_secret, "plugin {name}: nacm:default-deny-... is not supported in plugins");
        modules.push(plugin.module);
        forwarder.push(plugin.forwarder);
        capabilities.push(plugin.controller);
        topics.extend(plugin.topics);
    }
    stoa_yang::add(modules);
    stoa_forwarder::plugin::install(forwarder);
    list::add(capabilities);
    assert!(TOPICS.set(topics).is_ok(), "plugins are installed once");
}
