//! Capture files, read whole and checked before the first frame is received.
//!
//! pcap and pcapng are read as specified (draft-ietf-opsawg-pcap,
//! draft-ietf-opsawg-pcapng), in both byte orders. An error names its offset.

/// Bytes of the largest file that is read.
pub(crate) const FILE_MAX: u64 = 1 << 30;
/// Bytes that a record may claim to have captured; more is damage.
const CAPTURED_MAX: usize = 262_144;
/// Interfaces that a section of a pcapng file may describe.
const INTERFACES_MAX: usize = 65_536;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

/// The frames of a file.
#[derive(Debug)]
pub struct Capture {
    bytes: Vec<u8>,
    /// Place and length of each frame.
    frames: Vec<(u32, u16)>,
    /// Frames left out: empty or too long.
    pub left_out: u64,
}

impl Capture {
    /// Reads the frames of `longest` bytes at most of a pcap or pcapng file of 1 GiB at most.
    ///
    /// # Errors
    /// What is wrong, and at which byte.
    pub fn parse(bytes: Vec<u8>, longest: usize) -> Result<Self, String> {
        if bytes.len() as u64 > FILE_MAX {
            return Err(format!("has {} bytes, more than {FILE_MAX}: split it", bytes.len()));
        }
        let mut found = Found { longest, ..Found::default() };
        match bytes.first_chunk() {
            Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(&bytes, &mut found)?,
            Some([0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d]) => {
                pcap(&bytes, Order::Big, &mut found)?;
            }
            Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => {
                pcap(&bytes, Order::Little, &mut found)?;
            }
            Some([0x1f, 0x8b, ..]) => return Err("is compressed: decompress it first".into()),
            _ => return Err("is neither pcap nor pcapng: give a capture file".into()),
        }
        Ok(Self { bytes, frames: found.frames, left_out: found.left_out })
    }

    /// Frames in all.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether the file holds no frame that can be received.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// A frame: 1 to `longest` bytes.
    pub fn frame(&self, number: usize) -> Option<&[u8]> {
        let (at, length) = *self.frames.get(number)?;
        self.bytes.get(at as usize..at as usize + usize::from(length))
    }
}

#[derive(Default)]
struct Found {
    frames: Vec<(u32, u16)>,
    left_out: u64,
    longest: usize,
}

impl Found {
    fn add(&mut self, at: usize, length: usize) {
        if (1..=self.longest).contains(&length) {
            self.frames.push((at as u32, length as u16));
        } else {
            self.left_out += 1;
        }
    }
}

#[derive(Clone, Copy)]
enum Order {
    Big,
    Little,
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> Result<u16, String> {
        let raw = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(|| cut(at))?;
        Ok(match self {
            Self::Big => u16::from_be_bytes(*raw),
            Self::Little => u16::from_le_bytes(*raw),
        })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Result<u32, String> {
        let raw = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(|| cut(at))?;
        Ok(match self {
            Self::Big => u32::from_be_bytes(*raw),
            Self::Little => u32::from_le_bytes(*raw),
        })
    }
}

fn cut(at: usize) -> String {
    format!("ends at byte {at} in the middle of a record: the file was cut short")
}

fn link_type(found: u32) -> Result<(), String> {
    if found == ETHERNET {
        return Ok(());
    }
    Err(format!("holds frames of link type {found}: capture on an Ethernet interface (type 1)"))
}

/// draft-ietf-opsawg-pcap, sections 4 and 5.
fn pcap(bytes: &[u8], order: Order, found: &mut Found) -> Result<(), String> {
    let major = order.u16(bytes, 4)?;
    if major != 2 {
        return Err(format!("has pcap version {major}: only version 2 is known"));
    }
    let link = order.u32(bytes, 20)?;
    link_type(link & 0xffff)?;
    // The P bit: frames end with an FCS, counted in 16-bit words.
    let fcs = if link & 1 << 26 != 0 { (link >> 28) as usize * 2 } else { 0 };
    let mut at = 24;
    while at < bytes.len() {
        let captured = order.u32(bytes, at + 8)? as usize;
        let data = at + 16;
        check_captured(bytes, at, data, captured, bytes.len())?;
        found.add(data, captured.saturating_sub(fcs));
        at = data + captured;
    }
    Ok(())
}

fn check_captured(
    bytes: &[u8],
    record: usize,
    data: usize,
    captured: usize,
    end: usize,
) -> Result<(), String> {
    if captured > CAPTURED_MAX {
        return Err(format!("the record at byte {record} claims {captured} bytes: it is damaged"));
    }
    if data + captured > end {
        return Err(cut(bytes.len().min(end)));
    }
    Ok(())
}

/// draft-ietf-opsawg-pcapng, section 4.
fn pcapng(bytes: &[u8], found: &mut Found) -> Result<(), String> {
    let mut order = Order::Little;
    // Link type and snap length of each interface of the section.
    let mut interfaces: Vec<(u32, usize)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let is_section = bytes[at..].starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]);
        if is_section {
            order = byte_order(bytes, at)?;
            interfaces.clear();
        }
        let length = order.u32(bytes, at + 4)? as usize;
        if length < 12 || !length.is_multiple_of(4) {
            return Err(format!("the block at byte {at} claims {length} bytes: it is damaged"));
        }
        let end = at.checked_add(length).filter(|end| *end <= bytes.len());
        let end = end.ok_or_else(|| cut(bytes.len()))?;
        if order.u32(bytes, end - 4)? as usize != length {
            return Err(format!("the block at byte {at} has two lengths: it is damaged"));
        }
        let block = &bytes[..end - 4];
        match order.u32(bytes, at)? {
            1 => {
                if interfaces.len() == INTERFACES_MAX {
                    return Err(format!("describes more than {INTERFACES_MAX} interfaces"));
                }
                let link = order.u16(block, at + 8)?;
                interfaces.push((link.into(), order.u32(block, at + 12)? as usize));
            }
            kind @ (2 | 3 | 6) => packet_block(block, at, kind, order, &interfaces, found)?,
            // Names, statistics and blocks of others hold no frames.
            _ => {}
        }
        at = end;
    }
    Ok(())
}

fn byte_order(bytes: &[u8], at: usize) -> Result<Order, String> {
    let order = match bytes.get(at + 8..at + 12) {
        Some([0x1a, 0x2b, 0x3c, 0x4d]) => Order::Big,
        Some([0x4d, 0x3c, 0x2b, 0x1a]) => Order::Little,
        _ => return Err(format!("the section at byte {at} has no byte order: it is damaged")),
    };
    match order.u16(bytes, at + 12)? {
        1 => Ok(order),
        major => Err(format!("has pcapng version {major}: only version 1 is known")),
    }
}

/// Enhanced (6), simple (3) and the old (2) packet blocks; `block` ends before the trailer.
fn packet_block(
    block: &[u8],
    at: usize,
    kind: u32,
    order: Order,
    interfaces: &[(u32, usize)],
    found: &mut Found,
) -> Result<(), String> {
    let number = match kind {
        6 => order.u32(block, at + 8)? as usize,
        2 => order.u16(block, at + 8)?.into(),
        _ => 0,
    };
    let &(link, snap) = interfaces.get(number).ok_or_else(|| {
        format!("the block at byte {at} is of interface {number}, which is not described")
    })?;
    link_type(link)?;
    let (data, captured) = if kind == 3 {
        let original = order.u32(block, at + 8)? as usize;
        let data = at + 12;
        // Section 4.4: the captured length is the lesser of original and snap length.
        (data, if snap == 0 { original } else { original.min(snap) })
    } else {
        (at + 28, order.u32(block, at + 20)? as usize)
    };
    check_captured(block, at, data, captured, block.len())?;
    found.add(data, captured);
    Ok(())
}
