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

// nonBlocking opens a file without waiting for its other end.
const nonBlocking = syscall.O_NONBLOCK

// open opens the directory, if it is ours alone.
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

// checkPrivate refuses what others own or can reach. It does not take rights
// away itself: the directory may be one that the operator named by mistake.
func checkPrivate(info fs.FileInfo, what, fix string) error {
	if status, ok := info.Sys().(*syscall.Stat_t); ok && int(status.Uid) != os.Geteuid() {
		return fmt.Errorf("the %s belongs to user %d and the edge runs as %d: private keys are kept there, so name a directory of its own",
			what, status.Uid, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("the %s has mode %#o, so others can reach the private keys in it: use %s, or name a directory that is not there yet",
			what, mode, fix)
	}
	return nil
}

// syncDir makes a rename last.
func syncDir(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// removeTemps removes what processes that died have left behind. One that
// cannot be removed hurts nobody.
func removeTemps(root *os.Root, before time.Time) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	const most = 1000
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

func randomName() string { return rand.Text() }
