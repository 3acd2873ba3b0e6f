package report

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// recordKind is the type of a record. A segment is a file of records, each with
// a header of length, checksum and kind, and a body. The first record is a
// snapshot, and the following ones are changes of it.
type recordKind byte

const (
	// recordSnapshot is the whole state, and only the first record of a
	// segment. Kinds are stored on disk and must keep their numbers.
	recordSnapshot recordKind = iota + 1
	// recordPut is a new event.
	recordPut
	// recordTake numbers the first waiting events, which are in flight then.
	recordTake
	// recordStored confirms that the platform has the events in flight.
	recordStored
	// recordBegin is a resync that begins a stream, and recordEnd its end.
	recordBegin
	recordEnd
	// recordLost means that waiting events were dropped and a resync is needed.
	recordLost
)

const (
	// headerBytes are four of length, four of checksum and one of kind.
	headerBytes = 9
	// recordLimit bounds a record: a snapshot has all waiting events.
	recordLimit = 1 << 30
)

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn is an incomplete record at the end of a file, left by a process that
// was killed. errBroken is a record with a wrong checksum.
var (
	errTorn   = errors.New("the last record is not complete")
	errBroken = errors.New("a record does not have its checksum")
)

// appendRecord adds a record to a buffer.
func appendRecord(buffer []byte, kind recordKind, body []byte) []byte {
	sum := crc32.Update(crc32.Checksum([]byte{byte(kind)}, castagnoli), castagnoli, body)
	buffer = binary.BigEndian.AppendUint32(buffer, uint32(len(body)))
	buffer = binary.BigEndian.AppendUint32(buffer, sum)
	buffer = append(buffer, byte(kind))
	return append(buffer, body...)
}

// readRecord reads a record and returns its size. The end of the file is
// io.EOF.
func readRecord(from io.Reader) (kind recordKind, body []byte, size int64, err error) {
	var header [headerBytes]byte
	switch _, err := io.ReadFull(from, header[:]); {
	case errors.Is(err, io.EOF):
		return 0, nil, 0, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return 0, nil, 0, errTorn
	case err != nil:
		return 0, nil, 0, err
	}
	length := binary.BigEndian.Uint32(header[:4])
	if length > recordLimit {
		return 0, nil, 0, errBroken
	}
	// A length that lies must not cost memory: the body is read as it comes.
	var content bytes.Buffer
	if n, err := io.CopyN(&content, from, int64(length)); err != nil {
		if errors.Is(err, io.EOF) && n < int64(length) {
			return 0, nil, 0, errTorn
		}
		return 0, nil, 0, err
	}
	kind, body = recordKind(header[8]), content.Bytes()
	sum := crc32.Update(crc32.Checksum(header[8:9], castagnoli), castagnoli, body)
	if sum != binary.BigEndian.Uint32(header[4:8]) {
		return 0, nil, 0, errBroken
	}
	return kind, body, headerBytes + int64(length), nil
}

// snapshot is a state as JSON.
type snapshot struct {
	Stream    string            `json:"stream"`
	Next      int64             `json:"next"`
	Resyncing bool              `json:"resyncing,omitempty"`
	Lost      bool              `json:"lost,omitempty"`
	Flying    [][]byte          `json:"flying,omitempty"`
	Waiting   [][]byte          `json:"waiting,omitempty"`
	Known     map[string]string `json:"known,omitempty"`
}

// encode returns the state as a snapshot. Events are encoded as protobuf inside
// of the JSON, so that fields of a newer version survive.
func (s *state) encode() ([]byte, error) {
	image := snapshot{Stream: s.stream, Next: s.next, Resyncing: s.resyncing, Lost: s.lost, Known: map[string]string{}}
	for _, list := range []struct {
		from []*platformv1.ReportEvent
		to   *[][]byte
	}{{s.inFlight, &image.Flying}, {s.waiting.events(), &image.Waiting}} {
		for _, event := range list.from {
			body, err := proto.Marshal(event)
			if err != nil {
				return nil, err
			}
			*list.to = append(*list.to, body)
		}
	}
	for ref, print := range s.reported {
		image.Known[ref.Namespace+"/"+ref.Name] = print.UID + " " + print.hash
	}
	return json.Marshal(image)
}

// decodeState reads a snapshot. Any error discards the snapshot as a whole,
// because a part of it would not match the platform.
func decodeState(body []byte) (*state, error) {
	var image snapshot
	if err := json.Unmarshal(body, &image); err != nil {
		return nil, err
	}
	s := newState()
	s.stream, s.next, s.resyncing, s.lost = image.Stream, image.Next, image.Resyncing, image.Lost
	for _, each := range image.Flying {
		event, err := decodeEvent(each)
		if err != nil {
			return nil, err
		}
		s.inFlight = append(s.inFlight, event)
	}
	for _, each := range image.Waiting {
		event, err := decodeEvent(each)
		if err != nil {
			return nil, err
		}
		s.waiting.put(event)
	}
	for where, print := range image.Known {
		if err := s.restoreReported(where, print); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// decodeEvent reads one event.
func decodeEvent(body []byte) (*platformv1.ReportEvent, error) {
	event := &platformv1.ReportEvent{}
	if err := proto.Unmarshal(body, event); err != nil {
		return nil, err
	}
	if subject(event) == nil {
		return nil, fmt.Errorf("an event of the spool is about no Application")
	}
	return event, nil
}

// step applies a record to a state. It refuses records that contradict the
// state, because they mean damage that the checksums did not find.
func (s *state) step(kind recordKind, body []byte) error {
	switch kind {
	case recordPut:
		event, err := decodeEvent(body)
		if err != nil {
			return err
		}
		s.put(event)
	case recordTake:
		count, rest := binary.Uvarint(body)
		if rest <= 0 || count > uint64(s.waiting.len()) {
			return errors.New("more events are taken than wait")
		}
		s.take(int(count))
	case recordStored:
		s.inFlight = nil
	case recordBegin:
		s.begin(string(body))
	case recordEnd:
		next, rest := binary.Varint(body)
		if rest <= 0 || next < s.next {
			return errors.New("the end of a resync has no number")
		}
		s.end(next)
	case recordLost:
		s.drop()
	case recordSnapshot:
		return errors.New("a snapshot is within a segment")
	default:
		return fmt.Errorf("a record is of the kind %d, which this version does not know", kind)
	}
	return nil
}
