// Package statedir guards the directory in which a cluster keeps its state.
//
// It promises that one process at a time uses a directory, whatever way the
// one before it ended, and that a cluster comes back on the port it had.
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

// Open makes the directory and locks it until the returned file is closed. It
// gives back the absolute path. The lock is the kernel's: it is gone with the
// process, however that ends.
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
	if err := errors.Join(lock.Truncate(0), writePID(lock)); err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return dir, lock, nil
}

func writePID(lock *os.File) error {
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func lockHolder(lock *os.File) string {
	pid := make([]byte, 20)
	n, _ := lock.ReadAt(pid, 0)
	if text := strings.TrimSpace(string(pid[:n])); text != "" {
		return text
	}
	return "unknown"
}

// Listen opens the wanted port of an address, or for port 0 the one of the last
// start, or a free one when that is taken.
func Listen(dir string, address netip.Addr, port uint16) (net.Listener, error) {
	remembered := filepath.Join(dir, "port")
	if port != 0 {
		ln, err := listenTCP(address, port)
		if err != nil {
			return nil, fmt.Errorf("port %d of the API server cannot be used (%w): give another --port, or 0 for a free one", port, err)
		}
		return ln, rememberPort(remembered, ln)
	}
	if last, err := readPort(remembered); err != nil {
		return nil, err
	} else if last != 0 {
		if ln, err := listenTCP(address, last); err == nil {
			return ln, nil
		}
	}
	ln, err := listenTCP(address, 0)
	if err != nil {
		return nil, err
	}
	return ln, rememberPort(remembered, ln)
}

func listenTCP(address netip.Addr, port uint16) (net.Listener, error) {
	return net.Listen("tcp", netip.AddrPortFrom(address, port).String())
}

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

func rememberPort(path string, ln net.Listener) error {
	port := ln.Addr().(*net.TCPAddr).Port
	return pki.ReplaceFile(path, []byte(strconv.Itoa(port)+"\n"), 0o600)
}
