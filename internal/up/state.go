package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/backoff"
)

const (
	// markerName is the file that marks a directory as ours. Only a marked or
	// an empty directory is ever written to.
	markerName = "slipway-up.json"
	lockName   = "slipway-up.lock"
	markerKind = "slipway-up"
	// markerVersion is raised when the layout of the directory changes.
	markerVersion = 1
	// maxMarkerSize bounds a file that may not be ours.
	maxMarkerSize = 64 << 10
	// doomedSuffix names what a reset has set aside for deletion.
	doomedSuffix = ".deleted"
	// leftoverTimeout is how long processes of a killed run may take to end.
	leftoverTimeout = time.Minute
	lockInterval    = 100 * time.Millisecond
)

// marker is the content of the marker file.
type marker struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// DemoApplied keeps an older version, which has no Git, from undoing the
	// user's changes.
	DemoApplied bool `json:"demoApplied"`
	// ApplicationMade keeps later starts from creating an Application again
	// that the user has deleted.
	ApplicationMade bool `json:"applicationMade,omitempty"`
	// GitPort is the port of the Git server at the first start.
	GitPort int `json:"gitPort,omitempty"`
	// RuntimeComplete keeps later starts from repeating steps that the user
	// may have undone.
	RuntimeComplete bool `json:"runtimeComplete,omitempty"`
}

// state is the directory of one slipway up. A file lock holds it, which the
// started processes inherit: it is free when the last of them has ended.
type state struct {
	dir string
	// owned are the directories of the parts: all that a reset deletes.
	owned  []string
	root   *os.Root
	lock   *os.File
	marker marker
}

// DefaultDir returns the default state directory: $XDG_DATA_HOME/slipway.
func DefaultDir() (string, error) {
	// The XDG specification ignores a relative path.
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "slipway"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("there is no home directory to keep the state in (%w): set --dir", err)
	}
	return filepath.Join(home, ".local", "share", "slipway"), nil
}

// openState takes the directory for this process. It refuses a directory that
// is not ours, and one where another slipway up runs.
func openState(ctx context.Context, dir string, owned []string, report func(string)) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	// The root keeps every access inside of the directory, also through
	// symbolic links.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the state directory: %w", err)
	}
	s := &state{dir: dir, owned: owned, root: root}
	if err := s.take(ctx, report); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// take marks and locks the directory.
func (s *state) take(ctx context.Context, report func(string)) error {
	// A directory that is not ours must not get a lock file.
	if _, err := s.recognise(); err != nil {
		return err
	}
	if err := s.acquire(ctx, report); err != nil {
		return err
	}
	// Read again: another process may have changed the directory before the
	// lock was taken.
	found, err := s.recognise()
	if err != nil {
		return err
	}
	if err := s.root.Chmod(".", 0o700); err != nil {
		return fmt.Errorf("make the state directory private: %w", err)
	}
	s.marker = found
	if found.Version == 0 {
		s.marker = marker{Kind: markerKind, Version: markerVersion}
		if err := s.save(); err != nil {
			return err
		}
	}
	return s.deleteDoomed()
}

// recognise reports whether the directory is ours. An empty one is, with a zero
// marker, and so is one with nothing but our lock, which an interrupted start
// leaves.
func (s *state) recognise() (marker, error) {
	content, err := s.readBounded(markerName)
	if errors.Is(err, fs.ErrNotExist) {
		return marker{}, s.requireEmpty()
	}
	if err != nil {
		return marker{}, fmt.Errorf("read the marker of %s: %w", s.dir, err)
	}
	var found marker
	if err := json.Unmarshal(content, &found); err != nil || found.Kind != markerKind || found.Version < 1 {
		return marker{}, fmt.Errorf("%s is damaged or was not written by `slipway up`: nothing in %s is touched; choose another --dir",
			filepath.Join(s.dir, markerName), s.dir)
	}
	if found.Version > markerVersion {
		return marker{}, fmt.Errorf("%s was made by a newer slipway (layout %d, this one knows %d): use that one, or choose another --dir",
			s.dir, found.Version, markerVersion)
	}
	return found, nil
}

// requireEmpty refuses a directory with other files than our lock.
func (s *state) requireEmpty() error {
	directory, err := s.root.Open(".")
	if err != nil {
		return err
	}
	defer directory.Close()
	// Two names decide: ours may be one of them.
	names, err := directory.Readdirnames(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", s.dir, err)
	}
	for _, name := range names {
		if name != lockName {
			return fmt.Errorf("%s has files in it (%s) and was not made by `slipway up`: nothing in it is touched; choose another --dir",
				s.dir, name)
		}
	}
	return nil
}

// readBounded reads at most maxMarkerSize bytes of a file.
func (s *state) readBounded(name string) ([]byte, error) {
	file, err := s.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxMarkerSize))
}

// acquire takes the lock. It does not wait for another slipway up, but for
// processes that a killed one has left behind.
func (s *state) acquire(ctx context.Context, report func(string)) error {
	lock, err := s.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the lock of the state directory: %w", err)
	}
	s.lock = lock
	ctx, cancel := context.WithTimeout(ctx, leftoverTimeout)
	defer cancel()
	for reported := false; ; {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return s.sign()
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", filepath.Join(s.dir, lockName), err)
		}
		// A live owner does not free the lock by itself, so waiting makes no
		// sense.
		if owner := s.owner(); owner != 0 {
			return fmt.Errorf("another `slipway up` (pid %d) runs in %s: stop it first (Ctrl-C there, or kill %d), or choose another --dir and --port-offset",
				owner, s.dir, owner)
		}
		if !reported {
			reported = true
			report("waiting for the processes of an earlier run to end")
		}
		if backoff.Sleep(ctx, lockInterval) != nil {
			return fmt.Errorf("%s is still in use by %s, left by an earlier run: end it, or choose another --dir: %w",
				s.dir, describeHolders(s.lockPath()), context.Cause(ctx))
		}
	}
}

// sign writes our process ID into the lock file, for the message of another
// process.
func (s *state) sign() error {
	if err := s.lock.Truncate(0); err != nil {
		return fmt.Errorf("write the lock of the state directory: %w", err)
	}
	if _, err := s.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write the lock of the state directory: %w", err)
	}
	return nil
}

// owner returns the process that signed the lock, if it still lives and holds
// it.
func (s *state) owner() int {
	content, err := s.readBounded(lockName)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || pid < 1 {
		return 0
	}
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return 0
	}
	// Process IDs are used again. Where /proc is readable it decides.
	if open, known := hasOpen(pid, s.lockPath()); known && !open {
		return 0
	}
	return pid
}

// lockPath returns the path of the lock as /proc shows it.
func (s *state) lockPath() string { return realPath(s.dir, lockName) }

// realPath returns the path of a file as /proc shows it.
func realPath(dir, name string) string {
	path := filepath.Join(dir, name)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// reset deletes the directories of the parts and the record of what was done.
func (s *state) reset() error {
	// All parts are checked before the first is deleted.
	for _, name := range s.owned {
		if err := s.requireUnused(name); err != nil {
			return err
		}
	}
	// The record goes first: after an interrupted reset it must not describe a
	// demo that is gone.
	s.marker = marker{Kind: markerKind, Version: markerVersion}
	if err := s.save(); err != nil {
		return err
	}
	// A rename is all or nothing: an interrupted deletion never leaves half a
	// cluster that looks like a whole one.
	for _, name := range s.owned {
		err := s.root.Rename(name, name+doomedSuffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reset %s: %w", s.path(name), err)
		}
	}
	return s.deleteDoomed()
}

// requireUnused refuses the directory of a part that runs outside of slipway
// up: a part locks the file "lock" in it while it runs.
func (s *state) requireUnused(name string) error {
	lock, err := s.root.Open(filepath.Join(name, "lock"))
	if err != nil {
		return nil // there is nothing that could be in use
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%s is in use by %s: stop it before the reset", s.path(name), describeHolders(realPath(s.path(name), "lock")))
	}
	return nil
}

// deleteDoomed deletes what a reset has set aside, also an interrupted one.
func (s *state) deleteDoomed() error {
	for _, name := range s.owned {
		if err := s.root.RemoveAll(name + doomedSuffix); err != nil {
			return fmt.Errorf("delete %s: %w", s.path(name+doomedSuffix), err)
		}
	}
	return nil
}

// applicationIsMade records that the demo was created once.
func (s *state) applicationIsMade() error {
	s.marker.DemoApplied, s.marker.ApplicationMade = true, true
	return s.save()
}

// runtimeIsComplete records that the installation of the runtime was completed.
func (s *state) runtimeIsComplete() error {
	s.marker.RuntimeComplete = true
	return s.save()
}

// recordGitPort records the port of the Git server, unless an earlier run has.
func (s *state) recordGitPort(port int) error {
	if s.marker.GitPort != 0 {
		return nil
	}
	s.marker.GitPort = port
	return s.save()
}

// save writes the marker atomically.
func (s *state) save() error {
	content, err := json.Marshal(s.marker)
	if err != nil {
		return err
	}
	const draft = markerName + ".new"
	if err := s.writeSynced(draft, append(content, '\n')); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	// The rename replaces the marker in one step.
	if err := s.root.Rename(draft, markerName); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	return nil
}

// writeSynced writes a file that is on disk when it returns: a marker that is
// empty after a power failure would make the directory foreign.
func (s *state) writeSynced(name string, content []byte) error {
	file, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// path returns the path of a file in the directory.
func (s *state) path(name string) string { return filepath.Join(s.dir, name) }

// close frees the lock, unless a process that inherited it still runs.
func (s *state) close() {
	if s.lock != nil {
		s.lock.Close()
	}
	s.root.Close()
}
