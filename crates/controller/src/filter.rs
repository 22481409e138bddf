//! Filters of traces and captures: pcap filter expressions, compiled by libpcap to classic BPF for the workers.

use std::time::Duration;

use pcap::{BpfInstruction, Capture, Linktype};
use stoa_api::v1;
use tokio::sync::Semaphore;
use tonic::Status;

use crate::apply::ForwarderConnection;
use crate::call_error::failed;

/// Longest expression in bytes.
const LENGTH_LIMIT: usize = 4096;
/// Time limit of libpcap for an expression.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(5);
static COMPILES: Semaphore = Semaphore::const_new(1);

/// Compiles an expression for Ethernet frames; "" matches all.
///
/// # Errors
/// The message of libpcap.
pub fn compile(expression: &str) -> Result<Vec<v1::FilterInstruction>, String> {
    if expression.trim().is_empty() {
        return Ok(Vec::new());
    }
    if expression.len() > LENGTH_LIMIT || expression.contains('\0') {
        return Err(format!(
            "the filter is longer than {LENGTH_LIMIT} bytes or holds a zero character"
        ));
    }
    let message = |error: pcap::Error| match error {
        pcap::Error::PcapError(message) => message,
        other => other.to_string(),
    };
    let device = Capture::dead(Linktype::ETHERNET).map_err(message)?;
    let program = device.compile(expression, true).map_err(message)?;
    let instructions = program.get_instructions().iter().map(instruction);
    instructions
        .collect::<Option<_>>()
        .ok_or_else(|| "libpcap returned an unknown instruction".to_owned())
}

/// The program of an expression for frames of an interface.
///
/// # Errors
/// `InvalidArgument` with the message of libpcap.
pub async fn of_interface(
    connection: &ForwarderConnection,
    interface: &str,
    expression: &str,
) -> Result<Vec<v1::FilterInstruction>, Status> {
    if expression.trim().is_empty() {
        return Ok(Vec::new());
    }
    let list = connection.client().list_interfaces(v1::ListInterfacesRequest::default()).await;
    let list = list.map_err(failed)?.into_inner().interfaces;
    let state = list.iter().find(|state| state.name == interface);
    let tags = state.map(|state| state.outer.iter().chain(&state.inner).collect());
    let expression = behind_tags(&tags.unwrap_or_else(Vec::new), expression);
    let wrong = |expression: &str, message: &str| {
        Status::invalid_argument(format!("the filter {expression:?} is wrong: {message}"))
    };
    // libpcap resolves names and blocks meanwhile: one expression at a time, on its own thread.
    let one = COMPILES.acquire().await;
    let text = expression.clone();
    let compiled = tokio::task::spawn_blocking(move || {
        let _one = one;
        compile(&text)
    });
    match tokio::time::timeout(COMPILE_TIMEOUT, compiled).await {
        Ok(Ok(compiled)) => compiled.map_err(|message| wrong(&expression, &message)),
        Ok(Err(error)) => Err(Status::internal(error.to_string())),
        Err(_) => Err(wrong(&expression, "a name in it is not resolved; use addresses")),
    }
}

/// The expression for a sub-interface with these tags: it applies to the headers after them.
pub fn behind_tags(tags: &[&v1::Tag], expression: &str) -> String {
    if tags.is_empty() || expression.trim().is_empty() {
        return expression.to_owned();
    }
    let tags: String = tags.iter().map(|tag| format!("vlan {} and ", tag.vid)).collect();
    format!("{tags}({expression})")
}

/// Parses the text of an instruction, which is all that the crate exposes: operation, both jumps, operand.
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
    fn an_expression_is_compiled() {
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
    fn errors_are_those_of_libpcap() {
        let error = compile("port http and and").unwrap_err();
        assert!(error.contains("syntax error"), "{error}");
        let error = compile("tcp port nosuchport").unwrap_err();
        assert!(error.contains("unknown port"), "{error}");
        assert!(compile("ip\0").is_err());
    }

    #[test]
    fn the_filter_of_a_sub_interface_applies_after_its_tags() {
        let tags = [v1::Tag { tpid: 0x88a8, vid: 7 }, v1::Tag { tpid: 0x8100, vid: 8 }];
        let tags: Vec<&v1::Tag> = tags.iter().collect();
        assert_eq!(behind_tags(&tags, "icmp or arp"), "vlan 7 and vlan 8 and (icmp or arp)");
        assert_eq!(behind_tags(&tags, ""), "");
        assert!(compile(&behind_tags(&tags, "icmp or arp")).is_ok());
    }
}
