//! The XDP features of a device, queried before the port is opened: so a reload
//! that requires more is refused, and the old port goes on.
//!
//! The generic netlink family `netdev` (Linux 6.3, linux/netdev.h) reports them. An older kernel, or an
//! answer that is not understood, forbids nothing: binding the socket decides.

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable, NlasIterator, ParseableParametrized,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::Socket;

use crate::config::{AfXdpConfig, XdpAttach, XdpBind};
use crate::device_opener::{self, SocketKind};
use crate::error::OpenError;
use crate::ethtool::Driver;
use crate::netdevice;
use crate::netns::Namespace;

/// `NETDEV_CMD_DEV_GET`.
const GET: u8 = 1;
/// `NETDEV_FAMILY_VERSION`.
const VERSION: u8 = 1;
/// `NETDEV_A_DEV_IFINDEX`: 32 bits.
const INDEX: u16 = 1;
/// `NETDEV_A_DEV_XDP_FEATURES`: 64 bits.
const XDP_FEATURES: u16 = 3;
/// Bytes of the longest answer that is read whole: that about the family takes less than 1 KiB.
const ANSWER: usize = 8192;

/// `enum netdev_xdp_act`: one bit for each thing that the driver can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features(u64);

impl Features {
    /// `NETDEV_XDP_ACT_BASIC`: programs in the driver.
    const BASIC: u64 = 1;
    /// `NETDEV_XDP_ACT_REDIRECT`: they may send frames to sockets.
    const REDIRECT: u64 = 2;
    /// `NETDEV_XDP_ACT_XSK_ZEROCOPY`.
    const XSK_ZEROCOPY: u64 = 8;
    /// What the kernel requires of a driver before it binds without copying (`xp_assign_dev`).
    const ZERO_COPY: u64 = Self::BASIC | Self::REDIRECT | Self::XSK_ZEROCOPY;

    /// Those of the device `index` of that namespace; `None`: the kernel does not report them.
    pub fn of(namespace: &Namespace, index: u32) -> Option<Self> {
        // It does not block: answers are there when the request returns.
        let socket = device_opener::socket(namespace, SocketKind::Generic).ok()?.ok()?;
        let socket = netdevice::to_kernel(socket).ok()?;
        let name = GenlCtrlAttrs::FamilyName(About::family_name().into());
        let request = GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: vec![name] };
        let family = exchange(&socket, GenlMessage::from_payload(request))?;
        let family = family.nlas.iter().find_map(|one| match one {
            GenlCtrlAttrs::FamilyId(family) => Some(*family),
            _ => None,
        })?;
        let mut request = GenlMessage::from_payload(About { index, features: None });
        request.set_resolved_family_id(family);
        let about = exchange(&socket, request).filter(|about| about.index == index)?;
        about.features.map(Self)
    }

    fn has(self, all: u64) -> bool {
        self.0 & all == all
    }

    /// Refuses settings that the device does not support.
    ///
    /// # Errors
    /// [`OpenError::Unsupported`], with what to do about it.
    pub fn allow(self, config: &AfXdpConfig, driver: &Driver) -> Result<(), OpenError> {
        let (device, driver) = (&config.device, &driver.name);
        // The kernel attaches without checking these: a driver that reports none may be one
        // that does not report features at all.
        let reports = self.0 != 0 || driver == "veth";
        if config.attach == XdpAttach::Native && reports && !self.has(Self::BASIC) {
            let reason = match driver.as_str() {
                "veth" => format!(
                    "veth device {device} attaches natively only with a receive queue for each \
                     transmit queue of its peer: ethtool -L {device} rx N, or set attach to auto"
                ),
                _ => format!(
                    "the driver of {device} ({driver}) takes no XDP programs as it is set up: set \
                     attach to auto"
                ),
            };
            return Err(OpenError::Unsupported { field: "attach", reason });
        }
        if config.bind == XdpBind::ZeroCopy && !self.has(Self::ZERO_COPY) {
            let reason = format!(
                "the driver of {device} ({driver}) cannot share our memory: set bind to auto or copy"
            );
            return Err(OpenError::Unsupported { field: "bind", reason });
        }
        Ok(())
    }
}

/// A request for a device, and the answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct About {
    index: u32,
    features: Option<u64>,
}

impl About {
    fn attributes(&self) -> Vec<DefaultNla> {
        let index = DefaultNla::new(INDEX, self.index.to_ne_bytes().to_vec());
        let features = self.features.map(|all| all.to_ne_bytes().to_vec());
        let features = features.map(|bytes| DefaultNla::new(XDP_FEATURES, bytes));
        std::iter::once(index).chain(features).collect()
    }
}

impl GenlFamily for About {
    fn family_name() -> &'static str {
        "netdev"
    }

    fn command(&self) -> u8 {
        GET
    }

    fn version(&self) -> u8 {
        VERSION
    }
}

impl Emitable for About {
    fn buffer_len(&self) -> usize {
        self.attributes().as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes().as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for About {
    fn parse_with_param(bytes: &[u8], _: GenlHeader) -> Result<Self, DecodeError> {
        let mut about = Self { index: 0, features: None };
        for attribute in NlasIterator::new(bytes) {
            let attribute = attribute?;
            let value = attribute.value();
            match attribute.kind() {
                INDEX => about.index = netlink_packet_core::parse_u32(value)?,
                XDP_FEATURES => about.features = Some(netlink_packet_core::parse_u64(value)?),
                _ => {}
            }
        }
        Ok(about)
    }
}

/// Sends a request and reads the answer; `None`: the kernel refused it, or it is not understood.
fn exchange<T>(socket: &Socket, request: GenlMessage<T>) -> Option<T>
where
    T: GenlFamily + Emitable + ParseableParametrized<[u8], GenlHeader> + std::fmt::Debug,
{
    let mut request = NetlinkMessage::from(request);
    request.header.flags = NLM_F_REQUEST;
    socket.send(&bytes_of(request), 0).ok()?;
    let mut answer = Vec::with_capacity(ANSWER);
    socket.recv(&mut answer, 0).ok()?;
    payload(&answer)
}

fn bytes_of<T: NetlinkSerializable>(mut message: NetlinkMessage<T>) -> Vec<u8> {
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// The content of an answer; `None`: it is an error, or not understood.
fn payload<T>(answer: &[u8]) -> Option<T>
where
    GenlMessage<T>: NetlinkDeserializable,
{
    match NetlinkMessage::<GenlMessage<T>>::deserialize(answer).ok()?.payload {
        NetlinkPayload::InnerMessage(message) => Some(message.payload),
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An answer as the kernel writes it, in host byte order: unknown attributes, and padding.
    fn answer(features: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend([0; 16]);
        bytes.extend([GET, VERSION, 0, 0]);
        let mut put = |kind: u16, value: &[u8]| {
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        };
        put(INDEX, &7u32.to_ne_bytes());
        put(2, &[]);
        put(XDP_FEATURES, &features.to_ne_bytes());
        put(200, b"later");
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..6].copy_from_slice(&0x23u16.to_ne_bytes());
        bytes
    }

    #[test]
    fn an_answer_is_read() {
        let about = Some(About { index: 7, features: Some(0x23) });
        assert_eq!(payload::<About>(&answer(0x23)), about);
        // NLMSG_ERROR, EOPNOTSUPP.
        let mut refused = vec![36, 0, 0, 0, 2, 0, 0, 0];
        refused.extend([0; 8]);
        refused.extend((-95i32).to_ne_bytes());
        refused.extend([0; 16]);
        assert_eq!(payload::<About>(&refused), None);
    }

    #[test]
    fn what_is_asked_is_what_is_read() {
        let about = About { index: 7, features: Some(9) };
        let mut message = GenlMessage::from_payload(about.clone());
        message.set_resolved_family_id(0x23);
        assert_eq!(payload(&bytes_of(NetlinkMessage::from(message))), Some(about));
    }

    #[test]
    fn what_the_device_cannot_do_is_refused() {
        let refused = |attach, bind, features, driver: &str| {
            let device = "eth1".to_owned();
            let config = AfXdpConfig { device, attach, bind, ..AfXdpConfig::default() };
            let driver = Driver { name: driver.into(), is_virtual: false };
            match Features(features).allow(&config, &driver) {
                Ok(()) => None,
                Err(error) => {
                    assert!(error.may_pass(), "other queues may change it: {error}");
                    Some(error.to_string())
                }
            }
        };
        use XdpAttach::{Auto, Generic, Native};
        let fine = [
            (Native, XdpBind::Auto, 1),
            (Auto, XdpBind::Auto, 0),
            (Generic, XdpBind::Copy, 0),
            (Native, XdpBind::ZeroCopy, 0b1011),
            (Auto, XdpBind::ZeroCopy, u64::MAX),
        ];
        for (attach, bind, features) in fine {
            assert_eq!(refused(attach, bind, features, "ice"), None);
        }
        let error = refused(Native, XdpBind::Auto, 0, "veth").expect("refused");
        assert!(error.starts_with("attach: ") && error.contains("ethtool -L eth1"), "{error}");
        let error = refused(Native, XdpBind::ZeroCopy, !1, "dull").expect("refused");
        assert!(error.starts_with("attach: ") && error.contains("eth1 (dull)"), "{error}");
        for features in [0, 0b0011, 0b1010, 0b1001] {
            let error = refused(Auto, XdpBind::ZeroCopy, features, "veth").expect("refused");
            assert!(error.starts_with("bind: ") && error.contains("eth1 (veth)"), "{error}");
        }
    }

    #[test]
    fn this_kernel_says_or_does_not() {
        // The loopback device is there always and takes no programs in its driver.
        assert!(
            matches!(Features::of(&Namespace::OWN, 1), None | Some(Features(0))),
            "{:?}",
            Features::of(&Namespace::OWN, 1)
        );
        assert_eq!(Features::of(&Namespace::OWN, u32::MAX), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = payload::<About>(&bytes);
            let _ = payload::<GenlCtrl>(&bytes);
        }

        #[test]
        fn a_spoilt_answer_is_survived(at in 0usize..60, value in any::<u8>(), end in 0usize..=60) {
            let mut bytes = answer(0x23);
            let length = bytes.len();
            bytes[at % length] = value;
            let _ = payload::<About>(&bytes);
            let _ = payload::<About>(&bytes[..end.min(length)]);
        }
    }
}
