//! The folders in which ports may open files and sockets: options of a start, which no configuration can change.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The folders of ports.
#[derive(Debug, Default, clap::Args)]
pub struct FoldersArgument {
    /// Folder of the capture files of pcap ports
    #[arg(long, value_name = "DIR")]
    pcap_folder: Option<PathBuf>,
    /// Folder of the sockets of memif ports
    #[arg(long, value_name = "DIR")]
    memif_folder: Option<PathBuf>,
}

impl FoldersArgument {
    /// Both as absolute paths, `None` where none was given.
    ///
    /// # Errors
    /// The working directory is gone.
    pub fn absolute(&self) -> Result<[Option<PathBuf>; 2], Failure> {
        let absolute = |folder: &Option<PathBuf>| match folder {
            Some(folder) => std::path::absolute(folder)
                .map(Some)
                .map_err(|error| Failure::context(folder.display(), error)),
            None => Ok(None),
        };
        Ok([absolute(&self.pcap_folder)?, absolute(&self.memif_folder)?])
    }

    /// Both, by default in the state folder.
    ///
    /// # Errors
    /// As [`Self::absolute`].
    pub fn or_below(&self, state: &Path) -> Result<[PathBuf; 2], Failure> {
        let [pcap, memif] = self.absolute()?;
        Ok([
            pcap.unwrap_or_else(|| state.join("pcap")),
            memif.unwrap_or_else(|| state.join("memif")),
        ])
    }
}
