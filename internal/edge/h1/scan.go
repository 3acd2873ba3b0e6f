package h1

import (
	"encoding/binary"

	"slipway.dev/slipway/internal/edge/httperr"
	"slipway.dev/slipway/internal/edge/normalize"
)

// The classes of bytes in a header name.
const (
	nameUnder  = 1    // an underscore
	nameOdd    = 2    // a token character that is no letter, digit or hyphen
	nameRefuse = 0x80 // not a token character; the colon is one of these
)

var nameClass = func() (t [256]uint8) {
	for i := range t {
		t[i] = nameRefuse
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-0x20] = 0, 0
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = 0
	}
	for _, c := range "!#$%&'*+.^`|~" {
		t[c] = nameOdd
	}
	t['-'], t['_'] = 0, nameUnder
	return t
}()

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// controls returns a non-zero word when one of the eight bytes of x is a
// control character: below 0x20, or 0x7f. Bytes from 0x80 on are not.
func controls(x uint64) uint64 {
	low := (x - ones*0x20) & ^x & highs
	del := x ^ ones*0x7f
	return low | (del-ones)&^del&highs
}

// CleanValue reports whether the value of a header is free of control characters, tabs
// excepted. It is what [httpguts.ValidHeaderFieldValue] reports, by words.
//
// [httpguts.ValidHeaderFieldValue]: https://pkg.go.dev/golang.org/x/net/http/httpguts#ValidHeaderFieldValue
func CleanValue(value string) bool { return cleanValue(normalize.Bytes(value)) }

// cleanValue reports whether b is free of control characters, tabs excepted.
func cleanValue(b []byte) bool {
	if len(b) < 8 {
		return cleanSlow(b)
	}
	for rest := b; len(rest) >= 8; rest = rest[8:] {
		if controls(binary.LittleEndian.Uint64(rest)) != 0 {
			return cleanSlow(b)
		}
	}
	// The last word overlaps the one before.
	if controls(binary.LittleEndian.Uint64(b[len(b)-8:])) != 0 {
		return cleanSlow(b)
	}
	return true
}

func cleanSlow(b []byte) bool {
	for _, c := range b {
		if c < 0x20 && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// controlError names the control character that makes a line unclean.
func controlError(line []byte) *httperr.Error {
	for _, c := range line {
		switch {
		case c == '\r':
			return ErrBareCR
		case c < 0x20 && c != '\t', c == 0x7f:
			return ErrControl
		}
	}
	return ErrControl
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// trim removes optional white space around b.
func trim(b []byte) []byte {
	for len(b) > 0 && blank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && blank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// token reports whether b is a token: the grammar of names and options.
func token(b []byte) bool {
	for _, c := range b {
		if nameClass[c] >= nameRefuse {
			return false
		}
	}
	return len(b) > 0
}

// nextElement cuts the first element off a comma-separated list, trimmed.
func nextElement(list []byte) (element, rest []byte) {
	for i, c := range list {
		if c == ',' {
			return trim(list[:i]), list[i+1:]
		}
	}
	return trim(list), nil
}
