package overload

import "golang.org/x/sys/unix"

// dropPages has a mapping of a file be as it was made, with no page in it. An
// error leaves it as it is, which is as good.
func dropPages(part extent) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, part.begin, part.length, unix.MADV_DONTNEED)
}

// largePage is what most processors have for a large page.
const largePage = 2 << 20

// gatherPages has memory be in large pages, as far as it is there and the kernel
// has some. It needs Linux 6.1; without it nothing happens. Each page is asked for
// by itself: a call for all of them would end with the first that cannot be had.
func gatherPages(part extent) {
	first := (part.begin + largePage - 1) / largePage * largePage
	for at := first; at+largePage <= part.begin+part.length; at += largePage {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, at, largePage, unix.MADV_COLLAPSE)
	}
}
