package h2

import (
	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/h1"
)

const (
	// tableSize is the size of the HPACK dynamic table: the default, which
	// needs no setting.
	tableSize = 4096
	// decodeStep is how many bytes of a block are decoded before its size is
	// checked: a few bytes can decode to a lot.
	decodeStep = 2 << 10
	// keptFields is how many headers there is memory for between requests.
	keptFields = 64
)

// headerBlock decodes blocks of headers, one after the other. A block has to be
// decoded to its end even when it is ignored, because the decoding of the next
// one depends on it. It belongs to the reader of the connection.
type headerBlock struct {
	decoder *hpack.Decoder
	limit   int // of the size of the headers that are kept
	maxSize int // of the size altogether; beyond it the block is an attack

	fields    []hpack.HeaderField
	pseudo    int  // how many of fields are pseudo-headers
	size      int  // decoded, as RFC 9113 section 6.5.2 counts it
	truncated bool // the size exceeded limit, and the rest was left out
	malformed bool // RFC 9113 section 8.2 forbids one of the headers
}

func (b *headerBlock) init(cfg *Config) {
	b.limit, b.maxSize = cfg.HeaderBytes+usualOverhead, cfg.Guard.BlockBytes
	b.decoder = hpack.NewDecoder(tableSize, b.addField)
	b.decoder.SetMaxStringLength(cfg.Guard.BlockBytes)
}

// usualOverhead is the size that RFC 9113 adds for the headers of a usual
// request, beyond their bytes.
const usualOverhead = 10 * 32

// begin starts a block and forgets the one before. The headers of a block that
// is not wanted are decoded and dropped.
func (b *headerBlock) begin(wanted bool) {
	clear(b.fields)
	b.fields = b.fields[:0]
	if cap(b.fields) > keptFields {
		b.fields = nil
	}
	b.pseudo, b.size, b.truncated, b.malformed = 0, 0, false, false
	b.decoder.SetEmitEnabled(wanted)
}

// decode decodes a fragment of the block. It reports whether the block is
// larger than maxSize. After an error no later block can be decoded either.
func (b *headerBlock) decode(part []byte) (tooLarge bool, err error) {
	for len(part) > 0 {
		piece := part[:min(len(part), decodeStep)]
		part = part[len(piece):]
		if _, err := b.decoder.Write(piece); err != nil {
			return false, err
		}
		if b.size > b.maxSize {
			return true, nil
		}
	}
	return false, nil
}

// end checks that the block is complete.
func (b *headerBlock) end() error { return b.decoder.Close() }

// addField is called by the decoder for each header. Pseudo-headers have to
// come before all others (RFC 9113 section 8.3).
func (b *headerBlock) addField(f hpack.HeaderField) {
	b.size += len(f.Name) + len(f.Value) + 32
	switch {
	case b.malformed || b.truncated:
		return
	case b.size > b.limit:
		b.truncated = true
		return
	case !h1.CleanValue(f.Value) || surrounded(f.Value):
		b.malformed = true
		return
	case f.IsPseudo():
		if b.pseudo < len(b.fields) {
			b.malformed = true
			return
		}
		b.pseudo++
	case !validName(f.Name):
		b.malformed = true
		return
	}
	b.fields = append(b.fields, f)
}

// surrounded reports whether a value starts or ends with white space, which makes a
// message malformed (RFC 9113 section 8.2.1). Trimming it instead would let two
// readers see two values.
func surrounded(value string) bool {
	return value != "" && (blank(value[0]) || blank(value[len(value)-1]))
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// validName reports whether a name is valid in HTTP/2: a token without capital
// letters (RFC 9113 section 8.2.1).
func validName(name string) bool {
	for i := range len(name) {
		if !nameBytes[name[i]] {
			return false
		}
	}
	return len(name) > 0
}

// nameBytes are the characters that validName allows.
var nameBytes = func() (t [256]bool) {
	for i := range t {
		t[i] = httpguts.IsTokenRune(rune(i)) && (i < 'A' || i > 'Z')
	}
	return t
}()

// pseudoHeaders are the pseudo-headers of a request.
type pseudoHeaders struct{ method, scheme, authority, path string }

// request returns the pseudo-headers. It reports false when one comes twice or
// is not one of a request.
func (b *headerBlock) request() (p pseudoHeaders, ok bool) {
	var seen [4]bool
	for _, f := range b.fields[:b.pseudo] {
		var at int
		var into *string
		switch f.Name {
		case ":method":
			at, into = 0, &p.method
		case ":scheme":
			at, into = 1, &p.scheme
		case ":authority":
			at, into = 2, &p.authority
		case ":path":
			at, into = 3, &p.path
		default:
			return p, false // also :protocol, because extended CONNECT is not offered
		}
		if seen[at] {
			return p, false
		}
		seen[at] = true
		*into = f.Value
	}
	return p, true
}
