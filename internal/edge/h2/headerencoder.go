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
// them again. The session's mu guards it.
type headerEncoder struct {
	hpack *hpack.Encoder
	buf   bytes.Buffer
	// sent are the headers that were sent last, by their place; the last one is
	// for content-length.
	sent [16]headerField
}

// headerField is a header that was sent.
type headerField struct{ name, value string }

func (e *headerEncoder) init() { e.hpack = hpack.NewEncoder(&e.buf) }

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
	e.encode(":status", text, false)
}

// contentLength encodes the length of a body. Responses tend to have the same
// one again.
func (e *headerEncoder) contentLength(length int64) {
	var space [20]byte
	text := strconv.AppendInt(space[:0], length, 10)
	cached := &e.sent[len(e.sent)-1]
	if cached.value != string(text) {
		cached.value = string(text)
	}
	e.encode("content-length", cached.value, false)
}

// field encodes field i of a head or of trailers.
func (e *headerEncoder) field(fields *h1.Fields, i int) {
	id, cached := fields.ID(i), &e.sent[i%(len(e.sent)-1)]
	name := id.String()
	if name == "" {
		if name = cached.name; !strings.EqualFold(name, normalize.View(fields.Name(i))) {
			name = strings.ToLower(string(fields.Name(i)))
		}
	}
	value := cached.value
	if value != normalize.View(fields.Value(i)) {
		value = string(fields.Value(i))
	}
	secret := id == normalize.FieldSetCookie
	if !secret && len(value) <= maxCachedValue {
		*cached = headerField{name, value}
	}
	e.encode(name, value, secret)
}

// encode cannot fail: it writes to memory. Secrets are not entered in the
// dynamic table, so that their length cannot be probed (RFC 7541 section
// 7.1.3).
func (e *headerEncoder) encode(name, value string, secret bool) {
	_ = e.hpack.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: secret})
}
