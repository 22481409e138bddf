//! Where the ports of a router may open files and sockets: in two folders that are set when it starts, never by its
//! configuration.
//!
//! Whoever may configure a port must not thereby write other files of the machine, connect to the sockets of other
//! programs, or pass arguments of their choice to the C code of DPDK.

mod dpdk;

use std::path::{Path, PathBuf};

use crate::config::PortConfig;
use crate::error::OpenError;

/// Discards what is written to it. It may be the output of any number of ports.
pub const NULL_DEVICE: &str = "/dev/null";

/// Longest name of a file, in bytes.
const NAME_LIMIT: usize = 255;

/// Longest path of a Unix socket on Linux, in bytes.
const SOCKET_LIMIT: usize = 107;

/// The folders of a router; without a folder, such ports are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// The folder of capture files.
    pub pcap: Option<PathBuf>,
    /// The folder of memif sockets, and of the sockets of DPDK's devices.
    pub memif: Option<PathBuf>,
}

/// A folder and how it is called.
#[derive(Clone, Copy)]
struct Confined<'a> {
    folder: Option<&'a Path>,
    option: &'static str,
    what: &'static str,
}

impl Folders {
    /// The configuration with each path in its folder.
    ///
    /// # Errors
    /// A path outside of its folder, an unsafe name, or a setting of DPDK that is not in the list of known ones.
    pub fn confine(&self, config: &PortConfig) -> Result<PortConfig, OpenError> {
        let mut config = config.clone();
        match &mut config {
            PortConfig::Pcap(pcap) => {
                let place = self.pcap();
                if let Some(input) = &mut pcap.input {
                    *input = place.path("input", &input.to_string_lossy())?;
                }
                if let Some(output) =
                    pcap.output.as_mut().filter(|it| it != &Path::new(NULL_DEVICE))
                {
                    *output = place.path("output", &output.to_string_lossy())?;
                }
                pcap.folder = Some(place.folder("pcap")?.to_owned());
            }
            PortConfig::Memif(memif) => {
                memif.socket = self.memif().socket("socket", &memif.socket)?;
            }
            PortConfig::Dpdk(device) => {
                device.device = dpdk::confine(&device.device, self.memif())?
            }
            PortConfig::AfPacket(it) => check_device(&it.device, it.netns.as_deref())?,
            PortConfig::AfXdp(it) => check_device(&it.device, it.netns.as_deref())?,
            PortConfig::Auto(it) => check_device(&it.device, it.netns.as_deref())?,
            PortConfig::Tap(it) => check_device(&it.device, it.netns.as_deref())?,
            PortConfig::HostInterface(it) => check_device(&it.device, it.netns.as_deref())?,
            PortConfig::Generator(_) | PortConfig::Null(_) | PortConfig::Tunnel(_) => {}
        }
        Ok(config)
    }

    fn pcap(&self) -> Confined<'_> {
        let folder = self.pcap.as_deref();
        Confined { folder, option: "--pcap-folder", what: "the folder of capture files" }
    }

    fn memif(&self) -> Confined<'_> {
        let folder = self.memif.as_deref();
        Confined { folder, option: "--memif-folder", what: "the folder of memif sockets" }
    }
}

impl Confined<'_> {
    fn folder(&self, field: &'static str) -> Result<&Path, OpenError> {
        let Confined { folder, option, what } = self;
        folder.ok_or_else(|| OpenError::Config {
            field,
            reason: format!("the forwarder has no {}: start it with {option} FOLDER", &what[4..]),
        })
    }

    /// The path of a name in the folder, or of a path that leads directly into it.
    fn path(&self, field: &'static str, given: &str) -> Result<PathBuf, OpenError> {
        let folder = self.folder(field)?;
        let path = Path::new(given);
        let refused = |reason: String| Err(OpenError::Config { field, reason });
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|it| is_safe(it))
        else {
            return refused(format!("{given:?} has no safe name: {NAME_RULE}"));
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        let is_inside = parent == Path::new("")
            || parent == folder
            || matches!((parent.canonicalize(), folder.canonicalize()),
                (Ok(parent), Ok(folder)) if parent == folder);
        if !is_inside {
            let Confined { option, what, .. } = self;
            return refused(format!(
                "{given} is not in {what}, {}: use a name in it, such as {name}, or start Stoa with {option} {}",
                folder.display(),
                parent.display()
            ));
        }
        Ok(folder.join(name))
    }

    /// The socket of a name in the folder; an abstract name, which is no file, stays as it is.
    fn socket(&self, field: &'static str, given: &str) -> Result<String, OpenError> {
        match given.strip_prefix('@') {
            Some(name) if is_safe(name) => Ok(given.to_owned()),
            Some(_) => Err(OpenError::Config {
                field,
                reason: format!("{given:?} is not a safe abstract name: {NAME_RULE}"),
            }),
            None => {
                let path = self.path(field, given)?.to_string_lossy().into_owned();
                let reason = || {
                    format!(
                        "{path} is longer than {SOCKET_LIMIT} bytes: use a shorter name, or start Stoa with a \
                         shorter {} FOLDER",
                        self.option
                    )
                };
                match path.len() > SOCKET_LIMIT {
                    true => Err(OpenError::Config { field, reason: reason() }),
                    false => Ok(path),
                }
            }
        }
    }
}

/// The rule of [`is_safe`] in words.
const NAME_RULE: &str =
    "use letters, digits and the characters . _ - + @ : and begin with a letter, a digit or _";

/// Whether this is a name without characters that mean something to a file system, a shell or a parser.
pub fn is_safe(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@:".contains(&byte);
    let begins = name.bytes().next().is_some_and(|it| it.is_ascii_alphanumeric() || it == b'_');
    begins && name.len() <= NAME_LIMIT && name.bytes().all(is_plain)
}

fn check_device(device: &str, netns: Option<&str>) -> Result<(), OpenError> {
    for (field, name) in [("device", Some(device)), ("netns", netns)] {
        if let Some(name) = name.filter(|name| !is_safe(name)) {
            let reason = format!("{name:?} is not a safe name: {NAME_RULE}");
            return Err(OpenError::Config { field, reason });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
