//! Simulates disk failures for the torture harness: a shim around SQLite's own file layer, only in a
//! build with `failpoints`, and only if the environment asks for it.
//!
//! - `VIV_FAULTS=power-loss`: writes stay in the memory of the process until they are synced, so killing
//!   the process acts like a loss of power. Some writes reach the disk earlier, as with a real operating
//!   system. New directory entries are kept only after the directory was synced.
//! - `VIV_DISK=DIR`: while `DIR/full` exists, every write fails; if `DIR/eio` exists, the next sync fails
//!   and removes `DIR/eio`.
//!
//! Locks and shared memory are the real ones of the operating system. This module must not know what
//! is in any file.
#![allow(unsafe_code, reason = "SQLite's file layer is a table of C functions")]

mod pending;

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::ffi;

use self::pending::{Base, Pending};

/// The name of the shim among SQLite's file layers.
const NAME: &CStr = c"viv-disk";
/// Lists the files of a directory whose names are not synced yet; stored in the directory itself.
const UNSYNCED_LIST: &str = "power-unnamed";

/// Pending writes by path: all handles of one file share them.
type Files = Mutex<HashMap<PathBuf, Arc<Mutex<Pending>>>>;

/// The shim's part of an open file, stored behind SQLite's own part.
struct Handle {
    /// The table of functions that SQLite calls: the shim's.
    methods: ffi::sqlite3_io_methods,
    /// The real table of functions.
    real: *const ffi::sqlite3_io_methods,
    pending: Option<Arc<Mutex<Pending>>>,
    /// The directory that the first sync of this file syncs too, as SQLite does for journals that it created.
    unsynced_dir: Option<PathBuf>,
}

/// Installs the shim for the files in `dir` if the environment asks for it, and removes files whose
/// names a simulated loss of power has lost.
pub(crate) fn prepare(dir: &Path) {
    if !failpoint::on!("power-loss") && fault_dir().is_none() {
        return;
    }
    remove_unsynced_files(dir);
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // SAFETY: SQLite's table is never freed, and ours is leaked. Only `xOpen` and `xDelete` differ;
        // the other functions read only fields that were copied.
        let code = unsafe {
            let real = ffi::sqlite3_vfs_find(std::ptr::null());
            let ours = Box::leak(Box::new(*real));
            ours.szOsFile = (*real).szOsFile + c_int::try_from(size_of::<*mut Handle>()).unwrap_or(8);
            ours.zName = NAME.as_ptr();
            ours.pNext = std::ptr::null_mut();
            ours.xOpen = Some(open);
            ours.xDelete = Some(delete);
            ffi::sqlite3_vfs_register(ours, 1)
        };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite takes another file layer");
    });
}

/// Removes files that were created and whose directory was not synced before the power failed.
fn remove_unsynced_files(dir: &Path) {
    let list = dir.join(UNSYNCED_LIST);
    for name in std::fs::read_to_string(&list).unwrap_or_default().lines() {
        // The file may not exist any more.
        let _ = std::fs::remove_file(dir.join(name));
    }
    let _ = std::fs::remove_file(list);
}

/// The directory in which the harness asks for a full disk or a failing sync.
fn fault_dir() -> Option<&'static Path> {
    static DIR: OnceLock<Option<PathBuf>> = OnceLock::new();
    DIR.get_or_init(|| std::env::var_os("VIV_DISK").map(PathBuf::from)).as_deref()
}

fn files() -> MutexGuard<'static, HashMap<PathBuf, Arc<Mutex<Pending>>>> {
    static FILES: OnceLock<Files> = OnceLock::new();
    lock(FILES.get_or_init(Files::default))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The real file layer.
///
/// # Safety
/// SQLite's own layers are never freed; only the shim was put in front of this one.
unsafe fn real_vfs() -> *mut ffi::sqlite3_vfs {
    // SAFETY: as above; on every supported system the layer has this name.
    unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) }
}

/// The pointer to a file's handle, which is stored behind SQLite's own part.
///
/// # Safety
/// `file` has the `szOsFile` bytes that the shim asked for.
unsafe fn handle_slot(file: *mut ffi::sqlite3_file) -> *mut *mut Handle {
    // SAFETY: the shim's `szOsFile` is that of the real layer plus one pointer.
    unsafe { file.cast::<u8>().add(usize::try_from((*real_vfs()).szOsFile).unwrap_or(0)).cast() }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let durable = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL;
    // SAFETY: SQLite passes a name that ends with a zero, or a null pointer.
    let path =
        (!name.is_null()).then(|| PathBuf::from(unsafe { CStr::from_ptr(name) }.to_string_lossy().as_ref()));
    let created = path.as_ref().filter(|path| !path.exists()).cloned();
    // SAFETY: the real layer gets the same arguments and the same memory.
    let code = unsafe {
        let real = real_vfs();
        (*real).xOpen.map_or(ffi::SQLITE_MISUSE, |open| open(real, name, file, flags, out))
    };
    let Some(path) = path.filter(|_| code == ffi::SQLITE_OK && flags & durable != 0) else { return code };
    let journal = flags & ffi::SQLITE_OPEN_MAIN_DB == 0;
    let power = failpoint::on!("power-loss");
    let unsynced_dir =
        created.filter(|_| power).and_then(|created| record_unsynced(&created)).filter(|_| journal);
    // SAFETY: the file was opened, so its table is set; the shim may replace it until the file is closed.
    unsafe {
        let real = (*file).pMethods;
        let mut methods = *real;
        methods.iVersion = methods.iVersion.min(2);
        methods.xClose = Some(close);
        methods.xRead = Some(read);
        methods.xWrite = Some(write);
        methods.xTruncate = Some(truncate);
        methods.xSync = Some(sync);
        methods.xFileSize = Some(size);
        methods.xFileControl = Some(control);
        let base = Base::of(file, real);
        let pending = power.then(|| {
            let mut files = files();
            Arc::clone(files.entry(path).or_insert_with(|| Arc::new(Mutex::new(Pending::of(base.size())))))
        });
        let handle = Box::into_raw(Box::new(Handle { methods, real, pending, unsynced_dir }));
        *handle_slot(file) = handle;
        (*file).pMethods = &raw const (*handle).methods;
    }
    code
}

/// Records a new file as one that a loss of power would remove. Returns its directory.
fn record_unsynced(created: &Path) -> Option<PathBuf> {
    let (dir, name) = (created.parent()?, created.file_name()?.to_str()?);
    let list = dir.join(UNSYNCED_LIST);
    let known = std::fs::read_to_string(&list).unwrap_or_default();
    std::fs::write(&list, format!("{known}{name}\n")).ok()?;
    Some(dir.to_owned())
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: SQLite passes a name that ends with a zero; the real layer takes the same arguments.
    unsafe {
        files().remove(Path::new(CStr::from_ptr(name).to_string_lossy().as_ref()));
        (*real_vfs()).xDelete.map_or(ffi::SQLITE_MISUSE, |delete| delete(vfs, name, sync_dir))
    }
}

/// A file's handle, and the real file on disk.
///
/// # Safety
/// `file` was opened by [`open`], is not closed, and SQLite uses it on one thread at a time.
unsafe fn parts<'a>(file: *mut ffi::sqlite3_file) -> (&'a mut Handle, Base) {
    // SAFETY: `open` stored the handle there, and nothing else holds it.
    unsafe {
        let handle = &mut **handle_slot(file);
        let base = Base::of(file, handle.real);
        (handle, base)
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once; the handle was boxed by `open`.
    unsafe {
        let handle = Box::from_raw(*handle_slot(file));
        (*file).pMethods = handle.real;
        (*handle.real).xClose.map_or(ffi::SQLITE_MISUSE, |close| close(file))
    }
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, to: *mut c_void, length: c_int, at: i64) -> c_int {
    // SAFETY: SQLite passes `length` bytes to fill.
    let (handle, base, to) = unsafe {
        let (handle, base) = parts(file);
        (handle, base, std::slice::from_raw_parts_mut(to.cast::<u8>(), unsigned(length.into())))
    };
    match &handle.pending {
        Some(pending) => lock(pending).read(&base, to, at.cast_unsigned()),
        None => base.read(to, at.cast_unsigned()),
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    at: i64,
) -> c_int {
    if fault_dir().is_some_and(|dir| dir.join("full").exists()) {
        return ffi::SQLITE_FULL;
    }
    // SAFETY: SQLite passes `length` bytes to write.
    let (handle, base, from) = unsafe {
        let (handle, base) = parts(file);
        (handle, base, std::slice::from_raw_parts(from.cast::<u8>(), unsigned(length.into())))
    };
    match &handle.pending {
        Some(pending) => lock(pending).write(&base, from, at.cast_unsigned()),
        None => base.write(from, at.cast_unsigned()),
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: SQLite's own call on an open file.
    let (handle, base) = unsafe { parts(file) };
    match &handle.pending {
        Some(pending) => lock(pending).truncate(&base, size.cast_unsigned()),
        None => base.truncate(size.cast_unsigned()),
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    if let Some(dir) = fault_dir()
        && std::fs::remove_file(dir.join("eio")).is_ok()
    {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    // SAFETY: SQLite's own call on an open file.
    let (handle, base) = unsafe { parts(file) };
    let Some(pending) = &handle.pending else { return base.sync(flags) };
    let code = lock(pending).sync(&base);
    if code == ffi::SQLITE_OK
        && let Some(dir) = handle.unsynced_dir.take()
    {
        // The directory is synced now, and with it the names of all its files.
        let _ = std::fs::remove_file(dir.join(UNSYNCED_LIST));
    }
    code
}

unsafe extern "C" fn size(file: *mut ffi::sqlite3_file, to: *mut i64) -> c_int {
    // SAFETY: SQLite's own call on an open file; `to` is valid for the result.
    unsafe {
        let (handle, base) = parts(file);
        *to = match &handle.pending {
            Some(pending) => lock(pending).size(),
            None => base.size(),
        }
        .cast_signed();
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn control(file: *mut ffi::sqlite3_file, op: c_int, about: *mut c_void) -> c_int {
    if matches!(op, ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_CHUNK_SIZE | ffi::SQLITE_FCNTL_MMAP_SIZE)
    {
        // These would change the real file without regard to pending writes.
        return ffi::SQLITE_NOTFOUND;
    }
    // SAFETY: SQLite's own call, passed on as it is.
    unsafe {
        let (handle, _) = parts(file);
        (*handle.real).xFileControl.map_or(ffi::SQLITE_NOTFOUND, |control| control(file, op, about))
    }
}

fn unsigned(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}
