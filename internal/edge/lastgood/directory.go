package lastgood

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// nonBlocking opens a file without waiting: opening a named pipe would wait for
// its other end.
const nonBlocking = syscall.O_NONBLOCK

// open opens the directory, if no other user can access it.
func open(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil {
		err = checkPrivate(info, "directory", "chmod 700")
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// checkPrivate refuses a directory or file that another user owns or can
// access. It does not change permissions itself: the operator may have
// configured a wrong directory by mistake.
func checkPrivate(info fs.FileInfo, what, fix string) error {
	if status, ok := info.Sys().(*syscall.Stat_t); ok && int(status.Uid) != os.Geteuid() {
		return fmt.Errorf("the %s belongs to user %d and the edge runs as %d: private keys are kept there, so use a directory of its own",
			what, status.Uid, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("the %s has mode %#o, so other users can access the private keys in it: use %s, or a directory that does not exist yet",
			what, mode, fix)
	}
	return nil
}

// syncDir makes a rename durable.
func syncDir(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// removeTemps removes temporary files that killed processes left behind. One
// that cannot be removed does no harm.
func removeTemps(root *os.Root, before time.Time) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	const most = 1000 // bounds a directory that is full of other files
	entries, _ := dir.ReadDir(most)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), tempPrefix) {
			continue
		}
		if info, err := entry.Info(); err == nil && info.ModTime().Before(before) {
			_ = root.Remove(entry.Name())
		}
	}
}

// randomName returns a name that no other process guesses, so that two
// processes with one directory never write to the same temporary file.
func randomName() string { return rand.Text() }
