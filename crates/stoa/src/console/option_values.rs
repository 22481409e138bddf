//! Completion of the values of options: those that an option allows, configured names, and well-known names.

use stoa_console::completion::Completion;

use super::complete::{INTERFACE_NAMES, LIST_NAMES};
use super::operate;
use crate::option_words::{self, below};

/// Where the names are configured that options have as their values, by the names of the options.
const NAMES: [(&[&str], &str); 4] = [
    (&["interface", "output"], INTERFACE_NAMES),
    (&["from-zone", "to-zone"], "/ietf-access-control-list:acls/stoa-acl:zones/zone"),
    (&["vrf"], "/stoa-vrf:vrfs/vrf"),
    (&["acl"], LIST_NAMES),
];

/// Names that options take besides those that are configured.
const OTHER_NAMES: [(&[&str], &str, &str); 2] = [
    (&["from-zone", "to-zone"], "router", "the router itself"),
    (&["vrf"], "default", "the default VRF"),
];

/// The option of a command whose value is the next word.
pub(super) fn open_option(before: &[String]) -> Option<clap::Arg> {
    let first = operate::named(before).ok()?;
    let all = crate::command_line();
    let mut at = all.find_subcommand(if first == "monitor" { "show" } else { first })?;
    let has_words = option_words::COMMANDS.contains(&at.get_name());
    let mut open = None;
    let words = before.get(1..).unwrap_or_default();
    let words = if first == "monitor" { operate::topic(words) } else { words };
    for word in words {
        if open.take().is_some() {
            continue;
        }
        if let Some(below) = below(at, word) {
            at = below;
            continue;
        }
        let is_it = |it: &&clap::Arg| {
            let (dashed, is_word) =
                (word.strip_prefix("--"), has_words && option_words::is_word(at, it));
            let name = dashed.or_else(|| is_word.then_some(word.as_str()));
            name.is_some() && it.get_long() == name && it.get_action().takes_values()
        };
        let needs_value =
            |it: &&clap::Arg| it.get_num_args().is_none_or(|count| count.min_values() > 0);
        open = at.get_arguments().find(is_it).filter(needs_value);
    }
    open.cloned()
}

/// The values of an option: those that it allows, or the names that `there` finds at a path, or well-known names.
pub(super) fn values_of(
    argument: &clap::Arg,
    there: &dyn Fn(&str) -> Vec<String>,
) -> Vec<Completion> {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        let help = |it: &clap::builder::PossibleValue| {
            it.get_help().map(ToString::to_string).unwrap_or_default()
        };
        let shown = possible.iter().filter(|it| !it.is_hide_set());
        return shown
            .map(|it| Completion { word: it.get_name().to_owned(), help: help(it) })
            .collect();
    }
    let name = argument.get_long().unwrap_or_default();
    let of = |names: &[&str]| names.contains(&name);
    let paths = NAMES.iter().filter(|(names, _)| of(names)).flat_map(|(_, path)| there(path));
    let mut offers: Vec<_> =
        paths.map(|word| Completion { word, help: "configured".into() }).collect();
    let others = OTHER_NAMES.iter().filter(|(names, ..)| of(names));
    offers.extend(
        others.map(|(_, word, help)| Completion { word: (*word).into(), help: (*help).into() }),
    );
    let known = match name {
        "port" | "source-port" | "destination-port" => stoa_yang::well_known::services(),
        "protocol" => stoa_api::acl::protocol_names(),
        "icmp-type" => stoa_api::acl::ICMP_TYPES.iter().map(|(name, _)| *name).collect(),
        _ => Vec::new(),
    };
    offers.extend(
        known.into_iter().map(|word| Completion { word: word.into(), help: String::new() }),
    );
    let value = argument.get_value_names().and_then(|names| names.first());
    let value = value.map_or_else(|| name.to_owned(), |it| it.to_lowercase());
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    offers.push(Completion { word: format!("<{value}>"), help });
    offers
}
