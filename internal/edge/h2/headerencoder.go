package h2

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

const (
	// keptBlock bounds the memory for encoded headers between responses.
	keptBlock = 4 << 10
	// maxCachedValue is the longest value that is cached to be sent again.
	maxCachedValue = 256
)

// headerEncoder encodes the headers of responses with HPACK. The encoder takes
// strings, and the responses of one connection tend to have the same headers,
// so it caches the strings by their place in the response instead of allocating
// them again, and what they were encoded to. The session's mu guards it.
type headerEncoder struct {
	hpack *hpack.Encoder
	buf   bytes.Buffer
	// table counts the changes of the dynamic table.
	table uint64
	// sent are the headers that were sent last, by their place; the last two are
	// for content-length and :status.
	sent [17]headerField
}

// The places in sent that are not those of fields.
const (
	sentFields = 15
	sentLength = sentFields
	sentStatus = sentFields + 1
)

// headerField is a header that was sent. Its code is the reference to an entry of
// the tables; it is valid while the dynamic table stays the same.
type headerField struct {
	name, value string
	code        [4]byte
	size        uint8 // of code; 0 for none
	table       uint64
}

func (e *headerEncoder) init() { e.hpack = hpack.NewEncoder(&e.buf) }

// setTableSize sets the limit of the client for the dynamic table.
func (e *headerEncoder) setTableSize(size uint32) {
	e.hpack.SetMaxDynamicTableSize(size)
	e.table++
}

// reset forgets the encoded headers after they were sent.
func (e *headerEncoder) reset() {
	if e.buf.Reset(); e.buf.Cap() > keptBlock {
		e.buf = bytes.Buffer{}
	}
}

func (e *headerEncoder) status(status int) {
	text := "200"
	if status != 200 {
		text = strconv.Itoa(status)
	}
	e.encodeCached(sentStatus, ":status", text)
}

// contentLength encodes the length of a body. Responses tend to have the same
// one again.
func (e *headerEncoder) contentLength(length int64) {
	var space [20]byte
	text := strconv.AppendInt(space[:0], length, 10)
	value := e.sent[sentLength].value
	if value != string(text) {
		value = string(text)
	}
	e.encodeCached(sentLength, "content-length", value)
}

// field encodes field i of a head or of trailers.
func (e *headerEncoder) field(fields *h1.Fields, i int) {
	e.line(i, fields.ID(i), normalize.View(fields.Name(i)), normalize.View(fields.Value(i)))
}

// line encodes line number i of a head or of trailers. The strings may share bytes
// with a buffer, so they are copied before they are cached.
func (e *headerEncoder) line(i int, id normalize.Field, sentName, sentValue string) {
	place := i % sentFields
	cached := &e.sent[place]
	name := id.String()
	if name == "" {
		if name = cached.name; !strings.EqualFold(name, sentName) {
			name = strings.ToLower(strings.Clone(sentName))
		}
	}
	value := cached.value
	if value != sentValue {
		value = strings.Clone(sentValue)
	}
	if secret := id == normalize.FieldSetCookie; secret || len(value) > maxCachedValue {
		e.encode(name, value, secret)
		return
	}
	e.encodeCached(place, name, value)
}

// The first bits of an encoded header (RFC 7541 section 6): a reference to a table
// entry, and what changes the dynamic table, a new entry or another size.
const (
	codeReference   = 0x80
	codeTableChange = 0x60
)

// encodeCached encodes a header that is likely to come again at its place. The
// second time it is a reference, which is found without a search of the tables.
func (e *headerEncoder) encodeCached(place int, name, value string) {
	cached := &e.sent[place]
	if cached.name != name || cached.value != value {
		*cached = headerField{name: name, value: value}
	}
	if cached.size > 0 && cached.table == e.table {
		e.buf.Write(cached.code[:cached.size])
		return
	}
	code := e.encode(name, value, false)
	cached.size, cached.table = 0, e.table
	if code[0]&codeReference != 0 && len(code) <= len(cached.code) {
		cached.size = uint8(copy(cached.code[:], code))
	}
}

// encode cannot fail: it writes to memory. Secrets are not entered in the
// dynamic table, so that their length cannot be probed (RFC 7541 section
// 7.1.3). The result is valid until the next header.
func (e *headerEncoder) encode(name, value string, secret bool) []byte {
	at := e.buf.Len()
	_ = e.hpack.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: secret})
	code := e.buf.Bytes()[at:]
	if code[0]&codeReference == 0 && code[0]&codeTableChange != 0 {
		e.table++
	}
	return code
}
