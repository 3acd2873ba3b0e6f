package listener

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// soReusePort is SO_REUSEPORT, which the syscall package lacks on some
// architectures. It is the same on all that Go and we build for.
const soReusePort = 0xf

// setOptions arranges for the options of the listening socket. Connections inherit
// those of keep-alive from it; net would set each of them on each connection.
func setOptions(lc *net.ListenConfig, config *Config) {
	var options []socketOption
	if config.ReusePort {
		options = append(options, socketOption{syscall.SOL_SOCKET, soReusePort, 1})
	}
	// Other values have a meaning that is net's to decide.
	if keep := config.KeepAlive; keep.Enable && keep.Idle >= time.Second && keep.Interval >= time.Second && keep.Count > 0 {
		lc.KeepAlive, lc.KeepAliveConfig = -1, net.KeepAliveConfig{}
		options = append(options,
			socketOption{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			socketOption{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, seconds(keep.Idle)},
			socketOption{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, seconds(keep.Interval)},
			socketOption{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, keep.Count})
	}
	lc.Control = func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			for _, o := range options {
				failed = errors.Join(failed, os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), o.level, o.name, o.value)))
			}
		})
		return errors.Join(err, failed)
	}
}

// socketOption is set before bind.
type socketOption struct{ level, name, value int }

// seconds rounds up, as net does.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

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
