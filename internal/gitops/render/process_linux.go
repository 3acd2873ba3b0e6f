package render

import (
	"errors"
	"os"
	"syscall"
)

// program is the one that runs now. It is the link to it, and not its path: an
// upgrade may have put another program there.
func program() string { return "/proc/self/exe" }

// isolations are ways to start a worker, the best first.
func isolations() []*syscall.SysProcAttr {
	flags := uintptr(syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC)
	if os.Geteuid() != 0 {
		flags |= syscall.CLONE_NEWUSER // others need it for NEWNET
	}
	return []*syscall.SysProcAttr{{Cloneflags: flags}, {}}
}

// isUnsupported reports whether an error means that the kernel does not have
// it, or not enough of it.
func isUnsupported(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS)
}
