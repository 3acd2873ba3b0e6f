package report

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/proto"
)

// Hasten makes a reporter wait for little, and send small batches.
func Hasten(o *Options, probe time.Duration) {
	o.batchEvents, o.firstPause, o.longestPause, o.probe = 3, time.Millisecond, 20*time.Millisecond, probe
}

// LargeBatches is for tests of many Applications.
func LargeBatches(o *Options) { o.batchEvents = defaultBatchEvents }

// Clean is what stays of a text.
func Clean(text string) string { return redact(text) }

// ReadSegment reads a segment, and returns how many events wait in it.
func ReadSegment(content []byte) (waiting int, err error) {
	found, err := readSteps(bytes.NewReader(content))
	if found == nil {
		return 0, err
	}
	// A state that was read can be written.
	if _, failed := found.encode(); failed != nil {
		panic(failed)
	}
	return found.waiting.len(), err
}

// Segment is a file with each kind of record.
func Segment() []byte {
	s := newState()
	body, err := s.encode()
	if err != nil {
		panic(err)
	}
	content := appendRecord(nil, recordSnapshot, body)
	content = appendRecord(content, recordBegin, []byte("stream"))
	content = appendRecord(content, recordEnd, []byte{4})
	event, err := proto.Marshal(deletion("argocd", "shop", "u1"))
	if err != nil {
		panic(err)
	}
	content = appendRecord(content, recordPut, event)
	content = appendRecord(content, recordTake, []byte{1})
	content = appendRecord(content, recordStored, nil)
	content = appendRecord(content, recordPut, event)
	return content
}
