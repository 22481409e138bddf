//! Which frames match: classic BPF programs, checked once and interpreted by
//! workers before they trace or capture a packet (McCanne and Jacobson, 1993).
//!
//! libpcap compiles expressions to such programs in the controller. Here a program
//! is untrusted: it must be short, jump forward only, name known operations, and end
//! in a return. Then it ends after as many steps as it has instructions.

/// Instructions of a program at most: the limit of BSD and Linux.
pub const LONGEST: usize = 4096;

/// Words of scratch memory.
const SCRATCH: usize = 16;

/// One instruction, as in `struct bpf_insn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip when a condition holds.
    pub jump_true: u8,
    /// Instructions to skip when it does not.
    pub jump_false: u8,
    /// The operand.
    pub k: u32,
}

/// Why a program is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadProgram {
    /// Nothing in it, or too much.
    #[error("a filter has 1 to 4096 instructions, not {0}")]
    Length(usize),
    /// No such operation.
    #[error("instruction {at} has the unknown operation {code:#06x}")]
    Unknown {
        /// Where.
        at: usize,
        /// Its operation code.
        code: u16,
    },
    /// The jump leaves the program.
    #[error("instruction {0} jumps beyond the end")]
    Jump(usize),
    /// There are 16 words of scratch memory.
    #[error("instruction {0} names scratch memory beyond word 15")]
    Scratch(usize),
    /// A division by the constant zero, or a shift by 32 bits and more.
    #[error("instruction {0} divides by zero or shifts everything away")]
    Operand(usize),
    /// The last instruction is no return.
    #[error("the last instruction is no return")]
    NoReturn,
}

/// A program that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Box<[Instruction]>);

// Classes, sizes, modes and operations, by the names of `bpf(4)`.
const LD_W_ABS: u16 = 0x20;
const LD_H_ABS: u16 = 0x28;
const LD_B_ABS: u16 = 0x30;
const LD_W_IND: u16 = 0x40;
const LD_H_IND: u16 = 0x48;
const LD_B_IND: u16 = 0x50;
const LD_LEN: u16 = 0x80;
const LD_IMM: u16 = 0x00;
const LD_MEM: u16 = 0x60;
const LDX_IMM: u16 = 0x01;
const LDX_MEM: u16 = 0x61;
const LDX_LEN: u16 = 0x81;
const LDX_MSH: u16 = 0xb1;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ALU: u16 = 0x04;
const JMP: u16 = 0x05;
const RET_K: u16 = 0x06;
const RET_A: u16 = 0x16;
const TAX: u16 = 0x07;
const TXA: u16 = 0x87;
const BY_X: u16 = 0x08;
const CLASS: u16 = 0x07;
const JA: u16 = 0x05;
const NEG: u16 = 0x84;

impl Filter {
    /// Checks a program.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(program: Vec<Instruction>) -> Result<Self, BadProgram> {
        if !(1..=LONGEST).contains(&program.len()) {
            return Err(BadProgram::Length(program.len()));
        }
        for (at, instruction) in program.iter().enumerate() {
            check_one(at, instruction, program.len())?;
        }
        match program.last().map(|last| last.code) {
            Some(RET_K | RET_A) => Ok(Self(program.into_boxed_slice())),
            _ => Err(BadProgram::NoReturn),
        }
    }

    /// Whether the program takes a frame whose first bytes are `bytes` and that has
    /// `length` bytes in all. A load beyond `bytes` rejects the frame, as in every BPF machine.
    pub fn takes(&self, bytes: &[u8], length: usize) -> bool {
        self.run(bytes, length).unwrap_or(0) != 0
    }

    /// What the program returns; `None` when it loads beyond the end or divides by zero.
    fn run(&self, bytes: &[u8], length: usize) -> Option<u32> {
        let (mut a, mut x, mut at) = (0u32, 0u32, 0usize);
        let mut scratch = [0u32; SCRATCH];
        loop {
            let instruction = self.0.get(at)?;
            at += 1;
            let k = instruction.k;
            match instruction.code {
                LD_W_ABS => a = word(bytes, k as usize)?,
                LD_H_ABS => a = half(bytes, k as usize)?,
                LD_B_ABS => a = byte(bytes, k as usize)?,
                LD_W_IND => a = word(bytes, place(x, k)?)?,
                LD_H_IND => a = half(bytes, place(x, k)?)?,
                LD_B_IND => a = byte(bytes, place(x, k)?)?,
                LD_LEN => a = length as u32,
                LD_IMM => a = k,
                LD_MEM => a = *scratch.get(k as usize)?,
                LDX_IMM => x = k,
                LDX_MEM => x = *scratch.get(k as usize)?,
                LDX_LEN => x = length as u32,
                // The header length of IPv4, whose low four bits count words.
                LDX_MSH => x = (byte(bytes, k as usize)? & 0xf) << 2,
                ST => *scratch.get_mut(k as usize)? = a,
                STX => *scratch.get_mut(k as usize)? = x,
                TAX => x = a,
                TXA => a = x,
                RET_K => return Some(k),
                RET_A => return Some(a),
                JA => at = at.checked_add(k as usize)?,
                code if code & CLASS == JMP => {
                    let operand = if code & BY_X != 0 { x } else { k };
                    let skip = if compare(code, a, operand) {
                        instruction.jump_true
                    } else {
                        instruction.jump_false
                    };
                    at += usize::from(skip);
                }
                code => {
                    let operand = if code & BY_X != 0 { x } else { k };
                    a = compute(code, a, operand)?;
                }
            }
        }
    }
}

fn check_one(at: usize, instruction: &Instruction, length: usize) -> Result<(), BadProgram> {
    let Instruction { code, jump_true, jump_false, k } = *instruction;
    let reaches = |skip: usize| skip < length - at - 1;
    match code {
        LD_MEM | LDX_MEM | ST | STX if k as usize >= SCRATCH => Err(BadProgram::Scratch(at)),
        JA if !reaches(k as usize) => Err(BadProgram::Jump(at)),
        0x15 | 0x1d | 0x25 | 0x2d | 0x35 | 0x3d | 0x45 | 0x4d
            if !reaches(jump_true.into()) || !reaches(jump_false.into()) =>
        {
            Err(BadProgram::Jump(at))
        }
        // Division and remainder by a constant.
        0x34 | 0x94 if k == 0 => Err(BadProgram::Operand(at)),
        0x64 | 0x74 if k > 31 => Err(BadProgram::Operand(at)),
        LD_W_ABS | LD_H_ABS | LD_B_ABS | LD_W_IND | LD_H_IND | LD_B_IND | LD_LEN | LD_IMM
        | LD_MEM | LDX_IMM | LDX_MEM | LDX_LEN | LDX_MSH | ST | STX | TAX | TXA | RET_K | RET_A
        | JA | 0x15 | 0x1d | 0x25 | 0x2d | 0x35 | 0x3d | 0x45 | 0x4d | NEG => Ok(()),
        code if code & CLASS == ALU
            && (code & 0xf0) <= 0xa0
            && code & 0xf0 != 0x80
            && code <= 0xff =>
        {
            Ok(())
        }
        code => Err(BadProgram::Unknown { at, code }),
    }
}

fn place(x: u32, k: u32) -> Option<usize> {
    x.checked_add(k).map(|at| at as usize)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?).into())
}

fn byte(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at).map(|byte| u32::from(*byte))
}

fn compare(code: u16, a: u32, operand: u32) -> bool {
    match code & 0xf0 {
        0x10 => a == operand,
        0x20 => a > operand,
        0x30 => a >= operand,
        _ => a & operand != 0,
    }
}

fn compute(code: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match code & 0xf0 {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        0x50 => a & operand,
        // A shift by 32 bits and more leaves nothing.
        0x60 => a.checked_shl(operand).unwrap_or(0),
        0x70 => a.checked_shr(operand).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(operand)?,
        _ => a ^ operand,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn one(code: u16, jump_true: u8, jump_false: u8, k: u32) -> Instruction {
        Instruction { code, jump_true, jump_false, k }
    }

    /// `ip`, as libpcap compiles it.
    fn ip() -> Vec<Instruction> {
        vec![
            one(LD_H_ABS, 0, 0, 12),
            one(0x15, 0, 1, 0x800),
            one(RET_K, 0, 0, 65_535),
            one(RET_K, 0, 0, 0),
        ]
    }

    #[test]
    fn a_program_takes_what_it_says() {
        let filter = Filter::check(ip()).unwrap();
        let mut frame = [0; 60];
        frame[12] = 8;
        assert!(filter.takes(&frame, 60));
        frame[13] = 6;
        assert!(!filter.takes(&frame, 60));
        assert!(!filter.takes(&frame[..13], 60), "a load beyond the end is a no");
    }

    #[test]
    fn bad_programs_are_refused_by_name() {
        let end = one(RET_K, 0, 0, 1);
        let check = |program: &[Instruction]| Filter::check(program.to_vec()).map(|_| ());
        assert_eq!(check(&[]), Err(BadProgram::Length(0)));
        assert_eq!(check(&[end; LONGEST + 1]), Err(BadProgram::Length(LONGEST + 1)));
        assert_eq!(check(&[one(0x15, 1, 0, 0), end]), Err(BadProgram::Jump(0)));
        assert_eq!(check(&[one(0x15, 0, 1, 0), end]), Err(BadProgram::Jump(0)));
        assert_eq!(check(&[one(JA, 0, 0, u32::MAX), end]), Err(BadProgram::Jump(0)));
        assert_eq!(check(&[one(ST, 0, 0, 16), end]), Err(BadProgram::Scratch(0)));
        assert_eq!(check(&[one(0x34, 0, 0, 0), end]), Err(BadProgram::Operand(0)));
        assert_eq!(check(&[one(0x64, 0, 0, 32), end]), Err(BadProgram::Operand(0)));
        for code in [0x08, 0x55, 0xb4, 0xff, 0x1004, 0x26, 0x68] {
            let unknown = BadProgram::Unknown { at: 0, code };
            assert_eq!(check(&[one(code, 0, 0, 1), end]), Err(unknown), "{code:#x}");
        }
        assert_eq!(check(&[end, one(TAX, 0, 0, 0)]), Err(BadProgram::NoReturn));
        // Division by an X of zero rejects the frame and is no fault.
        let program = [one(0x3c, 0, 0, 0), end];
        assert!(!Filter::check(program.to_vec()).unwrap().takes(&[], 0));
    }
}
