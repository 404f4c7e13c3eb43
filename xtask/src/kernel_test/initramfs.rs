//! The guest's file system: an archive in cpio's "newc" format, as the kernel's documentation
//! (driver-api/early-userspace/buffer-format) describes it.

/// File types in a mode.
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// An archive being written.
#[derive(Debug)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

/// What an entry's header says beside its name.
struct Header {
    mode: u32,
    /// Major and minor number of a device.
    device: (u32, u32),
}

impl Archive {
    pub(crate) fn new() -> Archive {
        Archive {
            bytes: Vec::new(),
            entries: 0,
        }
    }

    /// Adds a folder; its parent has to come before it. Names have no leading slash.
    pub(crate) fn folder(&mut self, name: &str) {
        self.entry(name, DIRECTORY | 0o755, (0, 0), &[]);
    }

    /// Adds a file that may be executed.
    pub(crate) fn program(&mut self, name: &str, contents: &[u8]) {
        self.entry(name, FILE | 0o755, (0, 0), contents);
    }

    /// Adds a file.
    pub(crate) fn file(&mut self, name: &str, contents: &[u8]) {
        self.entry(name, FILE | 0o644, (0, 0), contents);
    }

    /// Adds a character device.
    pub(crate) fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(name, CHARACTER_DEVICE | 0o600, (major, minor), &[]);
    }

    /// Ends the archive and returns it.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), contents: &[u8]) {
        self.entries += 1;
        self.header(name, &Header { mode, device }, contents.len());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(contents);
        self.align();
    }

    /// Writes the magic number and thirteen fields of eight hexadecimal digits. Owner and group are
    /// root's; all times are 0, so that equal files give equal archives.
    fn header(&mut self, name: &str, header: &Header, length: usize) {
        let length = u32::try_from(length).expect("a file of the guest is below 4 GiB");
        let name_length = u32::try_from(name.len() + 1).expect("a name is short");
        let (inode, links) = (self.entries, 1);
        let (major, minor) = header.device;
        let fields = [
            inode,
            header.mode,
            0,
            0,
            links,
            0,
            length,
            0,
            0,
            major,
            minor,
            name_length,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
    }

    /// Pads to a multiple of four bytes.
    fn align(&mut self) {
        let length = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_header_name_and_contents_padded_to_four() {
        let mut archive = Archive::new();
        archive.file("abc", b"hello");
        let bytes = archive.finish();
        let header = "070701\
                      00000001000081A400000000000000000000000100000000\
                      000000050000000000000000000000000000000000000004\
                      00000000";
        assert_eq!(header.len(), 110);
        assert_eq!(&bytes[..110], header.as_bytes());
        assert_eq!(&bytes[110..116], b"abc\0\0\0"[..6].as_ref());
        // 110 and 4 are padded to 116.
        assert_eq!(&bytes[116..124], b"hello\0\0\0");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(bytes.len().is_multiple_of(4));
        assert!(bytes[124..].windows(11).any(|w| w == b"TRAILER!!!\0"));
    }

    #[test]
    fn a_device_has_its_numbers() {
        let mut archive = Archive::new();
        archive.device("dev/console", 5, 1);
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes[..110]).into_owned();
        assert_eq!(&text[14..22], "00002180");
        assert_eq!(&text[78..94], "0000000500000001");
    }
}
