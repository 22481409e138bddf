//! Our XDP program, instruction by instruction: frames of a queue that has a socket go to the
//! socket, all others to Linux.
//!
//! Where the driver supports it, it first restores a VLAN tag that Linux carries beside the
//! frame, which AF_XDP would lose.

use std::os::fd::{AsRawFd, OwnedFd};

use super::bpf::Instruction;

/// The kernel's function that returns the tag beside a frame.
pub(super) const TAG_OF: &str = "bpf_xdp_metadata_rx_vlan_tag";

// Operations (linux/bpf_common.h, linux/bpf.h).
const LOAD_IMMEDIATE_64: u8 = 0x18;
const LOAD_16: u8 = 0x69;
const LOAD_32: u8 = 0x61;
const STORE_32: u8 = 0x63;
const STORE_16: u8 = 0x6b;
const STORE_IMMEDIATE_64: u8 = 0x7a;
const MOVE: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD_IMMEDIATE: u8 = 0x07;
const TO_BIG_ENDIAN: u8 = 0xdc;
const JUMP_IF_EQUAL: u8 = 0x15;
const JUMP_IF_NOT_EQUAL: u8 = 0x55;
const JUMP_IF_GREATER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// `BPF_PSEUDO_MAP_FD`: the immediate operand is a map's descriptor.
const MAP: u8 = 1;
/// `BPF_PSEUDO_KFUNC_CALL`: the immediate operand is a kernel function's type.
const KERNEL_FUNCTION: u8 = 2;

// Helpers (linux/bpf.h).
const MAP_LOOKUP: i32 = 1;
const ADJUST_HEAD: i32 = 44;
const REDIRECT_MAP: i32 = 51;

// Verdicts.
const DROP: i32 = 1;
const PASS: i32 = 2;

// Registers: 0 answers, 1 to 5 arguments, 6 kept over calls, 10 the stack's end.
const CONTEXT: u8 = 6;
const STACK: u8 = 10;

// Members of struct xdp_md.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

fn op(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: to | from << 4, offset, immediate }
}

/// Loads a map's address into a register: two instructions.
fn map_into(register: u8, map: &OwnedFd) -> [Instruction; 2] {
    [op(LOAD_IMMEDIATE_64, register, MAP, 0, map.as_raw_fd()), op(0, 0, 0, 0, 0)]
}

/// Frames of queues in `map` go to their sockets, others pass.
pub(super) fn plain(map: &OwnedFd) -> Vec<Instruction> {
    let mut program = vec![op(LOAD_32, 2, 1, QUEUE, 0)];
    program.extend(map_into(1, map));
    program.push(op(MOVE_IMMEDIATE, 3, 0, 0, PASS));
    program.push(op(CALL, 0, 0, 0, REDIRECT_MAP));
    program.push(op(EXIT, 0, 0, 0, 0));
    program
}

/// As [`plain`], and a tag beside the frame goes back into it; `tag_of` is the type of the
/// kernel's function [`TAG_OF`].
pub(super) fn with_tags(map: &OwnedFd, tag_of: u32) -> Vec<Instruction> {
    let mut program = vec![
        op(MOVE, CONTEXT, 1, 0, 0),
        // A queue without a socket: the frame stays as it is.
        op(LOAD_32, 2, CONTEXT, QUEUE, 0),
        op(STORE_32, STACK, 2, -16, 0),
        op(MOVE, 2, STACK, 0, 0),
        op(ADD_IMMEDIATE, 2, 0, 0, -16),
    ];
    program.extend(map_into(1, map));
    program.extend([
        op(CALL, 0, 0, 0, MAP_LOOKUP),
        op(JUMP_IF_NOT_EQUAL, 0, 0, 2, 0),
        op(MOVE_IMMEDIATE, 0, 0, 0, PASS),
        op(EXIT, 0, 0, 0, 0),
        // Protocol at -8, in network order, and the tag itself at -4.
        op(STORE_IMMEDIATE_64, STACK, 0, -8, 0),
        op(MOVE, 1, CONTEXT, 0, 0),
        op(MOVE, 2, STACK, 0, 0),
        op(ADD_IMMEDIATE, 2, 0, 0, -8),
        op(MOVE, 3, STACK, 0, 0),
        op(ADD_IMMEDIATE, 3, 0, 0, -4),
        op(CALL, 0, KERNEL_FUNCTION, 0, tag_of as i32),
    ]);
    let insert = insert_tag();
    program.push(op(JUMP_IF_NOT_EQUAL, 0, 0, insert.len() as i16, 0));
    program.extend(insert);
    program.push(op(MOVE, 1, CONTEXT, 0, 0));
    program.extend(plain(map));
    program
}

/// Makes space for a tag and writes it; continues behind its last instruction.
fn insert_tag() -> Vec<Instruction> {
    let mut program = vec![
        op(MOVE, 1, CONTEXT, 0, 0),
        op(MOVE_IMMEDIATE, 2, 0, 0, -4),
        op(CALL, 0, 0, 0, ADJUST_HEAD),
        op(JUMP_IF_EQUAL, 0, 0, 2, 0),
        // No space: a frame without its tag would enter another network.
        op(MOVE_IMMEDIATE, 0, 0, 0, DROP),
        op(EXIT, 0, 0, 0, 0),
        op(LOAD_32, 2, CONTEXT, DATA, 0),
        op(LOAD_32, 3, CONTEXT, DATA_END, 0),
        op(MOVE, 4, 2, 0, 0),
        op(ADD_IMMEDIATE, 4, 0, 0, 18),
    ];
    let write = [
        op(LOAD_32, 1, 2, 4, 0),
        op(STORE_32, 2, 1, 0, 0),
        op(LOAD_32, 1, 2, 8, 0),
        op(STORE_32, 2, 1, 4, 0),
        op(LOAD_32, 1, 2, 12, 0),
        op(STORE_32, 2, 1, 8, 0),
        op(LOAD_16, 1, STACK, -8, 0),
        op(STORE_16, 2, 1, 12, 0),
        op(LOAD_16, 1, STACK, -4, 0),
        op(TO_BIG_ENDIAN, 1, 0, 0, 16),
        op(STORE_16, 2, 1, 14, 0),
    ];
    program.push(op(JUMP_IF_GREATER, 4, 3, write.len() as i16, 0));
    program.extend(write);
    program
}
