//! Messages about devices, their addresses and neighbours.

use std::net::IpAddr;

use super::{Attributes, FAMILY_IP4, FAMILY_IP6, MessageError, half, word};

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// Interface index.
    pub index: u32,
    /// Whether it is administratively up (`IFF_UP`).
    pub is_up: bool,
    /// Its name.
    pub name: &'a str,
    /// Its alias (`IFLA_IFALIAS`); "": none.
    pub alias: &'a str,
}

impl<'a> Link<'a> {
    /// Parses the body of `RTM_NEWLINK` or `RTM_DELLINK`.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn read(body: &'a [u8]) -> Result<Link<'a>, MessageError> {
        let short = MessageError::Malformed("a link is shorter than its header");
        let (header, rest) = body.split_at_checked(16).ok_or(short)?;
        let index = word(header, 4).ok_or(short)?;
        let is_up = word(header, 8).ok_or(short)? & 1 != 0;
        let mut link = Link { index, is_up, name: "", alias: "" };
        for one in Attributes::of(rest) {
            let one = one?;
            match one.kind {
                // IFLA_IFNAME, IFLA_IFALIAS
                3 => link.name = one.text()?,
                20 => link.alias = one.text()?,
                _ => {}
            }
        }
        Ok(link)
    }
}

/// An address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Interface index of the device.
    pub device: u32,
    /// The address.
    pub address: IpAddr,
    /// Its prefix length, at most 32 or 128.
    pub length: u8,
    /// Who added it (`IFA_PROTO`); 0: unspecified.
    pub protocol: u8,
    /// Whether duplicate address detection failed (`IFA_F_DADFAILED`).
    pub is_duplicate: bool,
}

impl Address {
    /// Parses the body of `RTM_NEWADDR` or `RTM_DELADDR`.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn read(body: &[u8]) -> Result<Address, MessageError> {
        let short = MessageError::Malformed("an address is shorter than its header");
        let (header, rest) = body.split_at_checked(8).ok_or(short)?;
        let (family, length) = (header[0], header[1]);
        let device = word(header, 4).ok_or(short)?;
        let (mut local, mut address, mut protocol) = (None, None, 0);
        let mut flags = u32::from(header[2]);
        for one in Attributes::of(rest) {
            let one = one?;
            match one.kind {
                // IFA_ADDRESS is the peer of a point-to-point link if IFA_LOCAL is present.
                1 => address = Some(one.address(family)?),
                2 => local = Some(one.address(family)?),
                // IFA_FLAGS, IFA_PROTO
                8 => flags = one.word()?,
                11 => protocol = *one.value.first().unwrap_or(&0),
                _ => {}
            }
        }
        let address = local.or(address).ok_or(MessageError::Malformed("an address is missing"))?;
        if length > if address.is_ipv4() { 32 } else { 128 } {
            return Err(MessageError::Malformed("a prefix is longer than its address"));
        }
        Ok(Address { device, address, length, protocol, is_duplicate: flags & 0x8 != 0 })
    }
}

/// A neighbour on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Interface index of the device.
    pub device: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address, if known.
    pub mac: Option<[u8; 6]>,
    /// Whether it is a permanent entry (`NUD_PERMANENT`).
    pub is_permanent: bool,
}

impl Neighbor {
    /// Parses the body of `RTM_NEWNEIGH` or `RTM_DELNEIGH`. `Ok(None)`: a bridge or proxy entry.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn read(body: &[u8]) -> Result<Option<Neighbor>, MessageError> {
        let short = MessageError::Malformed("a neighbour is shorter than its header");
        let (header, rest) = body.split_at_checked(12).ok_or(short)?;
        let family = header[0];
        let device = word(header, 4).ok_or(short)?;
        let state = half(header, 8).ok_or(short)?;
        // NTF_PROXY
        if !matches!(family, FAMILY_IP4 | FAMILY_IP6) || header[10] & 0x8 != 0 {
            return Ok(None);
        }
        let (mut address, mut mac) = (None, None);
        for one in Attributes::of(rest) {
            let one = one?;
            match one.kind {
                // NDA_DST, NDA_LLADDR
                1 => address = Some(one.address(family)?),
                2 => mac = one.value.try_into().ok(),
                _ => {}
            }
        }
        let address =
            address.ok_or(MessageError::Malformed("the address of a neighbour is missing"))?;
        Ok(Some(Neighbor { device, address, mac, is_permanent: state & 0x80 != 0 }))
    }
}
