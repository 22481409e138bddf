//! Where the kernel's functions stand in its own type information (BTF,
//! `Documentation/bpf/btf.rst`): a program calls them by that number.

use std::path::Path;

/// The kernel's type information.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u32 = 0xeb9f;
const FUNCTION: u32 = 12;

/// The number of the kernel's function `name`; `None`: this kernel has none, or does not export it.
pub(super) fn kernel_function(name: &str) -> Option<u32> {
    find(&std::fs::read(Path::new(VMLINUX)).ok()?, name)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

fn find(bytes: &[u8], name: &str) -> Option<u32> {
    // struct btf_header: magic 16 bits, version, flags, header length, then four 32-bit words.
    let magic = u32::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
    let header = word(bytes, 4)? as usize;
    if magic != MAGIC {
        return None;
    }
    let [types, types_length, strings, strings_length] =
        [8, 12, 16, 20].map(|at| word(bytes, at).map(|word| word as usize));
    let types = bytes.get(header.checked_add(types?)?..)?.get(..types_length?)?;
    let strings = bytes.get(header.checked_add(strings?)?..)?.get(..strings_length?)?;
    let mut at = 0;
    let mut number = 1;
    // struct btf_type: name, info, size or type; what follows depends on the kind.
    while let (Some(name_at), Some(info)) = (word(types, at), word(types, at + 4)) {
        let (kind, count) = (info >> 24 & 31, (info & 0xffff) as usize);
        if kind == FUNCTION {
            let text = strings.get(name_at as usize..)?;
            if text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)) {
                return Some(number);
            }
        }
        at += 12
            + match kind {
                // Integer, variable, declaration tag: one word.
                1 | 14 | 17 => 4,
                3 => 12,
                // Structure, union, 64-bit enumeration: three words each.
                4 | 5 | 19 => 12 * count,
                // Enumeration, prototype: two words each.
                6 | 13 => 8 * count,
                // Data section: three words each.
                15 => 12 * count,
                _ => 0,
            };
        number += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn information(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, 4 * types.len() as u32, 4 * types.len() as u32, strings.len() as u32] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        types.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn a_function_is_found_behind_other_types() {
        let kind = |kind: u32, count: u32| kind << 24 | count;
        // An integer, a structure, a prototype, and two functions.
        let types = [
            vec![0, kind(1, 0), 4, 32],
            vec![0, kind(4, 1), 4, 0, 1, 0],
            vec![0, kind(13, 1), 0, 0, 1],
            vec![1, kind(12, 0), 3],
            vec![5, kind(12, 0), 3],
        ];
        let bytes = information(&types.concat(), b"\0one\0one_more\0");
        assert_eq!(find(&bytes, "one"), Some(4));
        assert_eq!(find(&bytes, "one_more"), Some(5));
        assert_eq!(find(&bytes, "two"), None);
        for cut in 0..bytes.len() {
            find(&bytes[..cut], "one_more");
        }
    }
}
