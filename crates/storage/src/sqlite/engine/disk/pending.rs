//! Writes to one file that are not synced. Reads see them; only a sync writes them to the real file.

use std::collections::BTreeMap;

use rusqlite::ffi;

/// Bytes of one block: a block is lost or kept as a whole.
const BLOCK: u64 = 4_096;
/// One write in so many reaches the real file before a sync, as an operating system may do.
const EARLY_ONE_IN: u64 = 8;

/// The real file on disk.
pub(crate) struct Base {
    file: *mut ffi::sqlite3_file,
    real: *const ffi::sqlite3_io_methods,
}

impl Base {
    /// # Safety
    /// `real` is the table of `file`, which is open as long as this is used.
    pub(crate) unsafe fn of(file: *mut ffi::sqlite3_file, real: *const ffi::sqlite3_io_methods) -> Self {
        Self { file, real }
    }

    pub(crate) fn read(&self, to: &mut [u8], at: u64) -> i32 {
        let (length, at) = (to.len().try_into().unwrap_or(0), at.cast_signed());
        // SAFETY: the caller of `of` guarantees an open file; `length` is the slice's length.
        unsafe {
            (*self.real)
                .xRead
                .map_or(ffi::SQLITE_MISUSE, |read| read(self.file, to.as_mut_ptr().cast(), length, at))
        }
    }

    pub(crate) fn write(&self, from: &[u8], at: u64) -> i32 {
        let (length, at) = (from.len().try_into().unwrap_or(0), at.cast_signed());
        // SAFETY: as for `read`.
        unsafe {
            (*self.real)
                .xWrite
                .map_or(ffi::SQLITE_MISUSE, |write| write(self.file, from.as_ptr().cast(), length, at))
        }
    }

    pub(crate) fn truncate(&self, size: u64) -> i32 {
        // SAFETY: the caller of `of` guarantees an open file.
        unsafe { (*self.real).xTruncate.map_or(ffi::SQLITE_MISUSE, |cut| cut(self.file, size.cast_signed())) }
    }

    pub(crate) fn sync(&self, flags: i32) -> i32 {
        // SAFETY: the caller of `of` guarantees an open file.
        unsafe { (*self.real).xSync.map_or(ffi::SQLITE_MISUSE, |sync| sync(self.file, flags)) }
    }

    pub(crate) fn size(&self) -> u64 {
        let mut size = 0;
        // SAFETY: the caller of `of` guarantees an open file; `size` is valid for the result.
        let code =
            unsafe { (*self.real).xFileSize.map_or(ffi::SQLITE_MISUSE, |ask| ask(self.file, &raw mut size)) };
        debug_assert_eq!(code, ffi::SQLITE_OK, "an open file has a size");
        size.cast_unsigned()
    }
}

/// The pending writes of one file.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Whole blocks with the pending writes applied.
    blocks: BTreeMap<u64, Vec<u8>>,
    /// The size of the file as reads see it.
    size: u64,
    /// How many bytes of the real file are still valid: the rest was truncated, and that is not synced.
    kept: u64,
    writes: u64,
}

impl Pending {
    /// No pending writes, for a file of that size.
    pub(crate) fn of(size: u64) -> Self {
        Self { blocks: BTreeMap::new(), size, kept: size, writes: 0 }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn read(&self, base: &Base, to: &mut [u8], at: u64) -> i32 {
        let end = at + to.len() as u64;
        let there = self.size.clamp(at, end) - at;
        let (found, behind) = to.split_at_mut(usize::try_from(there).unwrap_or(0));
        behind.fill(0);
        let short = !behind.is_empty();
        let mut done = 0;
        while done < found.len() {
            let (block, within) = ((at + done as u64) / BLOCK, (at + done as u64) % BLOCK);
            let length = (BLOCK - within).min((found.len() - done) as u64);
            let (from, length) = (usize::try_from(within).unwrap_or(0), usize::try_from(length).unwrap_or(0));
            let whole = match self.blocks.get(&block) {
                Some(bytes) => bytes.clone(),
                None => match self.load(base, block) {
                    Ok(bytes) => bytes,
                    Err(code) => return code,
                },
            };
            found[done..done + length].copy_from_slice(&whole[from..from + length]);
            done += length;
        }
        if short { ffi::SQLITE_IOERR_SHORT_READ } else { ffi::SQLITE_OK }
    }

    pub(crate) fn write(&mut self, base: &Base, from: &[u8], at: u64) -> i32 {
        let mut done = 0;
        while done < from.len() {
            let (block, within) = ((at + done as u64) / BLOCK, (at + done as u64) % BLOCK);
            let length = (BLOCK - within).min((from.len() - done) as u64);
            let (to, length) = (usize::try_from(within).unwrap_or(0), usize::try_from(length).unwrap_or(0));
            if !self.blocks.contains_key(&block) {
                match self.load(base, block) {
                    Ok(bytes) => drop(self.blocks.insert(block, bytes)),
                    Err(code) => return code,
                }
            }
            if let Some(bytes) = self.blocks.get_mut(&block) {
                bytes[to..to + length].copy_from_slice(&from[done..done + length]);
            }
            done += length;
        }
        self.size = self.size.max(at + from.len() as u64);
        self.writes += 1;
        if self.writes.is_multiple_of(EARLY_ONE_IN) { base.write(from, at) } else { ffi::SQLITE_OK }
    }

    pub(crate) fn truncate(&mut self, base: &Base, size: u64) -> i32 {
        let within = usize::try_from(size % BLOCK).unwrap_or(0);
        if within > 0 && size < self.size {
            match self.blocks.remove(&(size / BLOCK)).map_or_else(|| self.load(base, size / BLOCK), Ok) {
                Ok(mut bytes) => {
                    bytes[within..].fill(0);
                    self.blocks.insert(size / BLOCK, bytes);
                }
                Err(code) => return code,
            }
        }
        drop(self.blocks.split_off(&size.div_ceil(BLOCK)));
        self.size = size;
        self.kept = self.kept.min(size);
        ffi::SQLITE_OK
    }

    /// Writes everything to the real file.
    pub(crate) fn sync(&mut self, base: &Base) -> i32 {
        if base.size() > self.kept {
            let code = base.truncate(self.kept);
            if code != ffi::SQLITE_OK {
                return code;
            }
        }
        for (block, bytes) in &self.blocks {
            let at = block * BLOCK;
            let length = usize::try_from(self.size.saturating_sub(at).min(BLOCK)).unwrap_or(0);
            let code = base.write(&bytes[..length], at);
            if code != ffi::SQLITE_OK {
                return code;
            }
        }
        // The real file need not be synced: it survives the end of the process.
        self.blocks.clear();
        self.kept = self.size;
        ffi::SQLITE_OK
    }

    /// A block of the real file, as far as the file is still valid.
    fn load(&self, base: &Base, block: u64) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0; usize::try_from(BLOCK).unwrap_or(0)];
        let at = block * BLOCK;
        let length = usize::try_from(self.kept.saturating_sub(at).min(BLOCK)).unwrap_or(0);
        if length == 0 {
            return Ok(bytes);
        }
        match base.read(&mut bytes[..length], at) {
            ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ => Ok(bytes),
            code => Err(code),
        }
    }
}
