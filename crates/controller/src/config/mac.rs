//! MAC addresses of interfaces and neighbours.

/// The six bytes of an individual MAC address; `None` for a group address, all zero or a wrong length
/// (IEEE 802-2014, section 8.2).
pub fn individual(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(6);
    for pair in text.split(':') {
        if pair.len() != 2 || bytes.len() == 6 {
            return None;
        }
        bytes.push(u8::from_str_radix(pair, 16).ok()?);
    }
    let group = bytes.first()? & 1 == 1;
    let zero = bytes.iter().all(|byte| *byte == 0);
    (bytes.len() == 6 && !group && !zero).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_individual_addresses_are_accepted() {
        assert_eq!(individual("02:00:00:00:00:0A"), Some(vec![2, 0, 0, 0, 0, 10]));
        for wrong in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "ff:ff:ff:ff:ff:ff",
            "01:00:5e:00:00:01",
            "00:00:00:00:00:00",
            "zz:00:00:00:00:01",
            "2:0:0:0:0:1",
        ] {
            assert_eq!(individual(wrong), None, "{wrong}");
        }
    }
}
