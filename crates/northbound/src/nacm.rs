//! Access control: the rules of RFC 8341.
//!
//! A rule list applies when it names a group of the user. The first matching rule decides. Without a match, the
//! module decides with `default-deny-all` and `default-deny-write`, then the configured defaults.

mod deny_write;

use deny_write::DENY_WRITE;
use stoa_controller::config::management::{Access, Action, Management, Rule};

use crate::auth::Identity;
use crate::restconf::keys::PATH_BYTES;
use crate::restconf::path::Step;

/// Secrets, marked `nacm:default-deny-all`, by their names from the root. Even administrators cannot read them without
/// a rule: they do not need them, and an attacker could use them. A test compares this list with the modules.
const SECRETS: &[&[&str]] = &[
    &["stoa-annotations:deactivated", "stoa-annotations:part", "stoa-annotations:inactive-lines"],
    &["stoa-management:management", "stoa-management:user", "stoa-management:password-hash"],
    &[
        "stoa-management:management",
        "stoa-management:radius",
        "stoa-management:server",
        "stoa-management:shared-secret",
    ],
    &["stoa-login:login", "stoa-login:user", "stoa-login:password-hash"],
    &["stoa-flow-sync:flow-sync", "stoa-flow-sync:secret"],
    &[IPSEC[0], IPSEC[1], IPSEC[2], IPSEC[3], IPSEC[4], "stoa-ipsec:encryption", "stoa-ipsec:key"],
    &[IPSEC[0], IPSEC[1], IPSEC[2], IPSEC[3], IPSEC[4], "stoa-ipsec:encryption", "stoa-ipsec:iv"],
    &[IPSEC[0], IPSEC[1], IPSEC[2], IPSEC[3], IPSEC[4], "stoa-ipsec:integrity", "stoa-ipsec:key"],
    &["stoa-login:login", "stoa-login:radius", "stoa-login:server", "stoa-login:shared-secret"],
    &[
        "ietf-interfaces:interfaces",
        "ietf-interfaces:interface",
        "stoa-interfaces:port",
        "stoa-interfaces:memif",
        "stoa-interfaces:secret",
    ],
];
/// The way to keys of security associations.
const IPSEC: [&str; 5] = [
    "stoa-ipsec:ipsec",
    "stoa-ipsec:sad",
    "stoa-ipsec:sad-entry",
    "stoa-ipsec:ipsec-sa-config",
    "stoa-ipsec:esp-sa",
];
/// Other nodes with this mark.
const DENY_ALL: &[&[&str]] = &[&["ietf-netconf-acm:nacm"], NAMES[0], NAMES[1]];
/// Those of them that name other nodes, whatever the rules about those are: a rule for all nodes does not mean them. An
/// administrator who activates a part makes its lines effective.
const NAMES: [&[&str]; 2] = [&["stoa-annotations:annotations"], &["stoa-annotations:deactivated"]];
/// Operations with this mark: they affect the changes or the traffic of others.
const DENY_CALL: &[(&str, &[&str])] = &[
    ("stoa-datastore", &["confirm", "cancel", "discard", "rollback"]),
    // Captured packets are the users' communication.
    ("stoa-forwarder", &["capture"]),
    // They decide who may use the network.
    ("stoa-login", &["log-in", "log-out"]),
    // Messages name what the configuration has, whoever may read it.
    ("stoa-logging", &["recent-messages"]),
];
/// An access to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read it.
    Read,
    /// Create it.
    Create,
    /// Change it.
    Update,
    /// Delete it.
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
        }
    }
}

#[derive(Debug)]
struct PathRule<'a> {
    rule: &'a Rule,
    rule_path: Option<Vec<Step>>,
}

/// The access rights of one user.
#[derive(Debug)]
pub struct Rights<'a> {
    access: &'a Access,
    rules: Vec<PathRule<'a>>,
    is_admin: bool,
}

impl<'a> Rights<'a> {
    /// The rights of a user with these settings.
    pub fn of(identity: &Identity, management: &'a Management) -> Rights<'a> {
        let access = &management.access;
        let named =
            access.groups.group.iter().filter(|group| group.user_name.contains(&identity.name));
        let mut groups: Vec<&str> = named.map(|group| group.name.as_str()).collect();
        if access.enable_external_groups {
            groups.extend(identity.groups.iter().map(String::as_str));
        }
        let counts = |list: &&stoa_controller::config::management::RuleList| {
            list.group.iter().any(|group| group == "*" || groups.contains(&group.as_str()))
        };
        let rules = access.rule_list.iter().filter(counts).flat_map(|list| &list.rule);
        let known =
            |rule: &'a Rule| PathRule { rule, rule_path: rule.path.as_deref().map(rule_path) };
        Rights { access, rules: rules.map(known).collect(), is_admin: identity.is_admin }
    }

    /// Whether the rules need not be checked node by node, except for secrets.
    pub fn is_whole(&self) -> bool {
        self.is_admin || !self.access.enable_nacm
    }

    /// Whether any node may be created, changed or deleted. `false` is certain and needs no look at the data.
    pub fn may_write_any(&self) -> bool {
        let permits = |known: &PathRule<'_>| {
            let rule = known.rule;
            let is_data = rule.rpc_name.is_none() && rule.notification_name.is_none();
            let writes = [Operation::Create, Operation::Update, Operation::Delete];
            rule.action == Action::Permit
                && is_data
                && writes.iter().any(|one| covers(&rule.access_operations, one.name()))
        };
        self.is_whole()
            || self.access.write_default == Action::Permit
            || self.rules.iter().any(permits)
    }

    /// Whether the node at the end of these steps may be accessed.
    pub fn may(&self, operation: Operation, steps: &[Step]) -> bool {
        let is_secret = is_one_of(SECRETS, steps);
        if self.is_whole() && !(is_secret && operation == Operation::Read) {
            return true;
        }
        let (may, by_path) = self.decide(operation, steps);
        if !may || by_path || operation != Operation::Read || self.is_whole() {
            return may;
        }
        // RFC 8341, section 3.2.4: nodes below a node that may not be read may not be read either, except where the
        // path of a rule permits it.
        (1..steps.len()).all(|length| self.decide(operation, &steps[..length]).0)
    }

    /// Whether the rules permit it for this node alone, and whether a rule with a path decided.
    fn decide(&self, operation: Operation, steps: &[Step]) -> (bool, bool) {
        let Some(last) = steps.last() else { return (true, false) };
        // A rule for all, or for a node above, does not mean the secrets below.
        let special =
            [SECRETS, NAMES.as_slice()].into_iter().find(|special| is_one_of(special, steps));
        let special = special.filter(|_| operation == Operation::Read);
        let is_own = |known: &PathRule<'_>, special: &[&[&str]]| {
            let is_of_module = known.rule.module_name == last.module && special == NAMES.as_slice();
            known.rule.action == Action::Deny
                || is_of_module
                || known.rule_path.as_ref().is_some_and(|path| is_one_of(special, path))
        };
        let fits = |known: &&PathRule<'_>| {
            let PathRule { rule, rule_path } = known;
            if special.is_some_and(|special| !is_own(known, special)) {
                return false;
            }
            let is_data = rule.rpc_name.is_none() && rule.notification_name.is_none();
            is_data
                && is_for(&rule.module_name, &last.module)
                && covers(&rule.access_operations, operation.name())
                && rule_path.as_ref().is_none_or(|rule_path| leads_to(rule_path, steps))
        };
        if let Some(known) = self.rules.iter().find(fits) {
            return (known.rule.action == Action::Permit, known.rule_path.is_some());
        }
        if is_one_of(SECRETS, steps) || is_one_of(DENY_ALL, steps) {
            return (false, false);
        }
        if operation != Operation::Read && is_one_of(DENY_WRITE, steps) {
            return (false, false);
        }
        let default = match operation {
            Operation::Read => self.access.read_default,
            _ => self.access.write_default,
        };
        (default == Action::Permit, false)
    }

    /// Whether an operation may be called.
    pub fn may_call(&self, module: &str, name: &str) -> bool {
        if self.is_whole() {
            return true;
        }
        if let Some(action) = self.rule_of_call(module, name) {
            return action == Action::Permit;
        }
        let is_marked = |(of, names): &(&str, &[&str])| *of == module && names.contains(&name);
        !DENY_CALL.iter().any(is_marked) && self.access.exec_default == Action::Permit
    }

    /// Whether a rule, or the right of an administrator, permits a call; the default does not count.
    pub fn is_called_by_rule(&self, module: &str, name: &str) -> bool {
        self.is_whole() || self.rule_of_call(module, name) == Some(Action::Permit)
    }

    fn rule_of_call(&self, module: &str, name: &str) -> Option<Action> {
        let fits = |known: &&PathRule<'_>| {
            let rule = known.rule;
            let named = rule.rpc_name.as_deref();
            let is_plain = rule.path.is_none() && rule.notification_name.is_none();
            is_for(&rule.module_name, module)
                && covers(&rule.access_operations, "exec")
                && named.map_or(is_plain, |named| named == "*" || named == name)
        };
        self.rules.iter().find(fits).map(|known| known.rule.action)
    }

    /// Whether a notification may be received.
    pub fn may_receive(&self, module: &str, name: &str) -> bool {
        if self.is_whole() {
            return true;
        }
        let fits = |known: &&PathRule<'_>| {
            let rule = known.rule;
            let named = rule.notification_name.as_deref();
            let is_plain = rule.path.is_none() && rule.rpc_name.is_none();
            is_for(&rule.module_name, module)
                && covers(&rule.access_operations, "read")
                && named.map_or(is_plain, |named| named == "*" || named == name)
        };
        let found = self.rules.iter().find(fits).map(|known| known.rule.action);
        found.unwrap_or(self.access.read_default) == Action::Permit
    }

    /// The nodes below a node for which other rights can apply: those that modules mark, and those of the paths of
    /// rules. Each begins below the node.
    pub fn special_below(&self, steps: &[Step]) -> Vec<Vec<Step>> {
        let length = steps.len();
        let step = |name: &&str| {
            let (module, name) = name.split_once(':').unwrap_or_default();
            Step { module: module.to_owned(), name: name.to_owned(), keys: Vec::new() }
        };
        let marked = SECRETS.iter().chain(DENY_ALL).chain(DENY_WRITE);
        let marked = marked.filter(|names| length < names.len() && is_named(names, steps));
        let marked = marked.map(|names| names[length..].iter().map(step).collect());
        let ruled = self.rules.iter().filter_map(|known| known.rule_path.as_deref());
        let ruled = ruled.filter(|path| length < path.len() && is_start(path, steps));
        marked.chain(ruled.map(|path| path[length..].to_vec())).collect()
    }

    /// Whether a node may be read with all below it, except for secrets.
    pub fn may_read_all(&self, steps: &[Step]) -> bool {
        let may = |below: Vec<Step>| {
            let whole = [steps, below.as_slice()].concat();
            is_one_of(SECRETS, &whole) || self.may(Operation::Read, &whole)
        };
        self.may(Operation::Read, steps) && self.special_below(steps).into_iter().all(may)
    }

    /// Whether nodes below an unreadable node may be readable: then the path to them is shown.
    pub fn has_rules_below(&self, steps: &[Step]) -> bool {
        let reads = |known: &&PathRule<'_>| covers(&known.rule.access_operations, "read");
        let is_below =
            |rule_path: &[Step]| rule_path.len() > steps.len() && is_start(rule_path, steps);
        self.rules.iter().enumerate().any(|(index, known)| {
            let Some(rule_path) =
                known.rule_path.as_deref().filter(|rule_path| is_below(rule_path))
            else {
                return false;
            };
            let module = rule_path.last().map_or("", |last| last.module.as_str());
            // An earlier rule denies all that this one permits.
            let is_denied = self.rules[..index].iter().filter(reads).any(|earlier| {
                let rule = earlier.rule;
                let is_data = rule.rpc_name.is_none() && rule.notification_name.is_none();
                rule.action == Action::Deny
                    && is_data
                    && is_for(&rule.module_name, module)
                    && earlier.rule_path.as_ref().is_none_or(|other| leads_to(other, rule_path))
            });
            known.rule.action == Action::Permit && reads(&known) && !is_denied
        })
    }
}

/// Whether a path contains the name of a secret.
pub fn names_secret(path: &str) -> bool {
    SECRETS.iter().any(|names| {
        let last = names.last().and_then(|last| last.split(':').next_back());
        last.is_some_and(|last| path.contains(last))
    })
}

/// Whether the node is a secret, or a secret can be below it.
pub fn may_hold_secret(steps: &[Step]) -> bool {
    SECRETS.iter().any(|names| steps.len() <= names.len() && is_named(names, steps))
}

/// Whether the names match the steps, up to the shorter length.
fn is_named(names: &[&str], steps: &[Step]) -> bool {
    names.iter().zip(steps).all(|(name, step)| {
        name.split_once(':') == Some((step.module.as_str(), step.name.as_str()))
    })
}

/// Whether the node is one of these, or below one.
fn is_one_of(all: &[&[&str]], steps: &[Step]) -> bool {
    all.iter().any(|names| names.len() <= steps.len() && is_named(names, steps))
}

fn is_for(requested: &str, module: &str) -> bool {
    requested == "*" || requested == module
}

fn covers(operations: &str, requested: &str) -> bool {
    operations == "*" || operations.split_whitespace().any(|one| one == requested)
}

fn is_same(rule_path: &Step, step: &Step) -> bool {
    let has = |key: &(String, String)| step.keys.contains(key);
    rule_path.module == step.module && rule_path.name == step.name && rule_path.keys.iter().all(has)
}

/// Whether the node is the one of the rule's path, or below it.
fn leads_to(rule_path: &[Step], steps: &[Step]) -> bool {
    rule_path.len() <= steps.len() && is_start(rule_path, steps)
}

fn is_start(rule_path: &[Step], steps: &[Step]) -> bool {
    rule_path.iter().zip(steps).all(|(rule_path, step)| is_same(rule_path, step))
}

/// The steps of a path that libyang printed. `None`: the path is ambiguous. libyang puts a value that contains `'`
/// between `"` without escapes, so a path with more than one such value could name another node.
pub fn read(path: &str) -> Option<Vec<Step>> {
    let is_clear = path.len() <= PATH_BYTES && path.matches('"').count() <= 2;
    is_clear.then(|| rule_path(path))
}

/// The steps of the path of a rule: `/module:name[key='value']/name`.
pub fn rule_path(path: &str) -> Vec<Step> {
    split(path, '/').into_iter().filter(|step| !step.is_empty()).fold(
        Vec::new(),
        |mut all, step| {
            let (name, rest) = match step.find('[') {
                Some(at) => step.split_at(at),
                None => (step, ""),
            };
            let above =
                all.last().map(|rule_path: &Step| rule_path.module.clone()).unwrap_or_default();
            let (module, name) = name.split_once(':').unwrap_or((&above, name));
            let keys = split(rest, ']').into_iter().filter_map(|predicate| {
                let (name, value) = predicate.trim_start_matches('[').split_once('=')?;
                let value = value.trim();
                let inside = value.get(1..value.len().checked_sub(1)?)?;
                let name = name.trim();
                let name = name.rsplit(':').next().unwrap_or(name);
                Some((name.to_owned(), inside.to_owned()))
            });
            let keys = keys.collect();
            all.push(Step { module: module.to_owned(), name: name.to_owned(), keys });
            all
        },
    )
}

/// Splits a text at a character outside of quotes.
fn split(text: &str, at: char) -> Vec<&str> {
    let mut quote = None;
    let mut parts = Vec::new();
    let mut begin = 0;
    for (index, letter) in text.char_indices() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(letter),
            (_, None) if letter == at => {
                parts.push(&text[begin..index]);
                begin = index + letter.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

#[cfg(test)]
mod tests;
