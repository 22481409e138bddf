//! Filters of traces and captures: expressions in the language of tcpdump, compiled by
//! libpcap to classic BPF for the forwarder's workers.

use std::time::Duration;

use pcap::{BpfInstruction, Capture, Linktype};
use stoa_api::v1;
use tokio::sync::Semaphore;
use tonic::Status;

use crate::apply::ForwarderConnection;
use crate::operator::failed;

/// Characters of an expression at most.
const LONGEST: usize = 4096;
/// How long libpcap may take for one.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(5);
static COMPILES: Semaphore = Semaphore::const_new(1);

/// Compiles an expression for Ethernet frames; "" takes everything.
///
/// # Errors
/// libpcap's own words on what is wrong.
pub fn compile(expression: &str) -> Result<Vec<v1::FilterInstruction>, String> {
    if expression.trim().is_empty() {
        return Ok(Vec::new());
    }
    if expression.len() > LONGEST || expression.contains('\0') {
        return Err(format!("a filter is text of {LONGEST} characters at most"));
    }
    let words = |error: pcap::Error| match error {
        pcap::Error::PcapError(words) => words,
        other => other.to_string(),
    };
    let device = Capture::dead(Linktype::ETHERNET).map_err(words)?;
    let program = device.compile(expression, true).map_err(words)?;
    let instructions = program.get_instructions().iter().map(instruction);
    instructions.collect::<Option<_>>().ok_or_else(|| "libpcap made no program of it".to_owned())
}

/// The program of an expression about frames of an interface.
///
/// # Errors
/// `InvalidArgument` with libpcap's words when the expression is wrong.
pub async fn of_interface(
    connection: &ForwarderConnection,
    interface: &str,
    expression: &str,
) -> Result<Vec<v1::FilterInstruction>, Status> {
    if expression.trim().is_empty() {
        return Ok(Vec::new());
    }
    let list = connection.client().list_interfaces(v1::ListInterfacesRequest {}).await;
    let list = list.map_err(failed)?.into_inner().interfaces;
    let state = list.iter().find(|state| state.name == interface);
    let tags = state.map(|state| state.outer.iter().chain(&state.inner).collect());
    let expression = behind_tags(&tags.unwrap_or_else(Vec::new), expression);
    let wrong = |expression: &str, words: &str| {
        Status::invalid_argument(format!("the filter {expression:?} is wrong: {words}"))
    };
    // libpcap asks for the addresses of names, and waits for the answers: one at a time, on a thread for that.
    let one = COMPILES.acquire().await;
    let text = expression.clone();
    let compiled = tokio::task::spawn_blocking(move || {
        let _one = one;
        compile(&text)
    });
    match tokio::time::timeout(COMPILE_TIMEOUT, compiled).await {
        Ok(Ok(compiled)) => compiled.map_err(|words| wrong(&expression, &words)),
        Ok(Err(error)) => Err(Status::internal(error.to_string())),
        Err(_) => Err(wrong(&expression, "a name in it is not resolved; write addresses")),
    }
}

/// The expression for a sub-interface, whose frames carry these tags: what is asked
/// for stands behind them.
pub fn behind_tags(tags: &[&v1::Tag], expression: &str) -> String {
    if tags.is_empty() || expression.trim().is_empty() {
        return expression.to_owned();
    }
    let tags: String = tags.iter().map(|tag| format!("vlan {} and ", tag.vid)).collect();
    format!("{tags}({expression})")
}

/// The crate shows an instruction as text only: operation, both jumps, operand.
fn instruction(one: &BpfInstruction) -> Option<v1::FilterInstruction> {
    let text = one.to_string();
    let mut numbers = text.split_whitespace().map(str::parse::<u32>);
    let mut next = || numbers.next()?.ok();
    Some(v1::FilterInstruction {
        code: next()?,
        jump_true: next()?,
        jump_false: next()?,
        k: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_becomes_a_program() {
        assert_eq!(compile(" ").unwrap(), []);
        let program = compile("ip").unwrap();
        let one = |code, jump_true, jump_false, k| v1::FilterInstruction {
            code,
            jump_true,
            jump_false,
            k,
        };
        assert_eq!(program[..2], [one(0x28, 0, 0, 12), one(0x15, 0, 1, 0x800)]);
        assert_eq!(program.len(), 4);
    }

    #[test]
    fn what_is_wrong_is_said_in_libpcaps_words() {
        let words = compile("port http and and").unwrap_err();
        assert!(words.contains("syntax error"), "{words}");
        let words = compile("tcp port nosuchport").unwrap_err();
        assert!(words.contains("unknown port"), "{words}");
        assert!(compile("ip\0").is_err());
    }

    #[test]
    fn a_sub_interfaces_filter_looks_behind_its_tags() {
        let tags = [v1::Tag { tpid: 0x88a8, vid: 7 }, v1::Tag { tpid: 0x8100, vid: 8 }];
        let tags: Vec<&v1::Tag> = tags.iter().collect();
        assert_eq!(behind_tags(&tags, "icmp or arp"), "vlan 7 and vlan 8 and (icmp or arp)");
        assert_eq!(behind_tags(&tags, ""), "");
        assert!(compile(&behind_tags(&tags, "icmp or arp")).is_ok());
    }
}
