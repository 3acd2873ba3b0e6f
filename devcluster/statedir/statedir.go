// Package statedir manages the directory in which a cluster keeps its state.
//
// It guarantees that one process at a time uses a directory, however the
// previous one ended, and that a cluster comes back on its previous port as
// long as that is free.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"slipway.dev/slipway/devcluster/pki"
)

// Open creates the directory and locks it until the returned file is closed. It
// returns the absolute path. The lock is an advisory flock: the kernel releases
// it with the process, however that ends, so there are no stale locks.
func Open(dir string) (string, *os.File, error) {
	if dir == "" {
		return "", nil, errors.New("--dir is required: the directory that keeps the state of the cluster")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("cannot make the state directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, fmt.Errorf("cannot lock the state directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return "", nil, fmt.Errorf("%s is in use by another slipway-devcluster (pid %s): stop it, or give another --dir", dir, lockHolder(lock))
		}
		return "", nil, fmt.Errorf("cannot lock %s: %w", lock.Name(), err)
	}
	// The process ID is only for the error message of a second process; the
	// lock does not depend on it.
	if err := errors.Join(lock.Truncate(0), writePID(lock)); err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return dir, lock, nil
}

// writePID writes the process ID of the lock's holder.
func writePID(lock *os.File) error {
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// lockHolder reads the process ID from the lock file. It may be empty for a
// moment after the holder has locked the file.
func lockHolder(lock *os.File) string {
	pid := make([]byte, 20)
	n, _ := lock.ReadAt(pid, 0)
	if text := strings.TrimSpace(string(pid[:n])); text != "" {
		return text
	}
	return "unknown"
}

// Listen opens the given port of an address. For port 0 it opens the port of
// the last start, so that kubeconfigs stay valid, or a free one when that is
// taken. It stores the port for the next start.
func Listen(dir string, address netip.Addr, port uint16) (net.Listener, error) {
	remembered := filepath.Join(dir, "port")
	if port != 0 {
		ln, err := listenTCP(address, port)
		if err != nil {
			return nil, fmt.Errorf("port %d of the API server cannot be used (%w): give another --port, or 0 for a free one", port, err)
		}
		return rememberPort(remembered, ln)
	}
	if last, err := readPort(remembered); err != nil {
		return nil, err
	} else if last != 0 {
		// Any error counts as taken; a problem of the address itself shows
		// again below.
		if ln, err := listenTCP(address, last); err == nil {
			return ln, nil
		}
	}
	ln, err := listenTCP(address, 0)
	if err != nil {
		return nil, err
	}
	return rememberPort(remembered, ln)
}

// listenTCP listens on a port of the address; 0 takes a free one.
func listenTCP(address netip.Addr, port uint16) (net.Listener, error) {
	return net.Listen("tcp", netip.AddrPortFrom(address, port).String())
}

// readPort reads the stored port; 0 means that none is stored. An invalid file
// is an error, because a silent change of the port would break kubeconfigs in
// use.
func readPort(path string) (uint16, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%s holds no port number: delete it to take a free port", path)
	}
	return uint16(port), nil
}

// rememberPort stores the port of the listener, and closes the listener if that
// fails.
func rememberPort(path string, ln net.Listener) (net.Listener, error) {
	port := ln.Addr().(*net.TCPAddr).Port
	if err := pki.ReplaceFile(path, []byte(strconv.Itoa(port)+"\n"), 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}
