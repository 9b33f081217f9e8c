//! A disk that fails as disks do, for the torture harness: a shim around SQLite's own file layer, only
//! on a build with `failpoints`, and only where the environment asks for it.
//!
//! - `VIV_FAULTS=power-loss`: what is written is kept in the memory of the process until it is synced, and only
//!   then passed on; killing the process is a loss of power. A part is passed on early, as
//!   an operating system does when it likes. Entries of a directory count only once that was synced.
//! - `VIV_DISK=DIR`: while `DIR/full` is there nothing can be written; where `DIR/eio` is there the
//!   next sync fails, and `DIR/eio` is gone.
//!
//! Locks and shared memory stay those of the operating system. This module must not know what is in
//! any file.
#![allow(unsafe_code, reason = "SQLite's file layer is a table of C functions")]

mod pending;

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::ffi;

use self::pending::{Base, Pending};

/// How the shim is called among SQLite's file layers.
const NAME: &CStr = c"viv-disk";
/// What of a directory is not synced yet, by name, in the directory itself.
const UNNAMED: &str = "power-unnamed";

/// What is pending, by path: all handles of one file share it.
type Files = Mutex<HashMap<PathBuf, Arc<Mutex<Pending>>>>;

/// What one open file has in addition to SQLite's own part of it.
struct Handle {
    /// The table that SQLite calls: the real one but for what is pending.
    methods: ffi::sqlite3_io_methods,
    /// The real one.
    real: *const ffi::sqlite3_io_methods,
    pending: Option<Arc<Mutex<Pending>>>,
    /// Set where its first sync syncs the directory too, as SQLite does for journals that it made.
    names: Option<PathBuf>,
}

/// Puts the shim in front of the files in `dir`, where it is asked for; without the power that was
/// lost, they are what was synced.
pub(crate) fn prepare(dir: &Path) {
    if !failpoint::on!("power-loss") && trouble().is_none() {
        return;
    }
    forget_unnamed(dir);
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // SAFETY: SQLite hands out a table that lives for ever, and keeps ours, which is leaked. Only
        // `xOpen` and `xDelete` differ; the others look at nothing of the table but what was copied.
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

/// Files that were made and whose directory was not synced before the power went.
fn forget_unnamed(dir: &Path) {
    let list = dir.join(UNNAMED);
    for name in std::fs::read_to_string(&list).unwrap_or_default().lines() {
        // What is gone already is gone.
        let _ = std::fs::remove_file(dir.join(name));
    }
    let _ = std::fs::remove_file(list);
}

/// Where a harness says that the disk is full, or that a sync fails.
fn trouble() -> Option<&'static Path> {
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
/// SQLite's own layers are never freed; only ours was put in front of this one.
unsafe fn real_vfs() -> *mut ffi::sqlite3_vfs {
    // SAFETY: as above; on every system of ours the layer is called so.
    unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) }
}

/// The pointer to a file's handle: it stands behind SQLite's own part.
///
/// # Safety
/// `file` has `szOsFile` bytes of ours.
unsafe fn place(file: *mut ffi::sqlite3_file) -> *mut *mut Handle {
    // SAFETY: `szOsFile` of ours is that of the real layer and one pointer more.
    unsafe { file.cast::<u8>().add(usize::try_from((*real_vfs()).szOsFile).unwrap_or(0)).cast() }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let lasting = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL;
    // SAFETY: SQLite gives a name that ends with a zero, or none.
    let path =
        (!name.is_null()).then(|| PathBuf::from(unsafe { CStr::from_ptr(name) }.to_string_lossy().as_ref()));
    let made = path.as_ref().filter(|path| !path.exists()).cloned();
    // SAFETY: the same arguments, on the same memory: the real layer finds all that it needs.
    let code = unsafe {
        let real = real_vfs();
        (*real).xOpen.map_or(ffi::SQLITE_MISUSE, |open| open(real, name, file, flags, out))
    };
    let Some(path) = path.filter(|_| code == ffi::SQLITE_OK && flags & lasting != 0) else { return code };
    let journal = flags & ffi::SQLITE_OPEN_MAIN_DB == 0;
    let power = failpoint::on!("power-loss");
    let names = made.filter(|_| power).and_then(|made| unnamed(&made)).filter(|_| journal);
    // SAFETY: the file was opened, so its table is there; it is ours to replace until it is closed.
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
        let handle = Box::into_raw(Box::new(Handle { methods, real, pending, names }));
        *place(file) = handle;
        (*file).pMethods = &raw const (*handle).methods;
    }
    code
}

/// Notes a new file as one that a loss of power would take; the directory.
fn unnamed(made: &Path) -> Option<PathBuf> {
    let (dir, name) = (made.parent()?, made.file_name()?.to_str()?);
    let list = dir.join(UNNAMED);
    let known = std::fs::read_to_string(&list).unwrap_or_default();
    std::fs::write(&list, format!("{known}{name}\n")).ok()?;
    Some(dir.to_owned())
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: SQLite gives a name that ends with a zero; the real layer takes the same arguments.
    unsafe {
        files().remove(Path::new(CStr::from_ptr(name).to_string_lossy().as_ref()));
        (*real_vfs()).xDelete.map_or(ffi::SQLITE_MISUSE, |delete| delete(vfs, name, sync_dir))
    }
}

/// A file's handle and the file as it really is.
///
/// # Safety
/// `file` was opened by [`open`], is not closed, and SQLite uses it on one thread at a time.
unsafe fn parts<'a>(file: *mut ffi::sqlite3_file) -> (&'a mut Handle, Base) {
    // SAFETY: `open` put the handle there, and nobody else holds it.
    unsafe {
        let handle = &mut **place(file);
        let base = Base::of(file, handle.real);
        (handle, base)
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once; the handle was boxed by `open`.
    unsafe {
        let handle = Box::from_raw(*place(file));
        (*file).pMethods = handle.real;
        (*handle.real).xClose.map_or(ffi::SQLITE_MISUSE, |close| close(file))
    }
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, to: *mut c_void, length: c_int, at: i64) -> c_int {
    // SAFETY: SQLite gives `length` bytes to fill.
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
    if trouble().is_some_and(|dir| dir.join("full").exists()) {
        return ffi::SQLITE_FULL;
    }
    // SAFETY: SQLite gives `length` bytes to write.
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
    if let Some(dir) = trouble()
        && std::fs::remove_file(dir.join("eio")).is_ok()
    {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    // SAFETY: SQLite's own call on an open file.
    let (handle, base) = unsafe { parts(file) };
    let Some(pending) = &handle.pending else { return base.sync(flags) };
    let code = lock(pending).sync(&base);
    if code == ffi::SQLITE_OK
        && let Some(dir) = handle.names.take()
    {
        // Now its directory is synced, and with it the names of all files in it.
        let _ = std::fs::remove_file(dir.join(UNNAMED));
    }
    code
}

unsafe extern "C" fn size(file: *mut ffi::sqlite3_file, to: *mut i64) -> c_int {
    // SAFETY: SQLite's own call on an open file, with a place for the answer.
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
        // Those would change the real file behind what is pending.
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
