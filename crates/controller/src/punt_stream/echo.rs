//! The capabilities for tests: answer UDP datagrams and frames with their own bytes, to the sender.

use stoa_api::v1;
use stoa_api::v1::injected_packet::Data;

use super::channel::PuntChannel;

/// The lengths of headers.
const ETHERNET: usize = 14;
const IP6: usize = 40;
const UDP_PORTS: usize = 4;

/// Starts a task that echoes the packets of a channel.
pub(super) fn start(mut channel: PuntChannel) {
    tokio::spawn(async move {
        while let Some(packet) = channel.receive().await {
            let Some(data) = echo(&packet) else { continue };
            let answer = v1::InjectedPacket { interface: packet.interface, data: Some(data) };
            if let Err(refused) = channel.inject(answer).await {
                tracing::debug!(%refused, "an echo was not sent");
            }
        }
    });
}

/// The answer to a packet; `None`: it is malformed. All checksums stay as they are: only places change.
fn echo(packet: &v1::PuntedPacket) -> Option<Data> {
    let mut payload = packet.payload.clone();
    let addresses = match (packet.ethertype, payload.first()?) {
        (0x0800, first) => Some((12, 16, usize::from(first & 0xf) * 4)),
        (0x86dd, _) => Some((8, 24, IP6)),
        _ => None,
    };
    let Some((source, destination, header)) = addresses else {
        let header = packet.link_header.first_chunk::<12>()?;
        let ethertype = (packet.ethertype as u16).to_be_bytes();
        let frame = [&header[6..], &header[..6], &ethertype, &payload].concat();
        return (frame.len() > ETHERNET).then_some(Data::Frame(frame));
    };
    let length = destination - source;
    let (head, ports) = payload.split_at_mut_checked(header)?;
    let (from, to) = head.get_mut(source..destination + length)?.split_at_mut(length);
    from.swap_with_slice(to);
    let (from, to) = ports.get_mut(..UDP_PORTS)?.split_at_mut(UDP_PORTS / 2);
    from.swap_with_slice(to);
    Some(Data::Packet(payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ethertype: u32, payload: Vec<u8>) -> v1::PuntedPacket {
        let link_header = (0..12).chain([0x88, 0xb5]).collect();
        v1::PuntedPacket { ethertype, link_header, payload, ..Default::default() }
    }

    #[test]
    fn answers_go_back_to_the_sender() {
        let mut bytes = vec![0x45; 20];
        bytes.splice(12..20, [10, 0, 0, 2, 10, 0, 0, 1]);
        bytes.extend([0x30, 0x39, 0, 7, 0, 9, 1, 2, 3]);
        let Some(Data::Packet(answer)) = echo(&packet(0x800, bytes.clone())) else {
            panic!("no packet")
        };
        assert_eq!(answer[12..20], [10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(answer[20..], [0, 7, 0x30, 0x39, 0, 9, 1, 2, 3]);
        let frame = echo(&packet(0x88b5, vec![1, 2, 3]));
        let expected = [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 0x88, 0xb5, 1, 2, 3].to_vec();
        assert_eq!(frame, Some(Data::Frame(expected)));
        let six: Vec<u8> = (0..48).collect();
        let Some(Data::Packet(answer)) = echo(&packet(0x86dd, six)) else { panic!("no packet") };
        assert_eq!((answer[8], answer[24], &answer[40..44]), (24, 8, &[42, 43, 40, 41][..]));
        for cut in 0..bytes.len() {
            for ethertype in [0x800, 0x86dd, 0x88b5] {
                echo(&packet(ethertype, bytes[..cut].to_vec()));
            }
        }
    }
}
