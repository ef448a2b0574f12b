//! A byte ring: one writer, one reader, positions that only grow.
//!
//! Works on raw memory that another process may write at any time, so nothing here makes a
//! reference to it: bytes are copied in or out, once.

/// The memory of one ring inside the mapping.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    base: *mut u8,
    size: u64,
}

impl Ring {
    /// # Safety
    /// `base..base + size` is mapped readable and writable for as long as the ring is used.
    pub unsafe fn new(base: *mut u8, size: usize) -> Self {
        Ring { base, size: size as u64 }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Copies `bytes` to position `at`. The caller made sure that they fit.
    pub fn put(&self, at: u64, bytes: &[u8]) {
        assert!(bytes.len() as u64 <= self.size);
        let start = (at % self.size) as usize;
        let first = bytes.len().min(self.size as usize - start);
        // SAFETY: `start + first <= size` and `bytes.len() - first <= start` by the assertion, so
        // both copies stay in the ring's memory, which `new` promised. The source is private
        // memory: no overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(start), first);
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr().add(first),
                self.base,
                bytes.len() - first,
            );
        }
    }

    /// Copies the bytes from position `at` into `out`.
    pub fn get(&self, at: u64, out: &mut [u8]) {
        assert!(out.len() as u64 <= self.size);
        let start = (at % self.size) as usize;
        let first = out.len().min(self.size as usize - start);
        // SAFETY: as in `put`, in the other direction.
        unsafe {
            std::ptr::copy_nonoverlapping(self.base.add(start), out.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(
                self.base,
                out.as_mut_ptr().add(first),
                out.len() - first,
            );
        }
    }

    /// Appends the `len` bytes from position `at` to `out`, without writing zeroes there first.
    pub fn append_to(&self, at: u64, len: usize, out: &mut Vec<u8>) {
        assert!(len as u64 <= self.size);
        out.reserve(len);
        let start = (at % self.size) as usize;
        let first = len.min(self.size as usize - start);
        // SAFETY: as in `get`; `reserve` made room for `len` bytes behind the end, and all of them
        // are written before the length says so.
        unsafe {
            let end = out.as_mut_ptr().add(out.len());
            std::ptr::copy_nonoverlapping(self.base.add(start), end, first);
            std::ptr::copy_nonoverlapping(self.base, end.add(first), len - first);
            out.set_len(out.len() + len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(at in 0u64..1 << 40, bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut memory = [0u8; 64];
            // SAFETY: `memory` outlives the ring.
            let ring = unsafe { Ring::new(memory.as_mut_ptr(), memory.len()) };
            ring.put(at, &bytes);
            let mut out = vec![0; bytes.len()];
            ring.get(at, &mut out);
            prop_assert_eq!(&out, &bytes);
            let mut appended = b"x".to_vec();
            ring.append_to(at, bytes.len(), &mut appended);
            prop_assert_eq!(&appended[1..], &bytes[..]);
        }
    }
}
