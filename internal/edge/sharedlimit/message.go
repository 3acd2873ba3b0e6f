package sharedlimit

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// Period is the lending period: how often replicas exchange.
const Period = 100 * time.Millisecond

const (
	// MaxEntries bounds the entries of a message. A replica that uses more keys in a
	// period sends the rest in the next ones.
	MaxEntries = 4096
	// maxEntry is the longest entry: two numbers of 8 bytes and three of at most 10.
	maxEntry = 2*8 + 3*binary.MaxVarintLen64
	// maxMessage bounds what is read of a message.
	maxMessage = headerSize + MaxEntries*maxEntry
	headerSize = 1 + 8
	// version is the first byte of a message. A replica of another version is not
	// understood and counts as away.
	version = 1
)

// Entry is what a replica did with one key of one limit since its last message.
type Entry struct {
	// Limit is the hash of the declaration, Key that of the request's key.
	Limit, Key uint64
	// Spent is the time that the limit takes to refill what was spent. It is a time
	// and not a number, so that the receiver needs no declaration. For a limit in
	// flight it is the number of requests that run.
	Spent time.Duration
	// Requests counts the requests, those that were refused included.
	Requests int64
	// Debt is the time until the bucket is full again in the view of the sender, from
	// two lending periods ago: a bucket in use by others is that much fuller than full
	// until their spending is known.
	Debt time.Duration
}

// message is what one replica sends to another.
type message struct {
	sender  uint64
	entries []Entry
}

// appendTo appends the encoded message to a buffer.
func (m *message) appendTo(buffer []byte) []byte {
	buffer = append(buffer, version)
	buffer = binary.BigEndian.AppendUint64(buffer, m.sender)
	for i := range m.entries {
		e := &m.entries[i]
		buffer = binary.BigEndian.AppendUint64(buffer, e.Limit)
		buffer = binary.BigEndian.AppendUint64(buffer, e.Key)
		buffer = binary.AppendUvarint(buffer, uint64(max(0, e.Spent)))
		buffer = binary.AppendUvarint(buffer, uint64(max(0, e.Requests)))
		buffer = binary.AppendUvarint(buffer, uint64(max(0, e.Debt)))
	}
	return buffer
}

var errMessage = errors.New("not a message of limits")

// decode parses a message.
func decode(text []byte) (message, error) {
	if len(text) < headerSize || text[0] != version {
		return message{}, errMessage
	}
	m := message{sender: binary.BigEndian.Uint64(text[1:])}
	text = text[headerSize:]
	for len(text) > 0 {
		if len(text) < 16 || len(m.entries) == MaxEntries {
			return message{}, errMessage
		}
		entry := Entry{Limit: binary.BigEndian.Uint64(text), Key: binary.BigEndian.Uint64(text[8:])}
		text = text[16:]
		var numbers [3]int64
		for i := range numbers {
			number, size := binary.Uvarint(text)
			if size <= 0 || number > math.MaxInt64/8 {
				return message{}, errMessage
			}
			numbers[i], text = int64(number), text[size:]
		}
		entry.Spent, entry.Requests, entry.Debt = time.Duration(numbers[0]), numbers[1], time.Duration(numbers[2])
		m.entries = append(m.entries, entry)
	}
	return m, nil
}
