//! The memfd and its mapping.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::doing::{PEERS, Peer};
use super::fifo::Fifo;
use super::layout::*;
use super::ring::Ring;
use super::wake;

/// One pool's shared memory, mapped into this process.
///
/// The geometry is kept in private memory: what stands in the segment may be overwritten by a
/// worker.
pub struct Segment {
    fd: OwnedFd,
    base: NonNull<u8>,
    geometry: Geometry,
    // What follows from the geometry, worked out once: a request asks for these dozens of times.
    cells: u32,
    cells_at: usize,
    board_at: usize,
    slots_at: usize,
    slot_size: usize,
    /// The doorbells of the workers, by their places; none if they sleep on futexes.
    doorbells: Vec<OwnedFd>,
}

// SAFETY: the mapping is shared memory that is only touched through atomics and bounded copies;
// nothing in it is tied to a thread.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Why a descriptor is no usable segment.
#[derive(Debug)]
pub enum BadSegment {
    /// It could not be examined or mapped.
    Io(io::Error),
    /// It is something else, or was written by another version: what stands there, what is needed.
    Version {
        /// Version in the segment; 0 if it is no segment at all.
        found: u32,
    },
    /// Sizes that cannot be, or that do not fit the file.
    Geometry,
}

impl fmt::Display for BadSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadSegment::Io(e) => write!(f, "cannot map the queue: {e}"),
            BadSegment::Version { found } => write!(
                f,
                "the queue has layout {found}, this program has {LAYOUT_VERSION}: install server \
                    and worker of one version"
            ),
            BadSegment::Geometry => write!(f, "the queue's sizes do not fit its memory"),
        }
    }
}

impl std::error::Error for BadSegment {}

impl From<io::Error> for BadSegment {
    fn from(e: io::Error) -> Self {
        BadSegment::Io(e)
    }
}

impl Segment {
    /// Makes the memory of a new pool. `name` shows in `/proc/PID/maps`.
    ///
    /// # Errors
    /// Those of `memfd_create`, `ftruncate` and `mmap`; `InvalidInput` for sizes out of bounds.
    pub fn create(name: &str, geometry: Geometry) -> io::Result<Segment> {
        if !geometry.is_sound() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("impossible queue sizes: {geometry:?}"),
            ));
        }
        let name = format!("tokamak-{}", name.replace('\0', ""));
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, geometry.len() as u64)?;
        // A worker that could shorten the file would kill the front with SIGBUS.
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let segment = Segment::over(map(&fd, geometry.len())?, fd, geometry);
        let header = segment.header();
        // SAFETY: no other process has the segment yet; `geometry` is plain data inside the
        // mapping.
        unsafe { (&raw const header.geometry).cast_mut().write(geometry) };
        header.version.store(LAYOUT_VERSION, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        // Cell t of an empty queue must not look like ticket t: the first lap's tickets begin at 0.
        for cell in segment.cells() {
            cell.store(u64::from(u32::MAX) << 32, Ordering::Relaxed);
        }
        Ok(segment)
    }

    /// Maps the segment behind an inherited descriptor.
    ///
    /// # Errors
    /// See [`BadSegment`].
    pub fn open(fd: OwnedFd) -> Result<Segment, BadSegment> {
        let len = length(&fd)?;
        if len < size_of::<Header>() {
            return Err(BadSegment::Version { found: 0 });
        }
        let base = map(&fd, len)?;
        // SAFETY: `base` is page-aligned, mapped for at least a `Header`.
        let header = unsafe { base.cast::<Header>().as_ref() };
        let (magic, version, geometry) = (
            header.magic.load(Ordering::Acquire),
            header.version.load(Ordering::Relaxed),
            header.geometry,
        );
        let bad = if magic != MAGIC || version != LAYOUT_VERSION {
            Some(BadSegment::Version { found: if magic == MAGIC { version } else { 0 } })
        } else if !geometry.is_sound() || geometry.len() != len {
            Some(BadSegment::Geometry)
        } else {
            None
        };
        match bad {
            None => Ok(Segment::over(base, fd, geometry)),
            Some(bad) => {
                // SAFETY: mapped above with this length, no reference left.
                let _ = unsafe { munmap(base.as_ptr().cast(), len) };
                Err(bad)
            }
        }
    }

    /// Maps the memory that takes the place of this one: with the same sizes and bells, whatever
    /// stands in it, because its workers may have written there.
    ///
    /// # Errors
    /// Fails if it cannot be mapped, or is too small.
    pub fn successor(&self, fd: OwnedFd) -> io::Result<Segment> {
        let geometry = self.geometry;
        if length(&fd)? != geometry.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the queue's sizes do not fit its memory",
            ));
        }
        let mut segment = Segment::over(map(&fd, geometry.len())?, fd, geometry);
        segment.doorbells =
            self.doorbells.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(segment)
    }

    /// `base` maps all of the segment.
    fn over(base: NonNull<u8>, fd: OwnedFd, geometry: Geometry) -> Segment {
        Segment {
            fd,
            base,
            geometry,
            cells: geometry.cells(),
            cells_at: geometry.cells_at(),
            board_at: geometry.board_at(),
            slots_at: geometry.slots_at(),
            slot_size: geometry.slot_size(),
            doorbells: Vec::new(),
        }
    }

    /// This process rings the workers by these, as the geometry wants it. `bells` are all that
    /// belong to the segment, those of the front's event loops first.
    ///
    /// # Errors
    /// Fails if they cannot be copied.
    ///
    /// # Panics
    /// If their number does not fit the geometry.
    pub fn with_doorbells(mut self, bells: &[OwnedFd]) -> io::Result<Segment> {
        assert!(bells.len() == self.geometry.bells());
        let doorbells = &bells[usize::from(self.geometry.loops)..];
        self.doorbells = doorbells.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(self)
    }

    /// The sizes.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The descriptor, for handing it to a worker program.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// All descriptors that it needs in this process.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(&self.fd).chain(&self.doorbells).map(AsFd::as_fd)
    }

    /// Requests that wait for a worker, as it looks from outside.
    pub fn depth(&self) -> u32 {
        let header = self.header();
        let (tail, head) = (&header.tail.0, &header.head.0);
        let depth = tail.load(Ordering::Relaxed).wrapping_sub(head.load(Ordering::Relaxed));
        // Workers may have taken what the tail does not show yet.
        (depth.cast_signed().max(0) as u32).min(self.cells)
    }

    /// The doorbell of the worker at this place.
    pub(super) fn doorbell(&self, worker: u16) -> Option<BorrowedFd<'_>> {
        self.doorbells.get(usize::from(worker)).map(AsFd::as_fd)
    }

    /// Ends the wait that a worker has noted in a slot. The worker may have written any number
    /// there.
    pub(super) fn end_wait(&self, waits: &AtomicU32) {
        match waits.swap(0, Ordering::SeqCst) {
            0 => {}
            SLEEPS => wake::futex_wake(waits),
            door => self.ring_doorbell(door - AT_THE_DOOR),
        }
    }

    /// Rings the doorbell of the worker that watches a slot for its client. The worker may have
    /// written any number there.
    pub(super) fn ring_watcher(&self, watcher: &AtomicU32) {
        if let Some(index) = watcher.load(Ordering::SeqCst).checked_sub(1) {
            self.ring_doorbell(index);
        }
    }

    fn ring_doorbell(&self, index: u32) {
        if let Some(bell) = self.doorbells.get(index as usize) {
            wake::ring(bell);
        }
    }

    /// Says how long a request may take; zero: any time.
    pub fn set_request_timeout(&self, limit: Duration) {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.header().request_timeout.store(limit, Ordering::Relaxed);
    }

    /// When a request is to end that has begun at this time, both in nanoseconds
    /// ([`tokamak_cost::now`]); [`None`]: whenever it likes.
    pub fn due(&self, begun: u64) -> Option<u64> {
        match self.header().request_timeout.load(Ordering::Relaxed) {
            0 => None,
            limit => Some(begun.saturating_add(limit)),
        }
    }

    /// Says that the front ends with the requests that it has.
    pub fn set_draining(&self) {
        self.header().draining.store(1, Ordering::Relaxed);
    }

    /// Whether it does.
    pub fn is_draining(&self) -> bool {
        self.header().draining.load(Ordering::Relaxed) != 0
    }

    /// Says whether requests need not wait: no worker lives, and none boots.
    pub fn set_barren(&self, is_barren: bool) {
        self.header().barren.store(u32::from(is_barren), Ordering::Relaxed);
    }

    /// Whether that is so.
    pub fn is_barren(&self) -> bool {
        self.header().barren.load(Ordering::Relaxed) != 0
    }

    /// Says that workers up to this instance serve an application that has changed.
    pub fn outdate(&self, instance: u32) {
        self.header().outdated.store(instance, Ordering::Release);
    }

    /// Whether the worker with this number does.
    pub fn is_outdated(&self, instance: u32) -> bool {
        let last = self.header().outdated.load(Ordering::Acquire);
        // Numbers begin again after the largest one.
        last != 0 && last.wrapping_sub(instance) < u32::MAX / 2
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: `base` maps a `Header`, and all but its constant part are atomics.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    pub(super) fn event_loop(&self, index: u16) -> &Loop {
        assert!(index < self.geometry.loops);
        self.at(self.geometry.loops_at() + usize::from(index) * size_of::<Loop>())
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &AtomicU64> {
        (0..self.cells).map(|ticket| self.cell(ticket))
    }

    #[inline]
    pub(super) fn board_entry(&self, worker: u16) -> &BoardEntry {
        assert!(worker < self.geometry.workers);
        self.at(self.board_at + usize::from(worker) * size_of::<BoardEntry>())
    }

    /// Whom the descriptors of the worker at this place are connected to.
    pub(super) fn peers_of(&self, worker: u16) -> Option<&[Peer]> {
        if worker >= self.geometry.workers * self.geometry.doorbells {
            return None;
        }
        let at = self.geometry.peers_at() + usize::from(worker) * PEERS * size_of::<Peer>();
        let first: *const Peer = self.at(at);
        // SAFETY: each worker that has a doorbell has so many of them in the mapping. The address
        // in one is only touched by raw copies.
        Some(unsafe { std::slice::from_raw_parts(first, PEERS) })
    }

    #[inline]
    pub(super) fn slot(&self, slot: u32) -> &SlotHead {
        self.at(self.slot_at(slot))
    }

    /// The request area from `from` on, as a ring.
    pub(super) fn request_area(&self, slot: u32, from: u32) -> Ring {
        assert!(from < self.geometry.request);
        let at = self.slot_at(slot) + SLOT_HEAD + from as usize;
        // SAFETY: the area lies in the mapping, which lives as long as `self`; rings are not kept
        // longer (they are made anew for each use).
        unsafe { Ring::new(self.base.as_ptr().add(at), (self.geometry.request - from) as usize) }
    }

    pub(super) fn response_ring(&self, slot: u32) -> Ring {
        let at = self.slot_at(slot) + SLOT_HEAD + self.geometry.request as usize;
        // SAFETY: as in `request_area`.
        unsafe { Ring::new(self.base.as_ptr().add(at), self.geometry.response as usize) }
    }

    /// Address of a slot's request area.
    pub(super) fn request_ptr(&self, slot: u32) -> *const u8 {
        // SAFETY: inside the mapping.
        unsafe { self.base.as_ptr().add(self.slot_at(slot) + SLOT_HEAD) }
    }

    /// The bytes of a slot that most requests use: the head with the beginning of the record behind
    /// it, and the beginning of the response. They begin and end with a page.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn usual_pages(&self, slot: u32) -> [(*const u8, usize); 2] {
        let record = self.request_ptr(slot);
        // SAFETY: the head lies before the record and the response behind the request area, both
        // inside the mapping.
        unsafe {
            let response = record.add(self.geometry.request as usize);
            [(record.sub(SLOT_HEAD), SLOT_HEAD + PAGE), (response, PAGE)]
        }
    }

    #[inline]
    fn slot_at(&self, slot: u32) -> usize {
        assert!(slot < self.geometry.slots());
        self.slots_at + slot as usize * self.slot_size
    }

    #[inline]
    fn at<T>(&self, offset: usize) -> &T {
        debug_assert!(offset + size_of::<T>() <= self.geometry.len());
        debug_assert!(offset.is_multiple_of(align_of::<T>()));
        // SAFETY: callers compute `offset` from the geometry, whose `len` is mapped; `T` is one of
        // the layout's types, valid for any bytes and only written through atomics or raw copies.
        unsafe { self.base.add(offset).cast::<T>().as_ref() }
    }
}

impl Fifo for Segment {
    type Half = AtomicU32;
    type Full = AtomicU64;

    fn head(&self) -> &AtomicU32 {
        &self.header().head.0
    }

    fn cell(&self, ticket: u32) -> &AtomicU64 {
        let index = ticket & (self.cells - 1);
        self.at(self.cells_at + index as usize * size_of::<AtomicU64>())
    }

    fn claim(&self, slot: u32) -> &AtomicU64 {
        &self.slot(slot).claim
    }

    fn sleepers(&self) -> &[AtomicU64] {
        &self.header().sleepers.0
    }

    fn bell(&self, worker: u16) -> &AtomicU32 {
        &self.board_entry(worker).bell
    }

    fn slots(&self) -> u32 {
        self.geometry.slots()
    }

    fn workers(&self) -> u16 {
        self.geometry.workers
    }

    fn wait(&self, worker: u16, limit: Duration) {
        wake::futex_wait(self.bell(worker), 1, limit);
    }

    fn wake(&self, worker: u16) {
        match self.doorbells.get(usize::from(worker)) {
            Some(bell) => wake::ring(bell),
            None => wake::futex_wake(self.bell(worker)),
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped with this length; every reference into it borrowed `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.geometry.len()) };
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

fn length(fd: &OwnedFd) -> io::Result<usize> {
    Ok(fstat(fd)?.st_size as usize)
}

fn map(fd: &OwnedFd, len: usize) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new shared mapping at an address of the kernel's choice.
    let base = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, fd, 0) }?;
    Ok(NonNull::new(base.cast()).expect("mmap never maps page zero unless asked"))
}
