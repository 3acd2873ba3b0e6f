package statedir

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/devcluster/must"
)

func TestOpenLocks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "cluster")
	path, lock, err := Open(dir)
	must.Do(t, err)
	if path != dir {
		t.Errorf("path is %s, want %s", path, dir)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory is %v (%v), want mode 0700", info.Mode(), err)
	}
	_, _, err = Open(dir)
	if err == nil {
		t.Fatal("a second lock was given")
	}
	for _, want := range []string{dir, fmt.Sprintf("pid %d", os.Getpid()), "give another --dir"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	lock.Close()
	_, lock, err = Open(dir)
	if err != nil {
		t.Fatalf("locked after the holder ended: %v", err)
	}
	lock.Close()
}

func TestOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	tests := []struct{ name, dir, want string }{
		{"none given", "", "--dir is required"},
		{"a file", file, "cannot make the state directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, _, err := Open(test.dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestListenKeepsThePort(t *testing.T) {
	dir := t.TempDir()
	first := listenPort(t, dir, 0)
	if again := listenPort(t, dir, 0); again != first {
		t.Errorf("second start is on port %d, the first was on %d", again, first)
	}
	taken := must.Get(listenTCP(loopback(), first))(t)
	defer taken.Close()
	if other := listenPort(t, dir, 0); other == first {
		t.Errorf("port %d was given twice", first)
	}
	if _, err := Listen(dir, loopback(), first); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d", first)) {
		t.Errorf("a taken port gave %v, want an error that names it", err)
	}
}

func TestListenRefusesGarbage(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "port"), []byte("many"), 0o600))
	if _, err := Listen(dir, loopback(), 0); err == nil || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
}

// listenPort opens the port, checks that it is on loopback, and closes it again.
func listenPort(t *testing.T, dir string, port uint16) uint16 {
	t.Helper()
	ln := must.Get(Listen(dir, loopback(), port))(t)
	defer ln.Close()
	addr := ln.Addr().(*net.TCPAddr)
	if !addr.IP.IsLoopback() {
		t.Errorf("listens on %s, want loopback only", addr)
	}
	return uint16(addr.Port)
}

func loopback() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// TestListenClosesOnError: a port that cannot be stored is free again.
func TestListenClosesOnError(t *testing.T) {
	port := listenPort(t, t.TempDir(), 0)
	missing := filepath.Join(t.TempDir(), "missing")
	if ln, err := Listen(missing, loopback(), port); err == nil || ln != nil {
		t.Fatalf("got %v and %v, want only an error", ln, err)
	}
	again := must.Get(listenTCP(loopback(), port))(t)
	again.Close()
}
