package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// logFileLimit is the size at which a log file is rotated. The file and its
	// predecessor are kept.
	logFileLimit = 10 << 20
	// logLineLimit is the size at which a line is split into records, as
	// container runtimes do; a reader joins them again. It also bounds the
	// memory of an output without newlines.
	logLineLimit = 16 << 10
	// logTime has a fixed width, as in the logs of container runtimes.
	logTime = "2006-01-02T15:04:05.000000000Z07:00"

	// tagFull ends a line, tagPartial marks a part that continues: the tags of
	// the CRI log format.
	tagFull    = "F"
	tagPartial = "P"
)

// logStore holds the logs of one container: a file for each of its runs, of
// which the last two are kept.
type logStore struct {
	dir   string
	limit int64

	// mu makes create and find agree on the active file.
	mu     sync.Mutex
	active *logFile // the run that is being written, or the last that was
	run    int32
}

// newLogStore returns the store of a directory, which is created with the first
// log.
func newLogStore(dir string) *logStore { return &logStore{dir: dir, limit: logFileLimit} }

// path returns the file of a run, named by its restart count as in the
// kubelet's layout.
func (s *logStore) path(run int32) string {
	return filepath.Join(s.dir, strconv.Itoa(int(run))+".log")
}

// create opens the log of a run and makes it the active one. A file that a
// failed start of the same run left behind is continued.
func (s *logStore) create(run int32) (*logFile, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the log directory: %w", err)
	}
	s.prune(run)
	// From the moment the file exists it is the active one: find must not take
	// it for a log that has ended.
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &logFile{path: s.path(run), limit: s.limit}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("make the log file: %w", err)
	}
	s.active, s.run = f, run
	return f, nil
}

// prune deletes the logs of all runs but the given one and its predecessor.
// Higher numbers are leftovers of an earlier state. Errors are ignored: the
// next run prunes again.
func (s *logStore) prune(run int32) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), ".")
		if n, err := strconv.Atoi(number); err == nil && (n < int(run)-1 || n > int(run)) {
			os.Remove(filepath.Join(s.dir, entry.Name()))
		}
	}
}

// find returns the log of a run: the active one, or one that exists only on
// disk and has ended.
func (s *logStore) find(run int32) (*logFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != nil && s.run == run {
		return s.active, nil
	}
	if _, err := os.Stat(s.path(run)); err != nil {
		return nil, err
	}
	return &logFile{path: s.path(run), limit: s.limit, ended: true}, nil
}

// logFile is the log of one run of a container, in the CRI format, with the tag
// P for a part of a line that continues:
//
//	<time> <stream> <F or P> <text>
//
// Writing never fails for the process: when the disk is full its output is lost
// and the process continues.
type logFile struct {
	path  string
	limit int64

	mu      sync.Mutex
	file    *os.File
	size    int64
	turns   int // how often the file was rotated
	ended   bool
	writers []*logStream
	// changed is closed at the next write; nil while no reader waits.
	changed chan struct{}
}

// open opens the file for appending and takes its size, which decides about the
// rotation.
func (f *logFile) open() error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	f.file, f.size = file, info.Size()
	return nil
}

// rotated is the path of the part before the current one.
func (f *logFile) rotated() string { return f.path + ".1" }

// append stores whole records and wakes the readers; f.mu is held. A rotation
// happens only between records, so a record is never split over two files.
func (f *logFile) append(records []byte) {
	if f.file == nil {
		return
	}
	if f.size > 0 && f.size+int64(len(records)) > f.limit {
		f.rotate()
	}
	if f.file != nil {
		n, _ := f.file.Write(records)
		f.size += int64(n)
	}
	f.announce()
}

// rotate renames the file over its predecessor and opens a new one; f.mu is
// held. Readers keep the renamed file open and detect the rotation by turns. If
// the rename fails the file grows on.
func (f *logFile) rotate() {
	if err := os.Rename(f.path, f.rotated()); err != nil {
		return
	}
	f.file.Close()
	f.file = nil
	f.turns++
	// When opening fails the rest of the log is lost, and the next run begins
	// its own.
	_ = f.open()
}

// announce wakes the readers that wait for a write; f.mu is held.
func (f *logFile) announce() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// end closes the log after the last partial lines; readers that follow it stop
// when they have read it all. Only prune and discard delete it.
func (f *logFile) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.writers {
		w.flush()
	}
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
	f.ended = true
	f.announce()
}

// logState is a logFile at one moment. Every record written before it was taken
// can be read after.
type logState struct {
	turns   int
	ended   bool
	changed <-chan struct{}
}

// state returns the current state, with a channel that is closed at the next
// change.
func (f *logFile) state() logState {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return logState{turns: f.turns, ended: f.ended, changed: f.changed}
}

// parts opens the files of the log, oldest first; older is nil before the first
// rotation. The lock keeps a rotation from happening between the two. The
// caller closes the files.
func (f *logFile) parts() (older, current *os.File, turns int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	current, err = os.Open(f.path)
	if err != nil {
		return nil, nil, 0, err
	}
	older, err = os.Open(f.rotated())
	if err != nil && !os.IsNotExist(err) {
		current.Close()
		return nil, nil, 0, err
	}
	return older, current, f.turns, nil
}

// stream returns the writer for one output of the process, named as in the
// records. end flushes it.
func (f *logFile) stream(name string) *logStream {
	w := &logStream{file: f, name: name}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writers = append(f.writers, w)
	return w
}

// logStream splits an output into records. Both outputs of a process share one
// file, and the file's lock guards them.
type logStream struct {
	file *logFile
	name string
	rest []byte // the line that has not ended yet
}

// Write implements io.Writer. It never fails: see logFile. All records of one
// call share a timestamp and are appended with one write.
func (w *logStream) Write(p []byte) (int, error) {
	n := len(p)
	now := time.Now()
	w.file.mu.Lock()
	defer w.file.mu.Unlock()
	var records []byte
	for len(p) > 0 {
		line, after, ended := bytes.Cut(p, []byte{'\n'})
		if room := logLineLimit - len(w.rest); len(line) > room {
			line, after, ended = p[:room], p[room:], false
		}
		w.rest = append(w.rest, line...)
		p = after
		switch {
		case ended:
			records = w.record(records, now, tagFull)
		case len(w.rest) >= logLineLimit:
			records = w.record(records, now, tagPartial)
		}
	}
	if len(records) > 0 {
		w.file.append(records)
	}
	return n, nil
}

// record appends the pending line as one record to the buffer, and resets it.
// Appending avoids an allocation for each line.
func (w *logStream) record(to []byte, now time.Time, tag string) []byte {
	to = now.UTC().AppendFormat(to, logTime)
	to = append(to, ' ')
	to = append(to, w.name...)
	to = append(to, ' ')
	to = append(to, tag...)
	to = append(to, ' ')
	to = append(to, w.rest...)
	w.rest = w.rest[:0]
	return append(to, '\n')
}

// flush stores a last line that has no newline, as a partial record; the file's
// lock is held.
func (w *logStream) flush() {
	if len(w.rest) > 0 {
		w.file.append(w.record(nil, time.Now(), tagPartial))
	}
}
