package tlsstore

import (
	"net/netip"
	"strings"
)

const (
	maxName  = 253
	maxLabel = 63
)

// nameBuf is room for a canonical name on the stack of a handshake.
type nameBuf [maxName]byte

// nameError is why a text is no canonical name.
type nameError uint8

const (
	nameGood    nameError = iota
	nameInvalid           // no spelling of any DNS name
	nameNumeric           // ends in a number, so it is an IPv4 address or nothing
)

// canonical writes the one spelling of a name to buf and returns its length.
// This is the only place that decides what is a name: names of certificates,
// hosts of options, SNI and Host all pass here.
//
// The underscore and hyphens at either end of a label are no letters of host
// names, but DNS carries them and they have one meaning.
func canonical(buf *nameBuf, s string) (int, nameError) {
	s = strings.TrimSuffix(s, ".")
	if len(s) == 0 || len(s) > maxName {
		return 0, nameInvalid
	}
	label := 0
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case c == '.':
			if i == label || i-label > maxLabel {
				return 0, nameInvalid
			}
			label = i + 1
		default:
			return 0, nameInvalid
		}
		buf[i] = c
	}
	if last := len(s) - label; last == 0 || last > maxLabel {
		return 0, nameInvalid
	}
	if isNumber(buf[label:len(s)]) {
		return 0, nameNumeric
	}
	return len(s), nameGood
}

// isNumber reports whether a last label makes its name an IPv4 address in the
// eyes of a browser: digits, or 0x and hex digits.
func isNumber(label []byte) bool {
	digits, hex := label, false
	if len(label) >= 2 && label[0] == '0' && label[1] == 'x' {
		digits, hex = label[2:], true
	}
	for _, c := range digits {
		if ('0' > c || c > '9') && (!hex || 'a' > c || c > 'f') {
			return false
		}
	}
	return true
}

// CanonicalName returns the one spelling of a DNS name: lower case, without the
// dot at the end. It is false for what is no DNS name: an IP address, an empty
// label, a wildcard, a byte outside letters, digits, hyphen and underscore.
// Names in other scripts are given in punycode.
func CanonicalName(s string) (string, bool) {
	var buf nameBuf
	n, flaw := canonical(&buf, s)
	if flaw != nameGood {
		return "", false
	}
	if string(buf[:n]) == s[:n] {
		return s[:n], true
	}
	return string(buf[:n]), true
}

// pattern is a name, or all names with one label more than it.
type pattern struct {
	name string
	wild bool
}

func (p pattern) String() string {
	if p.wild {
		return "*." + p.name
	}
	return p.name
}

// parsePattern reads a name, or a wildcard such as *.example.com. The star
// stands for exactly one label, and only for a whole one.
func parsePattern(s string) (pattern, bool) {
	rest, wild := strings.CutPrefix(s, "*.")
	name, ok := CanonicalName(rest)
	return pattern{name: name, wild: wild}, ok
}

// authority is what a Host header or an :authority names.
type authority uint8

const (
	authorityBad     authority = iota // nothing that could be served
	authorityName                     // perhaps a DNS name
	authorityNoName                   // an IP address or nothing: no name to choose options by
	authorityPattern                  // perhaps a wildcard, given without its star
)

// splitAuthority removes the port of a host and classifies the rest. A host
// that cannot be parsed is bad, and never nameless: nameless hosts get the
// default options, and an odd spelling of a protected host must not.
func splitAuthority(host string) (string, authority) {
	if host == "" {
		return "", authorityNoName
	}
	if host[0] == '[' {
		address, rest, found := strings.Cut(host[1:], "]")
		if _, err := netip.ParseAddr(address); !found || err != nil || (rest != "" && !isPort(rest)) {
			return "", authorityBad
		}
		return "", authorityNoName
	}
	if i := strings.IndexByte(host, ':'); i >= 0 {
		if strings.IndexByte(host[i+1:], ':') >= 0 {
			if _, err := netip.ParseAddr(host); err != nil {
				return "", authorityBad
			}
			return "", authorityNoName
		}
		if !isPort(host[i:]) {
			return "", authorityBad
		}
		host = host[:i]
	}
	if rest, wild := strings.CutPrefix(host, "*."); wild {
		return rest, authorityPattern
	}
	return host, authorityName
}

// isPort reports whether s is a colon and at most five digits.
func isPort(s string) bool {
	if len(s) == 0 || len(s) > 6 || s[0] != ':' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
