//! Options as words, in the console and in the shell: `show ip route vrf red` is `show ip route --vrf red`.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::command_line;

/// Commands whose options are also words: `ping 192.0.2.1 source 10.0.0.1 df`, `show ip route vrf red`.
pub const COMMANDS: [&str; 6] = ["ping", "traceroute", "show", "acl", "nat", "clear"];

/// Topics that take words of their own, such as those of the configuration.
const OWN_WORDS: [&str; 2] = ["configuration", "state"];

/// Whether an option of a command is also a word.
pub fn is_word(command: &Command, argument: &Arg) -> bool {
    !argument.is_global_set() && !OWN_WORDS.contains(&command.get_name())
}

/// The subcommand that a word means: whole, or any unique beginning.
pub fn below<'a>(command: &'a Command, word: &str) -> Option<&'a Command> {
    let is_it = |found: &&Command| {
        let names = std::iter::once(found.get_name()).chain(found.get_all_aliases());
        !found.is_hide_set() && names.into_iter().any(|name| name.starts_with(word))
    };
    let mut found = command.get_subcommands().filter(is_it);
    let first = found.next().filter(|_| found.next().is_none());
    command.find_subcommand(word).or(first)
}

/// The command line of a shell with dashes before the names of options, the name of the program first.
pub fn of_shell(line: Vec<OsString>) -> Vec<OsString> {
    let words: Option<Vec<String>> =
        line.iter().skip(1).map(|word| word.to_str().map(str::to_owned)).collect();
    let Some((first, rest)) = words.as_deref().and_then(<[String]>::split_first) else {
        return line;
    };
    let all = command_line();
    match below(&all, first).map(Command::get_name).filter(|name| COMMANDS.contains(name)) {
        Some(name) => {
            let dashed = dashed(name, rest).into_iter().map(OsString::from);
            line.iter().take(2).cloned().chain(dashed).collect()
        }
        None => line,
    }
}

/// The words after a command with dashes before the names of its options. Those after `--` stay as they are.
pub fn dashed(command: &str, words: &[String]) -> Vec<String> {
    let all = command_line();
    let Some(mut at) = all.find_subcommand(command) else { return words.to_vec() };
    let (mut is_value, mut is_end) = (false, false);
    let option = |word: &String| {
        is_end |= word == "--";
        if std::mem::take(&mut is_value) || is_end {
            return word.clone();
        }
        if let Some(below) = below(at, word) {
            at = below;
            return word.clone();
        }
        let named =
            |it: &&Arg| it.get_long().is_some_and(|name| name == word.trim_start_matches('-'));
        let Some(argument) = at.get_arguments().find(named) else { return word.clone() };
        is_value = argument.get_action().takes_values();
        match !word.starts_with('-') && is_word(at, argument) {
            true => format!("--{word}"),
            false => word.clone(),
        }
    };
    words.iter().map(option).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_of_topics_are_words() {
        let of = |line: &str| {
            let line = words(line);
            dashed(&line[0], &line[1..]).join(" ")
        };
        assert_eq!(of("ping 10.0.0.1 count 3 df"), "10.0.0.1 --count 3 --df");
        assert_eq!(of("show ip ro vrf red protocol bgp"), "ip ro --vrf red --protocol bgp");
        assert_eq!(of("show routes vrf audit inactive"), "routes --vrf audit --inactive");
        assert_eq!(of("show routes --vrf vrf summary"), "routes --vrf vrf summary");
        assert_eq!(of("show drops all"), "drops --all");
        assert_eq!(of("clear flows vrf red port https"), "flows --vrf red --port https");
        let test = "acl test interface wan direction in source 10.0.0.1 candidate";
        let dashed = "test --interface wan --direction in --source 10.0.0.1 --candidate";
        assert_eq!(of(test), dashed);
        let part = "configuration vrfs vrf set";
        assert_eq!(of(&format!("show {part}")), part, "the configuration has words of its own");
    }

    #[test]
    fn the_shell_has_the_words_of_the_console() {
        let of = |line: &str| {
            let line = of_shell(words(line).into_iter().map(OsString::from).collect());
            line.join(&OsString::from(" ")).into_string().unwrap()
        };
        assert_eq!(of("stoa show ip route vrf red"), "stoa show ip route --vrf red");
        assert_eq!(of("stoa sh log lines 5 --json"), "stoa sh log --lines 5 --json");
        assert_eq!(of("stoa pi 10.0.0.1 vrf red"), "stoa pi 10.0.0.1 --vrf red");
        for same in [
            "stoa",
            "stoa status",
            "stoa set vrfs vrf red",
            "stoa show ip route --vrf red",
            "stoa show routes -- vrf",
            "stoa show configuration vrfs vrf set",
            "stoa --version",
        ] {
            assert_eq!(of(same), same);
        }
    }
}
