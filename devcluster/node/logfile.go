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
	// logFileLimit is the size at which a log file is rotated. The file and the one before it are kept.
	logFileLimit = 10 << 20
	// logLineLimit is where a line is cut into records, as container runtimes do; a reader joins them again.
	logLineLimit = 16 << 10
	// logTime has a fixed width, as in the logs of container runtimes.
	logTime = "2006-01-02T15:04:05.000000000Z07:00"

	tagFull    = "F"
	tagPartial = "P"
)

// logStore is the logs of one container: a file for each of its runs, of which the last two are kept.
type logStore struct {
	dir   string
	limit int64

	mu     sync.Mutex
	active *logFile // the run that is being written, or the last that was
	run    int32
}

func newLogStore(dir string) *logStore { return &logStore{dir: dir, limit: logFileLimit} }

func (s *logStore) path(run int32) string {
	return filepath.Join(s.dir, strconv.Itoa(int(run))+".log")
}

// create begins the log of a run.
func (s *logStore) create(run int32) (*logFile, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the log directory: %w", err)
	}
	s.prune(run)
	// From the moment the file exists it is the active one: find must not take it for one that nobody writes to.
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &logFile{path: s.path(run), limit: s.limit}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("make the log file: %w", err)
	}
	s.active, s.run = f, run
	return f, nil
}

// prune removes the logs of all runs but the one before the given one.
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

// find returns the log of a run: the one that is being written, or one that is only on disk.
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

// logFile is the log of one run of a container. Lines are stored as container runtimes store them:
// "<time> <stream> <F or P> <text>", P for a part of a line that continues. Writing never fails for the process: when
// the disk is full its output is lost and the process goes on.
type logFile struct {
	path  string
	limit int64

	mu      sync.Mutex
	file    *os.File
	size    int64
	turns   int // how often the file was rotated
	ended   bool
	writers []*logStream
	// changed is closed at the next write; nil while nobody waits.
	changed chan struct{}
}

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

// rotated is where the part before the current one is.
func (f *logFile) rotated() string { return f.path + ".1" }

// append stores whole records; f.mu is held.
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

func (f *logFile) rotate() {
	if err := os.Rename(f.path, f.rotated()); err != nil {
		return
	}
	f.file.Close()
	f.file = nil
	f.turns++
	// When opening fails the rest of the log is lost, and the next run begins its own.
	_ = f.open()
}

func (f *logFile) announce() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// end closes the log; readers that follow it stop when they have read it all.
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

// logState is a logFile at one moment. Whatever was written before it was taken can be read after.
type logState struct {
	turns   int
	ended   bool
	changed <-chan struct{}
}

// state tells readers where the log stands and what to wait for.
func (f *logFile) state() logState {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return logState{turns: f.turns, ended: f.ended, changed: f.changed}
}

// parts opens what there is to read, oldest first, at one moment of the log.
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

// stream is the writer for one of the process's outputs.
func (f *logFile) stream(name string) *logStream {
	w := &logStream{file: f, name: name}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writers = append(f.writers, w)
	return w
}

// logStream cuts an output into records.
type logStream struct {
	file *logFile
	name string
	rest []byte // the line that has not ended yet
}

// Write implements io.Writer. It never fails: see logFile.
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

// flush stores a last line without an end; the file's mu is held.
func (w *logStream) flush() {
	if len(w.rest) > 0 {
		w.file.append(w.record(nil, time.Now(), tagPartial))
	}
}
