package listener

import (
	"bytes"
	"encoding/binary"
	"errors"
)

const (
	tlsHandshake     = 0x16
	tlsRecordHeader  = 5
	tlsMaxRecord     = 16 << 10
	tlsMessageHeader = 4
	tlsClientHello   = 1
	tlsServerName    = 0
)

// The errors of a ClientHello. A connection with one of them may be given to a
// TLS server, which refuses it with an alert, but never to a backend.
var (
	ErrHelloMalformed = errors.New("the ClientHello is malformed")
	ErrHelloTooLarge  = errors.New("the ClientHello is larger than 16 KiB")
)

// helloScanner finds the end of a ClientHello in a stream of records. It keeps
// its position, so that a client which sends one byte at a time, in records of
// one byte, costs no more than any other.
type helloScanner struct {
	next    int // start of the next record
	got     int // bytes of the message in the records before next
	want    int // bytes of the whole message; 0 until its header is there
	header  [tlsMessageHeader]byte
	records int
}

// scan continues in b, which has grown at its end since the last call. It
// returns errMore until the message is complete.
func (s *helloScanner) scan(b []byte) error {
	for s.want == 0 || s.got < s.want {
		if len(b) < s.next+tlsRecordHeader {
			return errMore
		}
		record := b[s.next:]
		size := int(binary.BigEndian.Uint16(record[3:]))
		// The version has no meaning yet, but is checked as in crypto/tls.
		if record[0] != tlsHandshake || record[1] >= 0x10 || size == 0 || size > tlsMaxRecord {
			return ErrHelloMalformed
		}
		end := s.next + tlsRecordHeader + size
		if end > maxLookahead {
			return ErrHelloTooLarge
		}
		if len(b) < end {
			return errMore
		}
		if err := s.take(b[s.next+tlsRecordHeader : end]); err != nil {
			return err
		}
		s.next = end
	}
	return nil
}

// take adds the content of a record to the message.
func (s *helloScanner) take(content []byte) error {
	if s.got < tlsMessageHeader {
		copy(s.header[s.got:], content)
	}
	s.got += len(content)
	s.records++
	if s.header[0] != tlsClientHello {
		return ErrHelloMalformed
	}
	if s.want == 0 && s.got >= tlsMessageHeader {
		s.want = tlsMessageHeader + int(s.header[1])<<16 + int(s.header[2])<<8 + int(s.header[3])
		if s.want > maxLookahead {
			return ErrHelloTooLarge
		}
	}
	return nil
}

// message returns the complete message. It is a part of b when it came in one
// record, which it nearly always does.
func (s *helloScanner) message(b []byte) []byte {
	if s.records == 1 {
		return b[tlsRecordHeader : tlsRecordHeader+s.want]
	}
	joined := make([]byte, 0, s.got)
	for at := 0; at < s.next; {
		size := int(binary.BigEndian.Uint16(b[at+3:]))
		joined = append(joined, b[at+tlsRecordHeader:at+tlsRecordHeader+size]...)
		at += tlsRecordHeader + size
	}
	return joined[:s.want]
}

// helloReader reads values from the start of a message.
type helloReader []byte

// take returns the next n bytes.
func (r *helloReader) take(n int) (helloReader, bool) {
	if n > len(*r) {
		return nil, false
	}
	taken := (*r)[:n]
	*r = (*r)[n:]
	return taken, true
}

// list8 and list16 read a list whose length comes first, in one or two bytes.
func (r *helloReader) list8() (helloReader, bool) {
	size, ok := r.take(1)
	if !ok {
		return nil, false
	}
	return r.take(int(size[0]))
}

func (r *helloReader) list16() (helloReader, bool) {
	size, ok := r.take(2)
	if !ok {
		return nil, false
	}
	return r.take(int(binary.BigEndian.Uint16(size)))
}

// helloServerName reads the server name of a ClientHello, empty when there is
// none. For every message that crypto/tls accepts it reads the same name, which
// a fuzz test checks. Otherwise a client could be routed by one name and
// authenticated by another.
func helloServerName(message []byte) (string, error) {
	r := helloReader(message)
	_, ok := r.take(tlsMessageHeader + 2 + 32) // version, random
	if ok {
		_, ok = r.list8() // session
	}
	if ok {
		var suites helloReader
		suites, ok = r.list16()
		ok = ok && len(suites)%2 == 0
	}
	if ok {
		_, ok = r.list8() // compression
	}
	if !ok {
		return "", ErrHelloMalformed
	}
	if len(r) == 0 {
		return "", nil
	}
	extensions, ok := r.list16()
	if !ok || len(r) != 0 {
		return "", ErrHelloMalformed
	}
	return extensionServerName(extensions)
}

func extensionServerName(extensions helloReader) (string, error) {
	name, seen := "", false
	for len(extensions) > 0 {
		kind, ok := extensions.take(2)
		if !ok {
			return "", ErrHelloMalformed
		}
		data, ok := extensions.list16()
		if !ok {
			return "", ErrHelloMalformed
		}
		if binary.BigEndian.Uint16(kind) != tlsServerName {
			continue
		}
		// With two of them, two parsers could choose different ones.
		if name, ok = readServerName(data); !ok || seen {
			return "", ErrHelloMalformed
		}
		seen = true
	}
	return name, nil
}

// readServerName reads the server_name extension (RFC 6066 section 3).
func readServerName(data helloReader) (string, bool) {
	list, ok := data.list16()
	if !ok || len(list) == 0 || len(data) != 0 {
		return "", false
	}
	var name helloReader
	for len(list) > 0 {
		kind, ok := list.take(1)
		if !ok {
			return "", false
		}
		value, ok := list.list16()
		if !ok || len(value) == 0 {
			return "", false
		}
		if kind[0] != 0 {
			continue
		}
		if name != nil || bytes.HasSuffix(value, []byte(".")) {
			return "", false
		}
		name = value
	}
	return string(name), true
}
