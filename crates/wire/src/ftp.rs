//! Addresses and ports in FTP's control connection (RFC 959, RFC 1123 section 4.1.2, RFC 2428): what an application
//! level gateway has to read, and to write anew.
//!
//! Clients announce where they listen by `PORT` and `EPRT`, servers by the replies 227 (`PASV`) and 229 (`EPSV`).
//! Everything else is passed over.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

/// Bytes of a segment in which announcements are looked for: a command of a client and its reply are shorter.
pub const LONGEST: usize = 512;
/// Bytes of the longest text that [`Form::write`] makes: `|2|` with an IPv6 address, `|` and a port with `|`.
pub const TEXT: usize = 52;

/// Who has sent a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// It sends commands.
    Client,
    /// It sends replies.
    Server,
}

/// How an address and a port are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `h1,h2,h3,h4,p1,p2`: `PORT` and 227.
    Numbers,
    /// `|1|192.0.2.1|5282|`, with this byte in place of the bar: `EPRT`.
    Extended(u8),
    /// `|||5282|`, with this byte in place of the bar: 229. The address is that of the sender.
    PortOnly(u8),
}

/// An address and a port that the sender of a segment listens at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// How it is written.
    pub form: Form,
    /// The address; `None`: that of the sender.
    pub address: Option<IpAddr>,
    /// The port, which is not 0.
    pub port: u16,
    /// Where address and port are in the data of the segment.
    pub text: Range<usize>,
}

causes! {
    /// Why an announcement is not read.
    FtpError {
        TooLong = "ftp-too-long", "the announcement is not within the first 512 bytes of its segment";
        Split = "ftp-split", "the line of the announcement does not end in its segment";
        Malformed = "ftp-malformed", "the announcement has no valid address and port";
    }
}

/// What the data of a segment announces; the first announcement counts.
///
/// # Errors
/// It announces something that cannot be read: see [`FtpError`].
pub fn announcement(data: &[u8], sender: Sender) -> Result<Option<Announcement>, FtpError> {
    let (mut at, head) = (0, data.get(..LONGEST).unwrap_or(data));
    // Each turn takes at least one byte of at most 512.
    while let Some(rest) = head.get(at..).filter(|rest| !rest.is_empty()) {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let line = &rest[..end.unwrap_or(rest.len())];
        let found = match sender {
            Sender::Client => command(line),
            Sender::Server => reply(line),
        };
        match (found, end) {
            (None, None) => return Ok(None),
            (None, Some(end)) => at += end + 1,
            (Some(_), None) if head.len() < data.len() => return Err(FtpError::TooLong),
            (Some(_), None) => return Err(FtpError::Split),
            (Some(found), Some(_)) => {
                let mut found = found.ok_or(FtpError::Malformed)?;
                found.text = at + found.text.start..at + found.text.end;
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// What a line of a client announces. `None`: nothing; `Some(None)`: it is malformed.
fn command(line: &[u8]) -> Option<Option<Announcement>> {
    let (name, rest) = line.split_first_chunk::<4>()?;
    let is_extended = name.eq_ignore_ascii_case(b"EPRT");
    if !is_extended && !name.eq_ignore_ascii_case(b"PORT") || rest.first() != Some(&b' ') {
        return None;
    }
    let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
    let mut text = Text { line, at: name.len() + blanks };
    let found = if is_extended { text.extended() } else { text.numbers() };
    Some(found.filter(|_| text.is_at_end()))
}

/// What a line of a server announces.
fn reply(line: &[u8]) -> Option<Option<Announcement>> {
    let (code, rest) = line.split_first_chunk::<4>()?;
    let is_first = match code {
        // Servers write what they like before the address (RFC 1123 section 4.1.2.6).
        b"227 " => |byte: &u8| byte.is_ascii_digit(),
        b"229 " => |byte: &u8| *byte == b'(',
        _ => return None,
    };
    let Some(at) = rest.iter().position(is_first) else { return Some(None) };
    let mut text = Text { line, at: code.len() + at };
    if *code == *b"227 " {
        return Some(text.numbers());
    }
    text.at += 1;
    let found = text.port_only();
    Some(found.filter(|_| line.get(text.at) == Some(&b')')))
}

/// A part of a line that is being read.
struct Text<'a> {
    line: &'a [u8],
    at: usize,
}

impl Text<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    /// Takes a byte, if it is the next one.
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    /// Only blanks and the end of the line are left.
    fn is_at_end(&self) -> bool {
        let rest = self.line.get(self.at..).unwrap_or(&[]);
        rest.iter().all(|byte| matches!(byte, b' ' | b'\r'))
    }

    /// A number of at most `digits` digits and at most `most`.
    fn number(&mut self, digits: usize, most: u32) -> Option<u32> {
        let (mut value, mut count) = (0, 0);
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            (value, count) = (value * 10 + u32::from(digit - b'0'), count + 1);
            if count > digits || value > most {
                return None;
            }
            self.at += 1;
        }
        (count > 0).then_some(value)
    }

    fn numbers(&mut self) -> Option<Announcement> {
        let (start, mut all) = (self.at, [0; 6]);
        for (at, number) in all.iter_mut().enumerate() {
            if at > 0 {
                self.take(b',')?;
            }
            *number = self.number(3, 255)? as u8;
        }
        let [a, b, c, d, high, low] = all;
        let address = Some(Ipv4Addr::new(a, b, c, d).into());
        self.announcement(Form::Numbers, (address, u16::from_be_bytes([high, low])), start)
    }

    fn extended(&mut self) -> Option<Announcement> {
        let start = self.at;
        let bar = self.bar()?;
        let family = self.number(1, 2)?;
        self.take(bar)?;
        let rest = self.line.get(self.at..)?;
        let length = rest.iter().take(46).position(|byte| *byte == bar)?;
        let text = core::str::from_utf8(rest.get(..length)?).ok()?;
        let address: IpAddr = match family {
            1 => text.parse::<Ipv4Addr>().ok()?.into(),
            2 => text.parse::<Ipv6Addr>().ok()?.into(),
            _ => return None,
        };
        self.at += length + 1;
        let port = self.number(5, u32::from(u16::MAX))? as u16;
        self.take(bar)?;
        self.announcement(Form::Extended(bar), (Some(address), port), start)
    }

    fn port_only(&mut self) -> Option<Announcement> {
        let start = self.at;
        let bar = self.bar()?;
        self.take(bar)?;
        self.take(bar)?;
        let port = self.number(5, u32::from(u16::MAX))? as u16;
        self.take(bar)?;
        self.announcement(Form::PortOnly(bar), (None, port), start)
    }

    /// The delimiter: any visible character that is no digit (RFC 2428 section 2).
    fn bar(&mut self) -> Option<u8> {
        let bar = self.peek().filter(|it| it.is_ascii_graphic() && !it.is_ascii_digit())?;
        self.at += 1;
        Some(bar)
    }

    fn announcement(
        &self,
        form: Form,
        (address, port): (Option<IpAddr>, u16),
        start: usize,
    ) -> Option<Announcement> {
        (port != 0).then_some(Announcement { form, address, port, text: start..self.at })
    }
}

/// Bytes that are being written; what does not fit is cut.
struct Out<'a> {
    bytes: &'a mut [u8; TEXT],
    length: usize,
}

impl core::fmt::Write for Out<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let to = self.bytes.get_mut(self.length..self.length + text.len());
        to.ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

impl Form {
    /// Writes an address and a port in this form; how many bytes that takes. `None`: the form has no such addresses.
    pub fn write(self, address: IpAddr, port: u16, bytes: &mut [u8; TEXT]) -> Option<usize> {
        use core::fmt::Write as _;
        let mut out = Out { bytes, length: 0 };
        let [high, low] = port.to_be_bytes();
        match (self, address) {
            (Self::Numbers, IpAddr::V4(it)) => {
                let [a, b, c, d] = it.octets();
                write!(out, "{a},{b},{c},{d},{high},{low}").ok()?;
            }
            (Self::Numbers, IpAddr::V6(_)) => return None,
            (Self::Extended(bar), address) => {
                let (family, bar) = (if address.is_ipv4() { 1 } else { 2 }, char::from(bar));
                write!(out, "{bar}{family}{bar}{address}{bar}{port}{bar}").ok()?;
            }
            (Self::PortOnly(bar), _) => {
                let bar = char::from(bar);
                write!(out, "{bar}{bar}{bar}{port}{bar}").ok()?;
            }
        }
        Some(out.length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, sender: Sender) -> Result<Option<Announcement>, FtpError> {
        announcement(text.as_bytes(), sender)
    }

    fn found(text: &str, sender: Sender) -> (Form, Option<IpAddr>, u16, &str) {
        let it = read(text, sender).unwrap().unwrap();
        (it.form, it.address, it.port, &text[it.text])
    }

    #[test]
    fn commands_and_replies_are_read() {
        use Sender::{Client, Server};
        let four = Some("192.0.2.7".parse().unwrap());
        let port = "PORT 192,0,2,7,19,137\r\n";
        assert_eq!(found(port, Client), (Form::Numbers, four, 5001, "192,0,2,7,19,137"));
        let port = "NOOP\r\nport  192,0,2,7,19,137 \r\n";
        assert_eq!(found(port, Client), (Form::Numbers, four, 5001, "192,0,2,7,19,137"));
        let eprt = "EPRT |1|192.0.2.7|5001|\r\n";
        assert_eq!(found(eprt, Client), (Form::Extended(b'|'), four, 5001, "|1|192.0.2.7|5001|"));
        let eprt = "EPRT !2!2001:db8::7!5001!\r\n";
        let six = Some("2001:db8::7".parse().unwrap());
        assert_eq!(found(eprt, Client), (Form::Extended(b'!'), six, 5001, "!2!2001:db8::7!5001!"));
        let pasv = "227 Entering Passive Mode (192,0,2,7,19,137).\r\n";
        assert_eq!(found(pasv, Server), (Form::Numbers, four, 5001, "192,0,2,7,19,137"));
        let pasv = "227 Entering Passive Mode 192,0,2,7,19,137\r\n";
        assert_eq!(found(pasv, Server), (Form::Numbers, four, 5001, "192,0,2,7,19,137"));
        let epsv = "229 Extended Passive Mode Entered (|||5001|)\r\n";
        assert_eq!(found(epsv, Server), (Form::PortOnly(b'|'), None, 5001, "|||5001|"));
    }

    #[test]
    fn what_announces_nothing_is_passed_over() {
        for text in ["", "PORTAL 1\r\n", "USER PORT 1,2,3,4,5,6\r\n", "227 x\r\n", "PASV\r\n"] {
            assert_eq!(read(text, Sender::Client), Ok(None), "{text}");
        }
        for text in ["PORT 1,2,3,4,5,6\r\n", "227-(1,2,3,4,5,6)\r\n", "2270 (1,2,3,4,5,6)\r\n"] {
            assert_eq!(read(text, Sender::Server), Ok(None), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for text in ["1,2,3,4,5", "1,2,3,4,5,256", "1,2,3,4,0,0", "1,2,3,4,5,6,7", "1,2,3,4,0005,6"]
        {
            let line = format!("PORT {text}\r\n");
            assert_eq!(read(&line, Sender::Client), Err(FtpError::Malformed), "{text}");
        }
        for text in ["|3|1.2.3.4|5|", "|1|::1|5|", "|2|1.2.3.4|5|", "|1|1.2.3.4|0|", "111.2.3.415"]
        {
            let line = format!("EPRT {text}\r\n");
            assert_eq!(read(&line, Sender::Client), Err(FtpError::Malformed), "{text}");
        }
        for text in ["|||70000|)", "|||5", "||5|)", "(|||5|)", "|1|1.2.3.4|5|)"] {
            let line = format!("229 x ({text}\r\n");
            assert_eq!(read(&line, Sender::Server), Err(FtpError::Malformed), "{text}");
        }
        assert_eq!(read("PORT 1,2,3,4,5,6", Sender::Client), Err(FtpError::Split));
        assert_eq!(read("PORT 1,2,3", Sender::Client), Err(FtpError::Split));
        let long = format!("PORT 1,2,3,4,5,6{}\r\n", " ".repeat(600));
        assert_eq!(read(&long, Sender::Client), Err(FtpError::TooLong));
        let far = format!("{}\r\nPORT 1,2,3,4,5,6\r\n", "x".repeat(510));
        assert_eq!(read(&far, Sender::Client), Ok(None));
    }

    fn forms() -> impl Strategy<Value = Form> {
        // Characters that no address has.
        let bar = prop::sample::select(b"|!#$%&'()*+/;<=>?@[]^_`{}~".to_vec());
        prop_oneof![
            Just(Form::Numbers),
            bar.clone().prop_map(Form::Extended),
            bar.prop_map(Form::PortOnly)
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            form in forms(),
            address: IpAddr,
            port in 1_u16..,
            before in prop::collection::vec("[A-Z]{3} [a-z]{0,9}\r\n", 0..3),
        ) {
            let mut bytes = [0; TEXT];
            let written = form.write(address, port, &mut bytes);
            prop_assert_eq!(written.is_some(), form != Form::Numbers || address.is_ipv4());
            let Some(length) = written else { return Ok(()) };
            let text = core::str::from_utf8(&bytes[..length]).unwrap();
            let before = before.concat();
            let (sender, line) = match form {
                Form::Numbers => (Sender::Client, format!("{before}PORT {text}\r\n")),
                Form::Extended(_) => (Sender::Client, format!("{before}EPRT {text}\r\n")),
                Form::PortOnly(_) => (Sender::Server, format!("{before}229 ok ({text})\r\n")),
            };
            let it = read(&line, sender).unwrap().unwrap();
            prop_assert_eq!((it.form, it.port), (form, port));
            prop_assert_eq!(&line[it.text.clone()], text);
            let is_known = matches!(form, Form::PortOnly(_)) || it.address == Some(address);
            prop_assert!(is_known);
            // A line that is cut anywhere is split, or announces nothing yet.
            let cut = &line[..line.len() - 1];
            prop_assert!(matches!(read(cut, sender), Err(FtpError::Split)));
        }

        #[test]
        fn hostile_text_does_not_panic(
            data in prop::collection::vec(any::<u8>(), 0..700),
            head in prop::sample::select(vec!["PORT ", "EPRT |", "227 (", "229 (|||", ""]),
        ) {
            let data = [head.as_bytes(), &data].concat();
            for sender in [Sender::Client, Sender::Server] {
                if let Ok(Some(it)) = announcement(&data, sender) {
                    prop_assert!(it.text.end <= data.len() && it.port != 0);
                }
            }
        }
    }
}
