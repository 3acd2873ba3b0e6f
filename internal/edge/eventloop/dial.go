//go:build linux

package eventloop

import (
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Dial connects to an address on the loop of a task, which waits for it. The connection
// is bound to the task.
func (t *Task) Dial(to netip.AddrPort, until time.Time) (*Conn, error) {
	family, address := sockaddr(to)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := setSocketOptions(fd); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	c, err := t.loop.newConn(fd, nil, to)
	if err != nil {
		return nil, err
	}
	c.task = t
	c.write.state.Store(nil)
	if err := c.connect(address, until); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// connect waits for the connection, as for room to write. The write side was cleared before:
// a socket that is not connected reports events which mean nothing.
func (c *Conn) connect(address unix.Sockaddr, until time.Time) error {
	switch err := unix.Connect(c.fd, address); err {
	case nil:
		c.write.set()
		return nil
	case unix.EINPROGRESS, unix.EINTR:
	default:
		return os.NewSyscallError("connect", err)
	}
	if err := c.SetWriteDeadline(until); err != nil {
		return err
	}
	if err := c.wait(&c.write); err != nil {
		return err
	}
	failed, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && failed != 0 {
		return os.NewSyscallError("connect", unix.Errno(failed))
	}
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	return c.SetWriteDeadline(time.Time{})
}

// setSocketOptions sets those that package net sets.
func setSocketOptions(fd int) error {
	for _, option := range [...]struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
	} {
		if err := unix.SetsockoptInt(fd, option.level, option.name, option.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}

// sockaddr is an address for the kernel. An IPv4 address in IPv6 form is IPv4, as for package net.
func sockaddr(to netip.AddrPort) (family int, address unix.Sockaddr) {
	ip := to.Addr().Unmap()
	if ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: ip.As4()}
	}
	six := &unix.SockaddrInet6{Port: int(to.Port()), Addr: ip.As16()}
	if zone := ip.Zone(); zone != "" {
		if at, err := net.InterfaceByName(zone); err == nil {
			six.ZoneId = uint32(at.Index)
		}
	}
	return unix.AF_INET6, six
}

// Source asks the kernel for the address of this end of a connection.
func (c *Conn) Source() netip.AddrPort {
	var source netip.AddrPort
	_ = c.control(func(fd int) error {
		address, err := unix.Getsockname(fd)
		if err == nil {
			source = addrPort(address)
		}
		return err
	})
	return source
}

// addrPort is an address of the kernel.
func addrPort(address unix.Sockaddr) netip.AddrPort {
	switch at := address.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port))
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(at.Addr)
		if at.ZoneId != 0 {
			if zone, err := net.InterfaceByIndex(int(at.ZoneId)); err == nil {
				ip = ip.WithZone(zone.Name)
			}
		}
		return netip.AddrPortFrom(ip, uint16(at.Port))
	}
	return netip.AddrPort{}
}

// Quiet reports that no event has come since a count of [Loop.Waits], after the loop has waited. So an
// idle connection is known to be as it was left, without a system call.
func (c *Conn) Quiet(since uint64) bool {
	return c.read.state.Load() == nil && c.loop.waits.Load() > since
}

// Waits counts how often the loop has waited and seen to all events that were there.
func (l *Loop) Waits() uint64 { return l.waits.Load() }

// Descriptor is that of the socket, for the one who uses the connection.
func (c *Conn) Descriptor() int { return c.fd }
