package report

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// spool is a state on disk. Changes count only when they are synced. One
// goroutine uses it.
//
// The folder has one segment. While a new one replaces it there are two, and
// the newer one with a complete snapshot counts. When the disk fails, the spool
// continues in memory, in a new stream: a process that reads the old file later
// must not give numbers a second meaning.
type spool struct {
	*state
	folder string
	log    *slog.Logger
	failed func()

	file    *os.File
	number  int   // of the segment
	size    int64 // of the segment
	started int64 // its size after the snapshot
	buffer  []byte
	// broken is set after the disk failed. Each resync tries it again.
	broken bool
}

const (
	segmentPattern = "spool-*.log"
	segmentName    = "spool-%08d.log"
	// segmentGrowth is how much a segment may grow beyond its snapshot before
	// it is rotated.
	segmentGrowth = 1 << 20
)

// openSpool reads the newest segment and starts a new one. A torn record at the
// end is normal after a crash; any other damage has a resync follow.
func openSpool(folder string, log *slog.Logger, failed func()) (*spool, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for reports: %w: name another", err)
	}
	names, err := filepath.Glob(filepath.Join(folder, segmentPattern))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	s := &spool{state: newState(), folder: folder, log: log, failed: failed}
	for _, name := range slices.Backward(names) {
		var number int
		if _, err := fmt.Sscanf(filepath.Base(name), segmentName, &number); err != nil {
			continue
		}
		s.number = max(s.number, number)
		found, err := readSegment(name)
		if found == nil {
			log.Warn("spool segment has no snapshot", observe.KeyFile, name, observe.KeyError, err)
			continue // it was being made
		}
		s.state = found
		if err != nil && !errors.Is(err, errTorn) {
			log.Warn("spool is damaged; a resync follows", observe.KeyFile, name, observe.KeyError, err)
			s.drop()
		}
		break
	}
	if s.resyncing {
		s.drop() // its events are not on disk
	}
	s.rotate()
	return s, nil
}

// readSegment reads a state; nil if the snapshot cannot be read. Records after
// the first damage are ignored.
func readSegment(name string) (*state, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return readSteps(bufio.NewReaderSize(file, 64<<10))
}

// readSteps reads a snapshot and applies the records after it.
func readSteps(from io.Reader) (*state, error) {
	kind, body, _, err := readRecord(from)
	if err != nil {
		return nil, err
	}
	if kind != recordSnapshot {
		return nil, errors.New("it does not begin with a snapshot")
	}
	s, err := decodeState(body)
	if err != nil {
		return nil, err
	}
	for {
		kind, body, _, err := readRecord(from)
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		if err := s.step(kind, body); err != nil {
			return s, err
		}
	}
}

// add buffers a record of a change that was made in memory.
func (s *spool) add(kind recordKind, body []byte) {
	if !s.broken {
		s.buffer = appendRecord(s.buffer, kind, body)
	}
}

// addPut adds an event.
func (s *spool) addPut(event *platformv1.ReportEvent) {
	body, err := proto.Marshal(event)
	if err != nil {
		s.log.Error("cannot encode report of Application", observe.KeyError, err)
		return
	}
	s.put(event)
	s.add(recordPut, body)
}

// addTake numbers waiting events.
func (s *spool) addTake(count int) {
	s.take(count)
	s.add(recordTake, binary.AppendUvarint(nil, uint64(count)))
}

// addStored records a confirmation of the platform.
func (s *spool) addStored() {
	s.inFlight = nil
	s.add(recordStored, nil)
}

// addBegin starts a new stream. A disk that failed is tried again; without it
// the stream is in memory, which is as good until the process ends.
func (s *spool) addBegin(stream string) {
	s.begin(stream)
	s.reopen()
	s.add(recordBegin, []byte(stream))
}

// reopen tries a disk that failed. A segment starts with the whole state, so
// that it can start at any time.
func (s *spool) reopen() {
	if s.broken && s.newSegment() == nil {
		s.log.Info("spool is writable again", "folder", s.folder)
		s.broken = false
	}
}

// addEnd records the end of a resync.
func (s *spool) addEnd(next int64) {
	s.end(next)
	s.add(recordEnd, binary.AppendVarint(nil, next))
}

// addLost drops waiting events.
func (s *spool) addLost() {
	s.drop()
	s.add(recordLost, nil)
}

// sync makes the buffered records durable. After a failure the stream ends:
// neither the state nor the file can be relied on. It rotates when the changes
// are larger than the snapshot and the growth limit together, so that the cost
// of snapshots stays proportional to that of changes.
func (s *spool) sync() {
	if s.broken || len(s.buffer) == 0 {
		return
	}
	written, err := s.file.Write(s.buffer)
	s.size += int64(written)
	s.buffer = s.buffer[:0]
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		s.fail(err)
		return
	}
	if s.size-s.started > segmentGrowth+s.started {
		s.rotate()
	}
}

// fail handles a disk that failed.
func (s *spool) fail(err error) {
	s.log.Error("cannot write spool; reporting from memory after a resync", "folder", s.folder, observe.KeyError, err)
	s.failed()
	s.broken, s.buffer = true, nil
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name()) // also a full disk permits that
		s.file = nil
	}
	s.drop()
}

// rotate starts a segment with the current state, including records that are
// not synced.
func (s *spool) rotate() {
	if s.broken {
		return
	}
	s.buffer = s.buffer[:0]
	if err := s.newSegment(); err != nil {
		s.fail(err)
	}
}

// newSegment writes a new segment and makes it durable before the old one is
// removed.
func (s *spool) newSegment() error {
	body, err := s.encode()
	if err != nil {
		return err
	}
	record := appendRecord(nil, recordSnapshot, body)
	s.number++
	name := filepath.Join(s.folder, fmt.Sprintf(segmentName, s.number))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(record)
	if err == nil {
		err = errors.Join(file.Sync(), syncFolder(s.folder))
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(name)
		return err
	}
	s.close()
	s.file, s.size, s.started = file, int64(len(record)), int64(len(record))
	return s.removeOthers(name)
}

// removeOthers removes all segments but the current one.
func (s *spool) removeOthers(present string) error {
	names, err := filepath.Glob(filepath.Join(s.folder, segmentPattern))
	for _, name := range names {
		if name != present {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

// syncFolder makes the creation or removal of a file durable.
func syncFolder(folder string) error {
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

// close closes the segment. What is buffered is lost, as after a crash.
func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}
