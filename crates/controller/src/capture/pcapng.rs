//! The pcapng format (draft-ietf-opsawg-pcapng) of Wireshark and tcpdump, with nanoseconds, directions, and the drop
//! reason as a comment.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};
use stoa_api::v1::{CaptureDirection, CaptureInterface, CapturedFrame};

use super::Sink;

/// Resolution of timestamps: 10^-9 s.
const NANOSECONDS: u8 = 9;
/// `epb_flags`: received.
const INBOUND: u32 = 1;
/// `epb_flags`: sent.
const OUTBOUND: u32 = 2;

/// Writes pcapng.
pub struct PcapNg<W: Write> {
    writer: PcapNgWriter<W>,
    /// Interface indexes of the router and those of the file.
    interface_ids: HashMap<u32, u32>,
    snap_length: u32,
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

impl<W: Write> PcapNg<W> {
    /// Starts a section. `snap_length`: captured bytes of each frame, 0 for all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: W, snap_length: u32) -> io::Result<Self> {
        let program = Cow::Borrowed(concat!("Stoa ", env!("CARGO_PKG_VERSION")));
        let section = SectionHeaderBlock {
            endianness: Endianness::native(),
            options: vec![SectionHeaderOption::UserApplication(program)],
            ..SectionHeaderBlock::default()
        };
        let writer = PcapNgWriter::with_section_header(out, section).map_err(io_error)?;
        Ok(Self { writer, interface_ids: HashMap::new(), snap_length })
    }

    /// The output.
    pub fn out(&mut self) -> &mut W {
        self.writer.get_mut()
    }

    fn add(&mut self, index: u32, name: String) -> io::Result<()> {
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: self.snap_length,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(name)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        self.writer.write_block(&block.into_block()).map_err(io_error)?;
        let id = self.interface_ids.len() as u32;
        self.interface_ids.insert(index, id);
        Ok(())
    }
}

impl<W: Write> Sink for PcapNg<W> {
    fn interfaces(&mut self, interfaces: &[CaptureInterface]) -> io::Result<()> {
        interfaces.iter().try_for_each(|one| self.add(one.index, one.name.clone()))
    }

    fn frame(&mut self, frame: &CapturedFrame) -> io::Result<()> {
        if !self.interface_ids.contains_key(&frame.interface) {
            // An interface that was created during the capture.
            self.add(frame.interface, format!("interface {}", frame.interface))?;
        }
        let mut options = Vec::new();
        match frame.direction() {
            CaptureDirection::Rx => options.push(EnhancedPacketOption::Flags(INBOUND)),
            CaptureDirection::Tx => options.push(EnhancedPacketOption::Flags(OUTBOUND)),
            CaptureDirection::Drop => {
                let comment = format!("dropped, {}: {}", frame.drop, frame.description);
                options.push(EnhancedPacketOption::Comment(Cow::Owned(comment)));
            }
        }
        let block = EnhancedPacketBlock {
            interface_id: self.interface_ids.get(&frame.interface).copied().unwrap_or(0),
            timestamp: Duration::from_nanos(frame.unix_ns),
            original_len: frame.length,
            data: Cow::Borrowed(&frame.data),
            options,
        };
        self.writer.write_block(&block.into_block()).map_err(io_error)?;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.get_mut().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};

    #[test]
    fn what_is_written_can_be_read() {
        let mut bytes = Vec::new();
        let mut sink = PcapNg::new(&mut bytes, 0).unwrap();
        let interface = |index, name: &str| CaptureInterface { index, name: name.into() };
        sink.interfaces(&[interface(4, "eth0"), interface(7, "eth1")]).unwrap();
        let mut frame = CapturedFrame {
            interface: 7,
            data: vec![1; 61],
            length: 90,
            unix_ns: 1_700_000_000_123_456_789,
            ..Default::default()
        };
        sink.frame(&frame).unwrap();
        frame.set_direction(CaptureDirection::Drop);
        (frame.drop, frame.description, frame.interface) = ("no-route".into(), "no way".into(), 9);
        sink.frame(&frame).unwrap();
        sink.flush().unwrap();
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        while let Some(block) = reader.next_block() {
            match block.unwrap().into_owned() {
                Block::InterfaceDescription(one) => names.push(one.options),
                Block::EnhancedPacket(one) => packets.push(one),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(names.len(), 3);
        assert_eq!(packets[0].interface_id, 1);
        assert_eq!(packets[0].timestamp, Duration::from_nanos(1_700_000_000_123_456_789));
        assert_eq!((packets[0].original_len, packets[0].data.len()), (90, 61));
        assert_eq!(packets[0].options, [EnhancedPacketOption::Flags(INBOUND)]);
        let comment = EnhancedPacketOption::Comment("dropped, no-route: no way".into());
        assert_eq!((packets[1].interface_id, &packets[1].options[..]), (2, &[comment][..]));
    }
}
