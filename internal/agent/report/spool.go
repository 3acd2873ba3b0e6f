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

// spool is a state on disk. A step counts when it is synced, and then only. One
// goroutine uses it.
//
// A folder has one segment; while a new one takes its place there are two, and
// the newer one with a whole snapshot counts. When the disk fails, the spool goes
// on without it, in a new stream: whoever reads the old file later must not give
// numbers a second meaning.
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
	// broken is a disk that failed. It is tried again with each resync.
	broken bool
}

const (
	segmentPattern = "spool-*.log"
	segmentName    = "spool-%08d.log"
	// roomBytes is how much a segment may grow beyond its snapshot.
	roomBytes = 1 << 20
)

// openSpool reads the newest segment and begins one of its own.
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
			log.Warn("a file of the spool has no beginning", observe.KeyFile, name, observe.KeyError, err)
			continue // it was being made
		}
		s.state = found
		if err != nil && !errors.Is(err, errTorn) {
			log.Warn("the spool is damaged: everything is told anew", observe.KeyFile, name, observe.KeyError, err)
			s.lose()
		}
		break
	}
	if s.resyncing {
		s.lose() // its events are not on disk
	}
	s.rotate()
	return s, nil
}

// readSegment reads a state. It is nil when the snapshot cannot be read. What
// follows the first damage is not read.
func readSegment(name string) (*state, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return readSteps(bufio.NewReaderSize(file, 64<<10))
}

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

// add prepares a step, which was taken in memory.
func (s *spool) add(kind recordKind, body []byte) {
	if !s.broken {
		s.buffer = appendRecord(s.buffer, kind, body)
	}
}

// addPut takes an event.
func (s *spool) addPut(event *platformv1.ReportEvent) {
	body, err := proto.Marshal(event)
	if err != nil {
		s.log.Error("an Application cannot be told", observe.KeyError, err)
		return
	}
	s.put(event)
	s.add(recordPut, body)
}

// addTake numbers events.
func (s *spool) addTake(count int) {
	s.take(count)
	s.add(recordTake, binary.AppendUvarint(nil, uint64(count)))
}

// addStored is an answer of the platform.
func (s *spool) addStored() {
	s.flying = nil
	s.add(recordStored, nil)
}

// addBegin is a new stream. A disk that has failed gets another chance; without it
// the stream is in memory, which is as good until the process ends.
func (s *spool) addBegin(stream string) {
	s.begin(stream)
	s.mend()
	s.add(recordBegin, []byte(stream))
}

// mend tries a disk that has failed. A segment begins with the whole state, so
// that it may begin at any time.
func (s *spool) mend() {
	if s.broken && s.newSegment() == nil {
		s.log.Info("the spool can be written again", "folder", s.folder)
		s.broken = false
	}
}

// addEnd is the end of a resync.
func (s *spool) addEnd(next int64) {
	s.end(next)
	s.add(recordEnd, binary.AppendVarint(nil, next))
}

// addLost drops what waits.
func (s *spool) addLost() {
	s.lose()
	s.add(recordLost, nil)
}

// sync makes the steps durable. After a failure the stream has ended: the state
// is lost, and the file too.
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
		s.breakDown(err)
		return
	}
	if s.size-s.started > roomBytes+s.started {
		s.rotate()
	}
}

// breakDown is a disk that failed.
func (s *spool) breakDown(err error) {
	s.log.Error("the spool cannot be written: reports go on without it, and everything is told anew", "folder", s.folder, observe.KeyError, err)
	s.failed()
	s.broken, s.buffer = true, nil
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name()) // also a full disk permits that
		s.file = nil
	}
	s.lose()
}

// rotate begins a segment with the state as it is. Steps that were not synced are
// part of it.
func (s *spool) rotate() {
	if s.broken {
		return
	}
	s.buffer = s.buffer[:0]
	if err := s.newSegment(); err != nil {
		s.breakDown(err)
	}
}

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

// removeOthers removes the segments before the present one.
func (s *spool) removeOthers(present string) error {
	names, err := filepath.Glob(filepath.Join(s.folder, segmentPattern))
	for _, name := range names {
		if name != present {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

func syncFolder(folder string) error {
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}
