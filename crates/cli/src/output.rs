//! `--output FILE`: a file that is replaced as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::report::{Report, write_json};

/// A file to be replaced. Opening it makes a temporary file beside it, so that a directory that
/// cannot be written to shows before the run and not after it; dropping it removes that file.
#[derive(Debug)]
pub(crate) struct Output {
    target: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl Output {
    /// Makes the temporary file.
    ///
    /// # Errors
    ///
    /// The path names a directory, or its directory does not exist or cannot be written to.
    pub(crate) fn create(target: &Path) -> io::Result<Self> {
        let name = target.file_name().filter(|_| !target.is_dir());
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", std::process::id()));
        let temporary = target.with_file_name(hidden);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)?;
        Ok(Self {
            target: target.to_owned(),
            temporary,
            file,
        })
    }

    /// Writes the report and puts the file in its place.
    ///
    /// # Errors
    ///
    /// The file cannot be written or renamed; the old file, if there is one, stays as it was.
    pub(crate) fn write(self, report: &Report) -> io::Result<()> {
        let mut writer = BufWriter::new(&self.file);
        write_json(report, &mut writer)?;
        writer.flush()?;
        drop(writer);
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.target)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove, and that is no error.
        let _ = fs::remove_file(&self.temporary);
    }
}
