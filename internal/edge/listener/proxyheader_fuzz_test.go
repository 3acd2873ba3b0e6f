package listener

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// FuzzProxyHeader compares the parser with a naive one, and checks that it
// does not matter in how many pieces a header arrives.
func FuzzProxyHeader(f *testing.F) {
	for _, seed := range []string{
		"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\nGET", "PROXY TCP6 2001:db8::1 ::ffff:1.2.3.4 1 2\r\n", "PROXY UNKNOWN\r\n", "PROXY UNKNOWN x\r\n",
		"PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n", "PROXY \r\n", "PROXY \n", "P", "\r\n\r\n", "GET / HTTP/1.1\r\n",
		proxyV2Start + "\x21\x11\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x50\x01\xbbGET",
		proxyV2Start + "\x21\x11\x00\x10\x01\x02\x03\x04\x05\x06\x07\x08\x00\x50\x01\xbb\x04\x00\x01x",
		proxyV2Start + "\x21\x21\x00\x24" + strings.Repeat("\x20\x01", 16) + "\x00\x50\x01\xbb",
		proxyV2Start + "\x20\x00\x00\x00GET", proxyV2Start + "\x21\x31\x00\xd8" + strings.Repeat("\x00", 216), proxyV2Start + "\x21\x00\x00\x01x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = DefaultProxyHeaderLimit
		header, size, err := parseProxyHeader(b, limit)
		want, wantSize, wantErr := naiveProxyHeader(b, limit)
		if (err == nil) != (wantErr == nil) || errors.Is(err, errMore) != errors.Is(wantErr, errMore) || size != wantSize || header != want {
			t.Fatalf("%q: %+v, %d, %v; the naive reading is %+v, %d, %v", b, header, size, err, want, wantSize, wantErr)
		}
		for n := range min(len(b), proxyV2Fixed+limit+1) {
			early, earlySize, earlyErr := parseProxyHeader(b[:n], limit)
			if errors.Is(earlyErr, errMore) {
				continue
			}
			if early != header || earlySize != size || (earlyErr == nil) != (err == nil) {
				t.Fatalf("%q: %+v, %d, %v after %d bytes, but %+v, %d, %v after all", b, early, earlySize, earlyErr, n, header, size, err)
			}
		}
	})
}

var (
	errNaive  = errors.New("refused")
	naiveLine = regexp.MustCompile(`^PROXY (?:UNKNOWN(?: [ -~]*)?|(TCP[46]) ([^ ]+) ([^ ]+) (0|[1-9][0-9]{0,4}) (0|[1-9][0-9]{0,4}))\r\n$`)
)

// naiveProxyHeader reads a header with a regular expression, or as a struct.
func naiveProxyHeader(b []byte, limit int) (proxyHeader, int, error) {
	if len(b) < 12 && strings.HasPrefix(proxyV2Start, string(b)) || len(b) < 6 && strings.HasPrefix(proxyV1Start, string(b)) {
		return proxyHeader{}, 0, errMore
	}
	if bytes.HasPrefix(b, []byte(proxyV2Start)) {
		return naiveV2(b, limit)
	}
	if !bytes.HasPrefix(b, []byte(proxyV1Start)) {
		return proxyHeader{}, 0, errNaive
	}
	line, _, ended := strings.Cut(string(b), "\n")
	switch {
	case len(line)+1 > 107, !ended && len(b) >= 107:
		return proxyHeader{}, 0, errNaive
	case !ended:
		return proxyHeader{}, 0, errMore
	}
	parts := naiveLine.FindStringSubmatch(line + "\n")
	if parts == nil {
		return proxyHeader{}, 0, errNaive
	}
	if parts[1] == "" {
		return proxyHeader{}, len(line) + 1, nil
	}
	var ends [2]netip.AddrPort
	for i := range ends {
		addr, err := netip.ParseAddr(parts[2+i])
		port, _ := strconv.Atoi(parts[4+i])
		if err != nil || port > 65535 || strings.Contains(parts[2+i], "%") || strings.Contains(parts[2+i], ":") != (parts[1] == "TCP6") {
			return proxyHeader{}, 0, errNaive
		}
		ends[i] = netip.AddrPortFrom(addr.Unmap(), uint16(port))
	}
	return proxyHeader{source: ends[0], destination: ends[1]}, len(line) + 1, nil
}

func naiveV2(b []byte, limit int) (proxyHeader, int, error) {
	if len(b) < 16 {
		return proxyHeader{}, 0, errMore
	}
	var fixed struct {
		Signature       [12]byte
		Command, Family byte
		Size            uint16
	}
	_ = binary.Read(bytes.NewReader(b), binary.BigEndian, &fixed)
	need, known := map[byte]int{0x00: 0, 0x11: 12, 0x21: 36, 0x31: 216}[fixed.Family]
	size := int(fixed.Size)
	if fixed.Command>>4 != 2 || fixed.Command&15 > 1 || size > limit || fixed.Command == 0x21 && (!known || size < need) {
		return proxyHeader{}, 0, errNaive
	}
	if len(b) < 16+size {
		return proxyHeader{}, 0, errMore
	}
	if fixed.Command == 0x20 || fixed.Family == 0 {
		return proxyHeader{}, 16 + size, nil
	}
	rest := bytes.NewReader(b[16+need : 16+size])
	for rest.Len() > 0 {
		var tlv struct {
			Kind byte
			Size uint16
		}
		if binary.Read(rest, binary.BigEndian, &tlv) != nil || rest.Len() < int(tlv.Size) {
			return proxyHeader{}, 0, errNaive
		}
		_, _ = rest.Seek(int64(tlv.Size), 1)
	}
	if fixed.Family == 0x31 {
		return proxyHeader{}, 16 + size, nil
	}
	length := (need - 4) / 2
	end := func(at, port int) netip.AddrPort {
		addr, _ := netip.AddrFromSlice(b[16+at : 16+at+length])
		return netip.AddrPortFrom(addr.Unmap(), uint16(b[16+port])<<8|uint16(b[16+port+1]))
	}
	return proxyHeader{source: end(0, 2*length), destination: end(length, 2*length+2)}, 16 + size, nil
}

func BenchmarkProxyHeader(b *testing.B) {
	for _, bench := range []struct{ name, header string }{
		{"v1", "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n"},
		{"v2", proxyV2Start + "\x21\x11\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x50\x01\xbb"},
		{"v2 tlv", proxyV2Start + "\x21\x11\x00\x10\x01\x02\x03\x04\x05\x06\x07\x08\x00\x50\x01\xbb\x04\x00\x01x"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			header := []byte(bench.header)
			b.ReportAllocs()
			for b.Loop() {
				if _, n, err := parseProxyHeader(header, DefaultProxyHeaderLimit); err != nil || n != len(header) {
					b.Fatal(n, err)
				}
			}
		})
	}
}
