package listener_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/must"
)

func TestReusePort(t *testing.T) {
	t.Parallel()
	first := open(t, listener.Config{ReusePort: true})
	address := first.Addr().String()
	open(t, listener.Config{ReusePort: true, Address: address})
	if l, err := listener.Listen(context.Background(), listener.Config{Address: address}); err == nil {
		l.Close()
		t.Error("the port was taken without being asked to share it")
	} else if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), address) {
		t.Errorf("the error is %v", err)
	}
}

// TestBacklogAndKeepAlive reads the options back from the kernel, through a file
// descriptor of the same socket.
func TestBacklogAndKeepAlive(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{Backlog: 7, KeepAlive: net.KeepAliveConfig{Enable: true, Idle: 42 * time.Second, Interval: 9 * time.Second, Count: 3}})
	connect(t, l)
	c := accept(t, l)
	port := l.Addr().(*net.TCPAddr).Port

	var listening, accepted bool
	for fd := range 4096 {
		local, err := syscall.Getsockname(fd)
		if four, ok := local.(*syscall.SockaddrInet4); err != nil || !ok || four.Port != port {
			continue
		}
		if _, err := syscall.Getpeername(fd); err != nil {
			listening = true
			if got := listenBacklog(t, fd); got != 7 {
				t.Errorf("the backlog is %d", got)
			}
			continue
		}
		accepted = true
		if on, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE); err != nil || on != 1 {
			t.Errorf("keep-alive of an accepted connection is %d, %v", on, err)
		}
		for option, want := range map[int]int{syscall.TCP_KEEPIDLE: 42, syscall.TCP_KEEPINTVL: 9, syscall.TCP_KEEPCNT: 3} {
			if got, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, option); err != nil || got != want {
				t.Errorf("option %d of an accepted connection is %d, %v; want %d", option, got, err, want)
			}
		}
	}
	if !listening || !accepted {
		t.Errorf("found the listening socket: %t, the accepted one: %t", listening, accepted)
	}
	must.Do(t, c.Close())
}

// listenBacklog reads tcpi_sacked of struct tcp_info, which is the backlog of
// a listening socket.
func listenBacklog(t *testing.T, fd int) uint32 {
	t.Helper()
	var info [32]byte
	size := uint32(len(info))
	_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO,
		uintptr(unsafe.Pointer(&info[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return *(*uint32)(unsafe.Pointer(&info[28]))
}

// TestOutOfFiles takes all file descriptors of the process: the listener
// reports it, waits, and goes on. It is not parallel, because no other test
// could open a file meanwhile.
func TestOutOfFiles(t *testing.T) {
	count := newCounters()
	l := open(t, listener.Config{Hooks: count.hooks()})
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	lower := limit
	lower.Cur = 256
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower))
	defer func() { must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) }()
	var taken []*os.File
	release := func() {
		for _, file := range taken {
			file.Close()
		}
		taken = nil
	}
	defer release()
	for {
		file, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		must.Do(t, err)
		taken = append(taken, file)
	}
	// One for the client, and none for us.
	must.Do(t, taken[len(taken)-1].Close())
	taken = taken[:len(taken)-1]
	client := connect(t, l)
	send(t, client, []byte("x"))
	count.await(t, "accept failed twice for want of files", func() bool {
		return len(count.failed) >= 2 && errors.Is(count.failed[0], syscall.EMFILE)
	})
	release()
	receive(t, accept(t, l), "x")
	// Close does not wait for the next try.
	must.Do(t, l.Close())
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		config listener.Config
		want   string
	}{
		{"address", listener.Config{}, "give one such as :443"},
		{"network", listener.Config{Address: "127.0.0.1:0", Network: "udp"}, "use tcp, tcp4 or tcp6"},
		{"negative", listener.Config{Address: "127.0.0.1:0", MaxConns: -1}, "cannot be negative"},
		{"nobody trusted", listener.Config{Address: "127.0.0.1:0", Proxy: listener.ProxyRequire}, "no client is trusted"},
		{"mode", listener.Config{Address: "127.0.0.1:0", Proxy: 9, TrustedProxies: loopback}, "is not known"},
		{"limit", listener.Config{Address: "127.0.0.1:0", ProxyHeaderLimit: 5000}, "out of range"},
		{"unusable address", listener.Config{Address: "192.0.2.1:1"}, "cannot listen on 192.0.2.1:1"},
	} {
		l, err := listener.Listen(context.Background(), tt.config)
		if err == nil {
			l.Close()
			t.Errorf("%s: accepted", tt.name)
		} else if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error is %q, want %q in it", tt.name, err, tt.want)
		}
	}
}
