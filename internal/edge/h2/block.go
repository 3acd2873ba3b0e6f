package h2

import (
	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

const (
	// tableSize is that of the table of headers, both ways: the one that needs no
	// setting.
	tableSize = 4096
	// blockPiece is how much of a block is unpacked before its size is looked at.
	blockPiece = 2 << 10
	// keptFields is how many headers there is room for between requests.
	keptFields = 64
)

// block unpacks blocks of headers, one after the other. A block has to be
// unpacked to its end even when nobody wants it: the next ones build on it.
type block struct {
	decoder *hpack.Decoder
	limit   int // of the size of those that are kept
	most    int // of the size altogether

	fields    []hpack.HeaderField
	pseudo    int  // how many of fields are pseudo headers
	size      int  // unpacked, as RFC 9113 section 6.5.2 counts
	truncated bool // there were more than limit
	malformed bool // a client of HTTP/2 does not send that
}

// init makes a block ready for the first.
func (b *block) init(cfg *Config) {
	b.limit, b.most = cfg.HeaderBytes+usualOverhead, cfg.Guard.BlockBytes
	b.decoder = hpack.NewDecoder(tableSize, b.take)
	b.decoder.SetMaxStringLength(cfg.Guard.BlockBytes)
}

// usualOverhead is what a usual request has in size beyond its bytes.
const usualOverhead = 10 * 32

// begin forgets the block before. A block that is not wanted is only followed.
func (b *block) begin(wanted bool) {
	clear(b.fields)
	b.fields = b.fields[:0]
	if cap(b.fields) > keptFields {
		b.fields = nil
	}
	b.pseudo, b.size, b.truncated, b.malformed = 0, 0, false, false
	b.decoder.SetEmitEnabled(wanted)
}

// add unpacks a part of the block. It reports whether it is too large by far;
// an error means that nothing after it can be read.
func (b *block) add(part []byte) (tooLarge bool, err error) {
	for len(part) > 0 {
		piece := part[:min(len(part), blockPiece)]
		part = part[len(piece):]
		if _, err := b.decoder.Write(piece); err != nil {
			return false, err
		}
		if b.size > b.most {
			return true, nil
		}
	}
	return false, nil
}

// end says that there is no more of the block.
func (b *block) end() error { return b.decoder.Close() }

// take is called for each header.
func (b *block) take(f hpack.HeaderField) {
	b.size += len(f.Name) + len(f.Value) + 32
	switch {
	case b.malformed || b.truncated:
		return
	case b.size > b.limit:
		b.truncated = true
		return
	case !httpguts.ValidHeaderFieldValue(f.Value):
		b.malformed = true
		return
	case f.IsPseudo():
		if b.pseudo < len(b.fields) {
			b.malformed = true // it comes after others
			return
		}
		b.pseudo++
	case !validName(f.Name):
		b.malformed = true
		return
	}
	b.fields = append(b.fields, f)
}

// validName reports whether a name may come by HTTP/2: a token without capital
// letters.
func validName(name string) bool {
	for i := range len(name) {
		if !nameBytes[name[i]] {
			return false
		}
	}
	return len(name) > 0
}

// nameBytes are the characters of names.
var nameBytes = func() (t [256]bool) {
	for i := range t {
		t[i] = httpguts.IsTokenRune(rune(i)) && (i < 'A' || i > 'Z')
	}
	return t
}()

// pseudos are the pseudo headers of a request.
type pseudos struct{ method, scheme, authority, path string }

// request gives the pseudo headers, if they are those of a request.
func (b *block) request() (p pseudos, ok bool) {
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
			return p, false // :protocol too: extended CONNECT is not offered
		}
		if seen[at] {
			return p, false
		}
		seen[at] = true
		*into = f.Value
	}
	return p, true
}
