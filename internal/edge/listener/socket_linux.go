package listener

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// soReusePort is SO_REUSEPORT, which the syscall package lacks on some
// architectures. It is the same on all that Go and we build for.
const soReusePort = 0xf

// reusePort sets SO_REUSEPORT before bind.
func reusePort(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, soReusePort, 1))
	})
	if err != nil {
		return err
	}
	return failed
}

// setBacklog changes the length of the accept queue. Go always uses the
// maximum; a second listen changes it.
func setBacklog(inner *net.TCPListener, backlog int) error {
	raw, err := inner.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = os.NewSyscallError("listen", syscall.Listen(int(fd), backlog)) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("setting the backlog to %d: %w", backlog, err)
	}
	return nil
}
