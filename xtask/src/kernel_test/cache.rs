//! The folder outside the repository that keeps everything that was fetched or built.
//!
//! Each step leaves a stamp: a file with the key of its inputs, written after its output is in
//! place. A step whose stamp has the key of today's inputs is up to date. Outputs are made under
//! another name and renamed, so a step that fails leaves what was there.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Step;
use super::failure::Failure;

/// The cache folder, held against other runs for as long as this lives.
#[derive(Debug)]
pub(crate) struct Cache {
    root: PathBuf,
    _lock: File,
}

impl Cache {
    /// Opens the cache folder; makes it where it does not exist.
    ///
    /// # Errors
    ///
    /// The folder is inside `repository`, cannot be made, or another run uses it.
    pub(crate) fn open(root: &Path, repository: &Path) -> Result<Cache, Failure> {
        fs::create_dir_all(root).map_err(|e| Failure::io("make", root, &e))?;
        // make and apt want absolute paths.
        let root = root
            .canonicalize()
            .map_err(|e| Failure::io("find", root, &e))?;
        if repository.canonicalize().is_ok_and(|r| root.starts_with(r)) {
            let why = format!("the cache {} is inside the repository", root.display());
            return Err(Failure::CannotRun(why));
        }
        let path = root.join("lock");
        let lock = File::create(&path).map_err(|e| Failure::io("open", &path, &e))?;
        match lock.try_lock() {
            Ok(()) => Ok(Cache { root, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Failure::CannotRun(format!(
                "another run uses the cache {}",
                root.display()
            ))),
            Err(TryLockError::Error(error)) => Err(Failure::io("lock", &path, &error)),
        }
    }

    /// Returns the path of something in the cache.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Makes an empty folder, in place of whatever had that name.
    pub(crate) fn empty_folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path(name);
        remove(&path)?;
        fs::create_dir_all(&path).map_err(|e| Failure::io("make", &path, &e))?;
        Ok(path)
    }

    /// Puts `from` in the place of `to`.
    pub(crate) fn replace(&self, from: &str, to: &str) -> Result<(), Failure> {
        let (from, to) = (self.path(from), self.path(to));
        if to.is_dir() {
            remove(&to)?;
        }
        fs::rename(&from, &to).map_err(|e| Failure::io("rename", &from, &e))
    }

    /// Returns whether `step` was last taken with these inputs.
    pub(crate) fn is_current(&self, step: Step, key: &str) -> bool {
        fs::read_to_string(self.stamp(step)).is_ok_and(|text| text == key)
    }

    /// Records that `step` was taken with these inputs.
    pub(crate) fn record(&self, step: Step, key: &str) -> Result<(), Failure> {
        let folder = self.path("stamps");
        fs::create_dir_all(&folder).map_err(|e| Failure::io("make", &folder, &e))?;
        let path = self.stamp(step);
        fs::write(&path, key).map_err(|e| Failure::io("write", &path, &e))
    }

    /// Forgets that `step` was taken. What it made stays.
    pub(crate) fn forget(&self, step: Step) -> Result<(), Failure> {
        remove(&self.stamp(step))
    }

    fn stamp(&self, step: Step) -> PathBuf {
        self.root.join("stamps").join(step.name())
    }
}

/// Removes a file or folder that may not be there.
pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    let removed = if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::io("remove", path, &error))
        }
        _ => Ok(()),
    }
}

/// Returns the SHA-256 of a file in hexadecimal.
pub(crate) fn hash_file(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|e| Failure::io("read", path, &e))?;
    Ok(hash(&bytes))
}

/// Returns the SHA-256 of `bytes` in hexadecimal.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the folder used where none is given: `evenkeel/kernel` in the user's cache folder, by
/// the XDG base directory specification.
pub(crate) fn default_root(
    xdg_cache_home: Option<PathBuf>,
    home: Option<PathBuf>,
) -> Option<PathBuf> {
    let caches = xdg_cache_home
        .filter(|path| path.is_absolute())
        .or_else(|| Some(home.filter(|path| path.is_absolute())?.join(".cache")))?;
    Some(caches.join("evenkeel").join("kernel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_follows_the_xdg_specification() {
        let path = |text: &str| Some(PathBuf::from(text));
        let caches = || path("/caches");
        let home = || path("/people/me");
        assert_eq!(
            default_root(caches(), home()),
            path("/caches/evenkeel/kernel")
        );
        // The specification wants relative paths ignored.
        for xdg in [None, path("caches")] {
            let expected = path("/people/me/.cache/evenkeel/kernel");
            assert_eq!(default_root(xdg, home()), expected);
        }
        for home in [None, path(""), path("me")] {
            assert_eq!(default_root(None, home), None);
        }
    }

    #[test]
    fn the_hash_is_sha_256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash(b""), empty);
    }

    #[test]
    fn a_stamp_is_current_only_for_its_key() {
        let root = std::env::temp_dir().join(format!("evenkeel-cache-{}", std::process::id()));
        let cache = Cache::open(&root, Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(!cache.is_current(Step::Image, "a"));
        cache.record(Step::Image, "a").unwrap();
        assert!(cache.is_current(Step::Image, "a"));
        assert!(!cache.is_current(Step::Image, "b"));
        assert!(!cache.is_current(Step::Source, "a"));
        let second = Cache::open(&root, Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(matches!(second, Err(Failure::CannotRun(_))));
        cache.forget(Step::Image).unwrap();
        cache.forget(Step::Image).unwrap();
        assert!(!cache.is_current(Step::Image, "a"));
        remove(&root).unwrap();
    }

    #[test]
    fn a_cache_inside_the_repository_is_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let inside = folder.join("src");
        assert!(matches!(
            Cache::open(&inside, folder),
            Err(Failure::CannotRun(_))
        ));
    }
}
