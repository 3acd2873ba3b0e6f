package normalize

import (
	"bytes"
	"net/netip"
)

const (
	maxHostName = 253
	maxLabel    = 63
)

// The classes of bytes in a host.
const (
	hostBad = iota
	hostPlain
	hostUpper
	hostDot
	hostColon
)

// hostClass is the class of a byte in a host. The underscore is not allowed in host
// names, but DNS carries it and internal names have it, so it is accepted: it has
// one meaning and one spelling.
var hostClass = func() (t [256]uint8) {
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-0x20] = hostPlain, hostUpper
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = hostPlain
	}
	t['-'], t['_'], t['.'], t[':'] = hostPlain, hostPlain, hostDot, hostColon
	return t
}()

// Host returns the canonical spelling of a host, without its port, and the
// port, 0 when there is none. An IPv6 address keeps its brackets and gets its
// shortest spelling. Punycode is left alone. The result is a part of raw when
// that is canonical already, else it is appended to dst, whose own bytes are
// kept but not returned.
func Host(dst, raw []byte) (host []byte, port uint16, err error) {
	if len(raw) > 0 && raw[0] == '[' {
		return hostAddress(dst, raw)
	}
	name, label, upper := raw, 0, false
scan:
	for i, c := range raw {
		switch hostClass[c] {
		case hostPlain:
			label++
		case hostUpper:
			upper = true
			label++
		case hostDot:
			if label == 0 {
				return nil, 0, ErrHostLabel
			}
			label = 0
		case hostColon:
			name = raw[:i]
			if port, err = hostPort(raw[i+1:]); err != nil {
				return nil, 0, err
			}
			break scan
		default:
			return nil, 0, ErrHostByte
		}
		if label > maxLabel {
			return nil, 0, ErrHostLabel
		}
	}
	if len(name) == 0 {
		return nil, 0, ErrHostEmpty
	}
	if name[len(name)-1] == '.' {
		name = name[:len(name)-1]
	}
	if len(name) > maxHostName {
		return nil, 0, ErrHostLength
	}
	if upper {
		name = appendLower(dst, name)[len(dst):]
	}
	return name, port, nil
}

// hostAddress reads an IPv6 address in brackets. Zones are refused: they are
// valid on one machine only.
func hostAddress(dst, raw []byte) (host []byte, port uint16, err error) {
	end := bytes.IndexByte(raw, ']')
	if end < 0 {
		return nil, 0, ErrHostAddress
	}
	if rest := raw[end+1:]; len(rest) > 0 {
		if rest[0] != ':' {
			return nil, 0, ErrHostAddress
		}
		if port, err = hostPort(rest[1:]); err != nil {
			return nil, 0, err
		}
	}
	// The longest spelling of an IPv6 address has 45 bytes.
	if end > 46 {
		return nil, 0, ErrHostAddress
	}
	address, err := netip.ParseAddr(View(raw[1:end]))
	if err != nil || !address.Is6() || address.Zone() != "" {
		return nil, 0, ErrHostAddress
	}
	start := len(dst)
	dst = append(dst, '[')
	dst = address.AppendTo(dst)
	dst = append(dst, ']')
	if bytes.Equal(dst[start:], raw[:end+1]) {
		return raw[: end+1 : end+1], port, nil
	}
	return dst[start:], port, nil
}

// hostPort reads a port. Leading zeros and an empty port are refused, so that
// a port has one spelling.
func hostPort(digits []byte) (uint16, error) {
	if len(digits) == 0 || len(digits) > 5 || digits[0] == '0' {
		return 0, ErrHostPort
	}
	n := 0
	for _, c := range digits {
		if c-'0' > 9 {
			return 0, ErrHostPort
		}
		n = n*10 + int(c-'0')
	}
	if n > 65535 {
		return 0, ErrHostPort
	}
	return uint16(n), nil
}

func appendLower(dst, b []byte) []byte {
	for _, c := range b {
		if c-'A' < 26 {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}
