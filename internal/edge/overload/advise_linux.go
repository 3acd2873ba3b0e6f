package overload

import "golang.org/x/sys/unix"

// dropPages drops the pages of a file mapping from the process (MADV_DONTNEED).
// An error leaves them, which does no harm.
func dropPages(part extent) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, part.begin, part.length, unix.MADV_DONTNEED)
}

// largePage is the size of a huge page on most CPUs.
const largePage = 2 << 20

// gatherPages collapses memory into huge pages (MADV_COLLAPSE), as far as the
// kernel has some. It needs Linux 6.1; without it nothing happens. Each page is
// a call of its own: one call for all of them would end with the first that
// fails.
func gatherPages(part extent) {
	first := (part.begin + largePage - 1) / largePage * largePage
	for at := first; at+largePage <= part.begin+part.length; at += largePage {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, at, largePage, unix.MADV_COLLAPSE)
	}
}
