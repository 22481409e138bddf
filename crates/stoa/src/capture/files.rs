//! A capture in files: one file, or a ring of files of limited size. A new file of a full ring replaces the oldest.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use stoa_api::v1::{CaptureInterface, CapturedFrame};

use super::Sink;
use super::pcapng::PcapNg;

/// Minimum size of a block without its frame.
const BLOCK_OVERHEAD: u64 = 44;

/// Writes pcapng files.
pub struct Files {
    path: PathBuf,
    snap_length: u32,
    /// Maximum bytes of a file and number of files; `None`: one file without a limit.
    ring: Option<(u64, usize)>,
    current: PcapNg<BufWriter<File>>,
    written: u64,
    /// Number of the current file.
    number: u32,
    files: VecDeque<PathBuf>,
    interfaces: Vec<CaptureInterface>,
}

impl Files {
    /// Creates the first file. In a ring, files are named NAME_00001.pcapng and so on.
    pub fn new(path: &Path, snap_length: u32, ring: Option<(u64, usize)>) -> io::Result<Self> {
        let first = if ring.is_some() { numbered(path, 1) } else { path.to_owned() };
        let current = create(&first, snap_length)?;
        Ok(Self {
            path: path.to_owned(),
            snap_length,
            ring,
            current,
            written: 0,
            number: 1,
            files: VecDeque::from([first]),
            interfaces: Vec::new(),
        })
    }

    /// Starts the next file and removes the oldest beyond `limit`.
    fn rotate(&mut self, limit: usize) -> io::Result<()> {
        self.current.flush()?;
        self.number += 1;
        let next = numbered(&self.path, self.number);
        self.current = create(&next, self.snap_length)?;
        self.current.interfaces(&self.interfaces)?;
        self.written = 0;
        self.files.push_back(next);
        while self.files.len() > limit {
            if let Some(oldest) = self.files.pop_front() {
                std::fs::remove_file(oldest)?;
            }
        }
        Ok(())
    }
}

fn create(path: &Path, snap_length: u32) -> io::Result<PcapNg<BufWriter<File>>> {
    // Captured packets are the communication of others.
    let mut options = OpenOptions::new();
    let file =
        options.write(true).create(true).truncate(true).mode(0o600).open(path).map_err(
            |error| io::Error::new(error.kind(), format!("{}: {error}", path.display())),
        )?;
    PcapNg::new(BufWriter::new(file), snap_length)
}

/// "dump.pcapng" and 7 become "dump_00007.pcapng".
fn numbered(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map_or("pcapng".into(), |ending| ending.to_string_lossy());
    path.with_file_name(format!("{stem}_{number:05}.{ending}"))
}

impl Sink for Files {
    fn interfaces(&mut self, interfaces: &[CaptureInterface]) -> io::Result<()> {
        self.interfaces.extend_from_slice(interfaces);
        self.current.interfaces(interfaces)
    }

    fn frame(&mut self, frame: &CapturedFrame) -> io::Result<()> {
        let bytes = BLOCK_OVERHEAD + frame.data.len() as u64;
        if let Some((size, limit)) = self.ring
            && self.written > 0
            && self.written + bytes > size
        {
            self.rotate(limit)?;
        }
        self.written += bytes;
        self.current.frame(frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.current.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_the_newest_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump.pcapng");
        let mut files = Files::new(&path, 0, Some((1000, 2))).unwrap();
        files.interfaces(&[CaptureInterface { index: 0, name: "eth0".into() }]).unwrap();
        let frame = CapturedFrame { data: vec![0; 400], length: 400, ..Default::default() };
        for _ in 0..7 {
            files.frame(&frame).unwrap();
        }
        files.flush().unwrap();
        let mut names: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names, ["dump_00003.pcapng", "dump_00004.pcapng"]);
        let missing = Files::new(Path::new("/nowhere/x.pcapng"), 0, None).err().unwrap();
        assert!(missing.to_string().starts_with("/nowhere/x.pcapng: "), "{missing}");
    }
}
