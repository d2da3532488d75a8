//! The mapping itself: bytes of a memfd seen as the ledger's layout.
//!
//! It owns the ledger's unsafe code and the layout that all processes must agree on. It never
//! reads or writes a word itself but the mark. The ledger calls it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::{ROWS, Row};

const MARK: u64 = u64::from_be_bytes(*b"pgfleetL");
/// Raised with every change of [`Layout`] or [`Row`].
const VERSION: u32 = 1;

/// What is in the shared memory. Only atomics: every process writes to it at any time.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Layout {
    mark: AtomicU64,
    version: AtomicU32,
    pub(super) spare: Row,
    pub(super) rows: [Row; ROWS],
}

impl Layout {
    const SIZE: usize = size_of::<Self>();
    /// The length of the file. A few pages, so the cast is exact.
    pub(super) const LENGTH: i64 = Self::SIZE as i64;

    /// Marks new memory as a ledger; last of all, so that a marked one is complete.
    pub(super) fn sign(&self) {
        self.version.store(VERSION, Ordering::Relaxed);
        self.mark.store(MARK, Ordering::Release);
    }

    /// Whether this build made it.
    pub(super) fn is_ours(&self) -> bool {
        self.mark.load(Ordering::Acquire) == MARK && self.version.load(Ordering::Relaxed) == VERSION
    }
}

/// A mapping that is as long as the layout. It stays until it is dropped.
#[derive(Debug)]
pub(super) struct Mapping(MmapRaw);

impl Mapping {
    /// Maps a file that must be exactly as long as the layout.
    pub(super) fn new(file: BorrowedFd<'_>) -> io::Result<Self> {
        let found = nix::sys::stat::fstat(file)?.st_size;
        if found != Layout::LENGTH {
            return Err(super::refused("its size is not that of a ledger"));
        }
        let map = MmapOptions::new().len(Layout::SIZE).map_raw(file.as_raw_fd())?;
        Ok(Self(map))
    }

    /// The memory as what it is.
    #[expect(
        unsafe_code,
        reason = "shared memory comes as a bare address: this is where it gets its type"
    )]
    pub(super) fn layout(&self) -> &Layout {
        // SAFETY: the mapping starts at a page, so it is aligned; it is exactly as long as the
        // layout; the file cannot shrink under it (its size is sealed before it is mapped, and
        // `Ledger::open` checks that); it is unmapped only when `self` is dropped. The layout
        // holds nothing but atomic integers, for which all bytes are valid values and which other
        // processes may change at any time.
        unsafe { &*self.0.as_ptr().cast::<Layout>() }
    }
}
