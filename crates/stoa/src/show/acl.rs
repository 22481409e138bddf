//! Access lists: rules with their hits, and where the lists are attached.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::acl::{action_text, conditions_text};
use stoa_api::date;
use stoa_api::v1::{
    AclAttachment, AclRule, AclRuleState, ShowAclsReply, ShowAclsRequest, ZonePair,
};

use super::zones::lists;
use super::{count, duration, table, unix_s, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the lists, or the one of a name, and prints them.
pub async fn show(
    client: &mut Client,
    name: Option<&str>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let request = ShowAclsRequest { acl: name.unwrap_or_default().to_owned() };
    let reply = client.show_acls(request).await?.into_inner();
    if as_json {
        writeln!(out, "{}", to_json(&reply))?;
        return Ok(());
    }
    if reply.rules.is_empty() && reply.empty.is_empty() && reply.zone_pairs.is_empty() {
        writeln!(out, "No access lists: all packets pass.")?;
        return Ok(());
    }
    write(&to_table(&reply.rules), out)?;
    for name in &reply.empty {
        writeln!(out, "{name} has no rules.")?;
    }
    writeln!(out)?;
    write_places(&reply, out)
}

/// Prints where the lists are attached.
fn write_places(reply: &ShowAclsReply, out: &mut dyn Write) -> Result<(), Failure> {
    let (attached, pairs) = (&reply.attachments, &reply.zone_pairs);
    if attached.is_empty() && pairs.is_empty() {
        writeln!(out, "Attached to no interface and no pair of zones.")?;
        return Ok(());
    }
    if !attached.is_empty() {
        write(&attachments(attached), out)?;
    }
    if !pairs.is_empty() {
        if !attached.is_empty() {
            writeln!(out)?;
        }
        write(&zone_pairs(pairs), out)?;
    }
    Ok(())
}

/// The pairs of zones. `show zones` has what no rule of them matches.
fn zone_pairs(pairs: &[ZonePair]) -> Table {
    let mut table = table(&["from zone", "to zone", "lists in order"]);
    for pair in pairs {
        table.add_row([&pair.from, &pair.to, &lists(pair)]);
    }
    table
}

fn to_table(rules: &[AclRuleState]) -> Table {
    let columns = ["acl", ">#", "rule", "match", "action", ">hits", ">bytes", "last hit"];
    let mut table = table(&columns);
    for state in rules {
        let Some(rule) = &state.rule else { continue };
        table.add_row(vec![
            Cell::new(&rule.acl),
            Cell::new(state.position),
            Cell::new(&rule.name),
            Cell::new(conditions_text(rule)),
            Cell::new(action(rule)),
            count(state.packets),
            count(state.bytes),
            Cell::new(last_hit(state.last_hit_unix_s, unix_s())),
        ]);
    }
    table
}

fn action(rule: &AclRule) -> String {
    let action = action_text(rule.action());
    let stateful = if rule.stateful { ", stateful" } else { "" };
    let gateway = match rule.alg.is_empty() {
        true => String::new(),
        false => format!(", alg {}", rule.alg),
    };
    let limit = rule.rate_limit.map(|it| format!(", {}/s", it.packets_per_second));
    let log = if rule.log { ", log" } else { "" };
    format!("{action}{stateful}{gateway}{}{log}", limit.unwrap_or_default())
}

fn last_hit(unix_s: u64, now: u64) -> String {
    match unix_s {
        0 => "never".to_owned(),
        unix_s => format!("{} ago", duration(now.saturating_sub(unix_s))),
    }
}

fn attachments(attachments: &[AclAttachment]) -> Table {
    let columns = ["interface", "direction", "family", "lists in order", ">no rule", ">bytes"];
    let mut table = table(&columns);
    for it in attachments {
        table.add_row(vec![
            Cell::new(&it.interface),
            Cell::new(&it.direction),
            Cell::new(format!("IPv{}", it.family)),
            Cell::new(it.acls.join(", ")),
            count(it.unmatched_packets),
            count(it.unmatched_bytes),
        ]);
    }
    table
}

fn to_json(reply: &ShowAclsReply) -> Value {
    let rules: Vec<Value> = reply.rules.iter().filter_map(rule).collect();
    let attachment = |it: &AclAttachment| {
        json!({
            "interface": it.interface, "direction": it.direction, "family": it.family, "acls": it.acls,
            "unmatched_packets": it.unmatched_packets, "unmatched_bytes": it.unmatched_bytes,
        })
    };
    let attachments: Vec<Value> = reply.attachments.iter().map(attachment).collect();
    let pair = |it: &ZonePair| json!({ "from": it.from, "to": it.to, "acls4": it.acls4, "acls6": it.acls6 });
    let pairs: Vec<Value> = reply.zone_pairs.iter().map(pair).collect();
    json!({ "rules": rules, "attachments": attachments, "zone_pairs": pairs, "empty": reply.empty })
}

fn rule(state: &AclRuleState) -> Option<Value> {
    let rule = state.rule.as_ref()?;
    let last_hit = (state.last_hit_unix_s > 0).then(|| date::of_unix_s(state.last_hit_unix_s));
    Some(json!({
        "acl": rule.acl,
        "position": state.position,
        "rule": rule.name,
        "match": conditions_text(rule),
        "action": action_text(rule.action()),
        "stateful": rule.stateful,
        "alg": (!rule.alg.is_empty()).then_some(&rule.alg),
        "log": rule.log,
        "packets_per_second": rule.rate_limit.map(|it| it.packets_per_second),
        "packets": state.packets,
        "bytes": state.bytes,
        "last_hit": last_hit,
    }))
}

#[cfg(test)]
mod tests {
    use stoa_api::v1::AclAction;

    use super::*;

    #[test]
    fn rules_and_attachments_are_shown() {
        let rule = AclRule {
            acl: "edge".into(),
            name: "web".into(),
            family: 4,
            protocols: vec![6],
            action: AclAction::AclReject.into(),
            ..AclRule::default()
        };
        let state = AclRuleState {
            rule: Some(rule),
            packets: 1_234,
            position: 1,
            ..AclRuleState::default()
        };
        let text = to_table(std::slice::from_ref(&state)).to_string();
        assert!(text.contains("family IPv4 protocol tcp") && text.contains("1,234"), "{text}");
        assert!(text.contains("reject") && text.contains("never"), "{text}");
        assert_eq!(last_hit(100, 160), "1 min 0 s ago");
        let attachment = AclAttachment {
            interface: "wan".into(),
            direction: "in".into(),
            family: 4,
            acls: vec!["edge".into()],
            unmatched_packets: 12_345,
            unmatched_bytes: 9,
        };
        let text = attachments(std::slice::from_ref(&attachment)).to_string();
        assert!(text.contains("12,345"), "{text}");
        let pair = ZonePair {
            from: "lan".into(),
            to: "wan".into(),
            acls4: vec!["edge".into()],
            ..ZonePair::default()
        };
        let reply = ShowAclsReply {
            rules: vec![state],
            attachments: vec![attachment],
            zone_pairs: vec![pair],
            empty: vec![],
        };
        let places = |reply: &ShowAclsReply| {
            let mut out = Vec::new();
            assert!(write_places(reply, &mut out).is_ok());
            String::from_utf8(out).unwrap()
        };
        let text = places(&reply);
        assert!(text.contains("12,345") && text.contains("IPv4: edge"), "{text}");
        let text = places(&ShowAclsReply { attachments: vec![], ..reply.clone() });
        assert!(text.contains("lan") && !text.contains("no interface"), "{text}");
        assert!(places(&ShowAclsReply::default()).contains("no pair of zones"));
        let shown = to_json(&reply);
        assert_eq!(shown["zone_pairs"][0]["acls4"], json!(["edge"]));
        assert_eq!(shown["rules"][0]["action"], "reject");
        assert_eq!(shown["attachments"][0]["unmatched_packets"], 12_345);
        assert_eq!(
            (&shown["rules"][0]["last_hit"], &shown["attachments"][0]["acls"][0]),
            (&Value::Null, &json!("edge"))
        );
    }
}
