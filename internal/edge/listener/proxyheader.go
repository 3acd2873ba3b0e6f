package listener

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
)

const (
	// maxProxyV1 is the longest line of version 1, with its end.
	maxProxyV1 = 107
	// proxyV2Fixed is the size of the fixed part of a version 2 header.
	proxyV2Fixed = 16

	proxyV1Start = "PROXY "
	proxyV2Start = "\r\n\r\n\x00\r\nQUIT\n"
)

// Sizes of the addresses in a header of version 2.
const (
	proxyV2IPv4 = 12
	proxyV2IPv6 = 36
	proxyV2Unix = 216
)

var (
	// errMore means that a parser needs more bytes to decide.
	errMore = errors.New("more bytes are needed")
	// errNoProxyHeader means that the first bytes are something else.
	errNoProxyHeader = errors.New("there is no PROXY header")
)

// proxyHeader is a parsed header.
type proxyHeader struct {
	// source and destination are not valid when the header has no IP addresses:
	// health checks of the proxy itself, and other address families.
	source, destination netip.AddrPort
}

// addressed reports whether the header has the client's address.
func (h proxyHeader) addressed() bool { return h.source.IsValid() }

// parseProxyHeader parses a header at the start of b and returns its size. The
// result for a prefix of some bytes is errMore or the result for all of them,
// so it does not matter how they arrive.
func parseProxyHeader(b []byte, limit int) (proxyHeader, int, error) {
	switch {
	case startsLike(b, proxyV2Start):
		if len(b) < proxyV2Fixed {
			return proxyHeader{}, 0, errMore
		}
		return parseProxyV2(b, limit)
	case startsLike(b, proxyV1Start):
		return parseProxyV1(b)
	}
	return proxyHeader{}, 0, errNoProxyHeader
}

// startsLike reports whether b starts with start, or is a prefix of it.
func startsLike(b []byte, start string) bool {
	n := min(len(b), len(start))
	return string(b[:n]) == start[:n]
}

// parseProxyV1 parses a line such as
//
//	PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n
//
// with one space between the parts, no leading zeros, and addresses of the
// family that is named.
func parseProxyV1(b []byte) (proxyHeader, int, error) {
	end := bytes.IndexByte(b[:min(len(b), maxProxyV1)], '\n')
	if end < 0 {
		if len(b) >= maxProxyV1 {
			return proxyHeader{}, 0, fmt.Errorf("the PROXY line has more than %d bytes", maxProxyV1)
		}
		return proxyHeader{}, 0, errMore
	}
	// The shortest such line is "PROXY \n", so there is a byte before the end.
	if b[end-1] != '\r' {
		return proxyHeader{}, 0, errors.New("the PROXY line ends without a carriage return")
	}
	line := b[len(proxyV1Start) : end-1]
	for _, c := range line {
		if c < ' ' || c > '~' {
			return proxyHeader{}, 0, errors.New("the PROXY line holds a control character")
		}
	}
	family, rest, more := bytes.Cut(line, []byte(" "))
	if string(family) == "UNKNOWN" {
		return proxyHeader{}, end + 1, nil
	}
	if !more || (string(family) != "TCP4" && string(family) != "TCP6") {
		return proxyHeader{}, 0, fmt.Errorf("the PROXY line is for %.16q; only TCP4, TCP6 and UNKNOWN are known", family)
	}
	h, err := parseProxyV1Addresses(rest, string(family) == "TCP4")
	if err != nil {
		return proxyHeader{}, 0, err
	}
	return h, end + 1, nil
}

func parseProxyV1Addresses(b []byte, four bool) (proxyHeader, error) {
	var parts [4][]byte
	for i := range parts {
		part, rest, more := bytes.Cut(b, []byte(" "))
		if more == (i == len(parts)-1) {
			return proxyHeader{}, errors.New("the PROXY line does not have two addresses and two ports")
		}
		parts[i], b = part, rest
	}
	var h proxyHeader
	for i, out := range []*netip.AddrPort{&h.source, &h.destination} {
		addr, err := netip.ParseAddr(string(parts[i]))
		if err != nil || addr.Is4() != four || addr.Zone() != "" {
			return proxyHeader{}, fmt.Errorf("%.48q in the PROXY line is no address of its family", parts[i])
		}
		port, ok := parsePort(parts[i+2])
		if !ok {
			return proxyHeader{}, fmt.Errorf("%.16q in the PROXY line is no port", parts[i+2])
		}
		*out = netip.AddrPortFrom(addr.Unmap(), port)
	}
	return h, nil
}

// parsePort parses a port without leading zeros or sign.
func parsePort(b []byte) (uint16, bool) {
	if len(b) == 0 || len(b) > 5 || (b[0] == '0' && len(b) > 1) || b[0] == '+' {
		return 0, false
	}
	port, err := strconv.ParseUint(string(b), 10, 16)
	return uint16(port), err == nil
}

// parseProxyV2 parses a binary header whose fixed part is there.
func parseProxyV2(b []byte, limit int) (proxyHeader, int, error) {
	command, family := b[12], b[13]
	size := int(binary.BigEndian.Uint16(b[14:]))
	if command != 0x20 && command != 0x21 {
		return proxyHeader{}, 0, fmt.Errorf("the PROXY header has version and command 0x%02x; only 0x20 and 0x21 are known", command)
	}
	if size > limit {
		return proxyHeader{}, 0, fmt.Errorf("the PROXY header has %d bytes after the first 16, more than %d", size, limit)
	}
	local := command == 0x20
	addresses, known := proxyV2Addresses(family)
	if !local && !known {
		return proxyHeader{}, 0, fmt.Errorf("the PROXY header is for family and protocol 0x%02x; only streams are known", family)
	}
	if !local && size < addresses {
		return proxyHeader{}, 0, fmt.Errorf("the PROXY header has %d bytes for addresses of %d", size, addresses)
	}
	if len(b) < proxyV2Fixed+size {
		return proxyHeader{}, 0, errMore
	}
	body := b[proxyV2Fixed : proxyV2Fixed+size]
	// LOCAL is a connection of the proxy itself, and UNSPEC is a client without
	// a known address: the rest has no meaning.
	if local || family == 0 {
		return proxyHeader{}, proxyV2Fixed + size, nil
	}
	if err := skipTLVs(body[addresses:]); err != nil {
		return proxyHeader{}, 0, err
	}
	var h proxyHeader
	switch addresses {
	case proxyV2IPv4:
		h.source = addrPort4(body[0:4], body[8:10])
		h.destination = addrPort4(body[4:8], body[10:12])
	case proxyV2IPv6:
		h.source = addrPort6(body[0:16], body[32:34])
		h.destination = addrPort6(body[16:32], body[34:36])
	}
	return h, proxyV2Fixed + size, nil
}

// proxyV2Addresses returns the size of the addresses of a family. Datagram
// families are refused: they cannot come over TCP.
func proxyV2Addresses(family byte) (int, bool) {
	switch family {
	case 0x00:
		return 0, true
	case 0x11:
		return proxyV2IPv4, true
	case 0x21:
		return proxyV2IPv6, true
	case 0x31:
		return proxyV2Unix, true
	}
	return 0, false
}

// skipTLVs checks the form of the TLVs and ignores their content.
func skipTLVs(b []byte) error {
	for len(b) > 0 {
		if len(b) < 3 {
			return errors.New("the PROXY header ends inside a TLV")
		}
		size := 3 + int(binary.BigEndian.Uint16(b[1:]))
		if size > len(b) {
			return errors.New("a TLV reaches beyond the PROXY header")
		}
		b = b[size:]
	}
	return nil
}

func addrPort4(addr, port []byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(addr)), binary.BigEndian.Uint16(port))
}

// addrPort6 returns IPv4-mapped addresses as IPv4, so that they match lists of
// IPv4 networks.
func addrPort6(addr, port []byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(addr)).Unmap(), binary.BigEndian.Uint16(port))
}
