package listener_test

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/must"
)

// goodHeaders are accepted. An empty client means the socket's own addresses.
var goodHeaders = []struct {
	name          string
	header        []byte
	client, local string
}{
	{"v1 tcp4", proxyV1("TCP4 192.0.2.1 198.51.100.2 56324 443"), "192.0.2.1:56324", "198.51.100.2:443"},
	{"v1 tcp6", proxyV1("TCP6 2001:db8::1 2001:DB8::2 0 65535"), "[2001:db8::1]:0", "[2001:db8::2]:65535"},
	{"v1 mapped", proxyV1("TCP6 ::ffff:192.0.2.1 ::ffff:198.51.100.2 1 2"), "192.0.2.1:1", "198.51.100.2:2"},
	{"v1 longest", proxyV1("TCP6 " + strings.Repeat("ffff:", 7) + "ffff " + strings.Repeat("ffff:", 7) + "ffff 65535 65535"),
		"[" + strings.Repeat("ffff:", 7) + "ffff]:65535", "[" + strings.Repeat("ffff:", 7) + "ffff]:65535"},
	{"v1 unknown", proxyV1("UNKNOWN"), "", ""},
	{"v1 unknown more", proxyV1("UNKNOWN ffff:f... 65535"), "", ""},
	{"v1 unknown 107", proxyV1("UNKNOWN " + strings.Repeat("x", 107-len("PROXY UNKNOWN \r\n"))), "", ""},
	{"v2 tcp4", proxyV2(0x21, 0x11, addresses("192.0.2.1:56324", "198.51.100.2:443")), "192.0.2.1:56324", "198.51.100.2:443"},
	{"v2 tcp6", proxyV2(0x21, 0x21, addresses("[2001:db8::1]:1", "[2001:db8::2]:2")), "[2001:db8::1]:1", "[2001:db8::2]:2"},
	{"v2 mapped", proxyV2(0x21, 0x21, addresses("[::ffff:192.0.2.1]:1", "[::ffff:198.51.100.2]:2")), "192.0.2.1:1", "198.51.100.2:2"},
	{"v2 tlvs", proxyV2(0x21, 0x11, addresses("192.0.2.1:1", "192.0.2.2:2"), tlv(0x01, "h2"), tlv(0x04, ""), tlv(0xea, strings.Repeat("x", 100))),
		"192.0.2.1:1", "192.0.2.2:2"},
	{"v2 largest", proxyV2(0x21, 0x11, addresses("192.0.2.1:1", "192.0.2.2:2"), tlv(0x04, strings.Repeat("\x00", 216-12-3))), "192.0.2.1:1", "192.0.2.2:2"},
	{"v2 local", proxyV2(0x20, 0x00), "", ""},
	{"v2 local with addresses", proxyV2(0x20, 0x11, addresses("192.0.2.1:1", "192.0.2.2:2")), "", ""},
	{"v2 local odd", proxyV2(0x20, 0xff, []byte("anything")), "", ""},
	{"v2 unspec", proxyV2(0x21, 0x00), "", ""},
	{"v2 unspec with rest", proxyV2(0x21, 0x00, []byte("anything")), "", ""},
	{"v2 unix", proxyV2(0x21, 0x31, make([]byte, 216)), "", ""},
}

// badHeaders are refused.
var badHeaders = []struct {
	name   string
	header []byte
}{
	{"v1 two spaces", proxyV1("TCP4  192.0.2.1 192.0.2.2 1 2")},
	{"v1 space at end", proxyV1("TCP4 192.0.2.1 192.0.2.2 1 2 ")},
	{"v1 tab", proxyV1("TCP4\t192.0.2.1 192.0.2.2 1 2")},
	{"v1 few", proxyV1("TCP4 192.0.2.1 192.0.2.2 1")},
	{"v1 many", proxyV1("TCP4 192.0.2.1 192.0.2.2 1 2 3")},
	{"v1 family only", proxyV1("TCP4")},
	{"v1 empty", proxyV1("")},
	{"v1 lower case", proxyV1("tcp4 192.0.2.1 192.0.2.2 1 2")},
	{"v1 udp", proxyV1("UDP4 192.0.2.1 192.0.2.2 1 2")},
	{"v1 unknown glued", proxyV1("UNKNOWNX")},
	{"v1 six in four", proxyV1("TCP4 2001:db8::1 2001:db8::2 1 2")},
	{"v1 four in six", proxyV1("TCP6 192.0.2.1 192.0.2.2 1 2")},
	{"v1 zone", proxyV1("TCP6 fe80::1%eth0 fe80::2 1 2")},
	{"v1 octal", proxyV1("TCP4 192.0.2.01 192.0.2.2 1 2")},
	{"v1 short address", proxyV1("TCP4 192.0.513 192.0.2.2 1 2")},
	{"v1 port zeros", proxyV1("TCP4 192.0.2.1 192.0.2.2 01 2")},
	{"v1 port sign", proxyV1("TCP4 192.0.2.1 192.0.2.2 +1 2")},
	{"v1 port large", proxyV1("TCP4 192.0.2.1 192.0.2.2 65536 2")},
	{"v1 port empty", proxyV1("TCP4 192.0.2.1 192.0.2.2  2")},
	{"v1 port letters", proxyV1("TCP4 192.0.2.1 192.0.2.2 1a 2")},
	{"v1 bare newline", []byte("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n")},
	{"v1 inner return", proxyV1("UNKNOWN \r x")},
	{"v1 nul", proxyV1("UNKNOWN \x00")},
	{"v1 too long", proxyV1("UNKNOWN " + strings.Repeat("x", 108-len("PROXY UNKNOWN \r\n")))},
	{"v1 no end", []byte("PROXY UNKNOWN " + strings.Repeat("x", 107))},
	{"v2 version 1", proxyV2(0x11, 0x11, addresses("192.0.2.1:1", "192.0.2.2:2"))},
	{"v2 version 3", proxyV2(0x31, 0x11, addresses("192.0.2.1:1", "192.0.2.2:2"))},
	{"v2 command 2", proxyV2(0x22, 0x11, addresses("192.0.2.1:1", "192.0.2.2:2"))},
	{"v2 udp4", proxyV2(0x21, 0x12, addresses("192.0.2.1:1", "192.0.2.2:2"))},
	{"v2 unix datagram", proxyV2(0x21, 0x32, make([]byte, 216))},
	{"v2 unknown family", proxyV2(0x21, 0x41, make([]byte, 12))},
	{"v2 family without protocol", proxyV2(0x21, 0x10, make([]byte, 12))},
	{"v2 short tcp4", proxyV2(0x21, 0x11, make([]byte, 11))},
	{"v2 short tcp6", proxyV2(0x21, 0x21, make([]byte, 35))},
	{"v2 short unix", proxyV2(0x21, 0x31, make([]byte, 215))},
	{"v2 half a tlv", proxyV2(0x21, 0x11, addresses("192.0.2.1:1", "192.0.2.2:2"), []byte{4, 0})},
	{"v2 long tlv", proxyV2(0x21, 0x11, addresses("192.0.2.1:1", "192.0.2.2:2"), []byte{4, 0, 1})},
	{"v2 too large", proxyV2(0x21, 0x11, addresses("192.0.2.1:1", "192.0.2.2:2"), tlv(0x04, strings.Repeat("\x00", 217-12-3)))},
	{"v2 local too large", proxyV2(0x20, 0x00, make([]byte, 217))},
	{"no header", []byte("GET / HTTP/1.1\r\n\r\n")},
	{"almost v1", []byte("PROXYTCP4 192.0.2.1 192.0.2.2 1 2\r\n")},
	{"almost v2", []byte("\r\n\r\n\x00\r\nQUIT\r\x21\x11\x00\x00")},
}

func TestGoodProxyHeaders(t *testing.T) {
	t.Parallel()
	for _, mode := range []listener.ProxyMode{listener.ProxyOptional, listener.ProxyRequire} {
		l := open(t, listener.Config{Proxy: mode, TrustedProxies: loopback})
		for _, tt := range goodHeaders {
			// All at once with the payload, in two pieces, byte by byte.
			all := append(bytes.Clone(tt.header), "payload"...)
			for _, pieces := range [][][]byte{{all}, {all[:7], all[7:]}, bytes.SplitAfter(all, nil)} {
				client := connect(t, l)
				send(t, client, pieces...)
				c := accept(t, l)
				wantClient, wantLocal := tt.client, tt.local
				if wantClient == "" {
					wantClient, wantLocal = client.LocalAddr().String(), client.RemoteAddr().String()
				}
				if c.RemoteAddr().String() != wantClient || c.LocalAddr().String() != wantLocal {
					t.Errorf("%s: %s to %s, want %s to %s", tt.name, c.RemoteAddr(), c.LocalAddr(), wantClient, wantLocal)
				}
				receive(t, c, "payload")
				send(t, client, []byte("more"))
				receive(t, c, "more")
				c.Close()
				client.Close()
			}
		}
	}
}

func TestBadProxyHeaders(t *testing.T) {
	t.Parallel()
	count := newCounters()
	l := open(t, listener.Config{Proxy: listener.ProxyRequire, TrustedProxies: loopback, Hooks: count.hooks()})
	for i, tt := range badHeaders {
		expectRefused(t, l, string(tt.header))
		count.awaitRefused(t, listener.RefusedProxyHeader, i+1)
	}
	if l.Live() != 0 {
		t.Errorf("%d connections are still counted", l.Live())
	}
}

func TestProxyHeaderLimit(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{Proxy: listener.ProxyRequire, TrustedProxies: loopback, ProxyHeaderLimit: 4096})
	client := connect(t, l)
	send(t, client, proxyV2(0x21, 0x11, addresses("192.0.2.1:1", "192.0.2.2:2"), tlv(0x04, strings.Repeat("\x00", 4096-12-3))), []byte("payload"))
	c := accept(t, l)
	receive(t, c, "payload")
	if got := c.RemoteAddr().String(); got != "192.0.2.1:1" {
		t.Errorf("the client is %s", got)
	}
}

// TestProxyModes gives each mode peers that are trusted and not, with and
// without a header.
func TestProxyModes(t *testing.T) {
	t.Parallel()
	header := string(proxyV1("TCP4 192.0.2.1 192.0.2.2 1 2"))
	strangers := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::/0")}
	for _, tt := range []struct {
		name    string
		mode    listener.ProxyMode
		trusted []netip.Prefix
		sent    string
		refused listener.RefuseReason // empty means passed
		proxied bool
		payload string
	}{
		{"off", listener.ProxyOff, loopback, header, "", false, header},
		{"optional trusted header", listener.ProxyOptional, loopback, header + "x", "", true, "x"},
		{"optional trusted none", listener.ProxyOptional, loopback, "GET /", "", false, "GET /"},
		{"optional trusted P", listener.ProxyOptional, loopback, "POST /", "", false, "POST /"},
		{"optional trusted CR", listener.ProxyOptional, loopback, "\r\n\r\nGET /", "", false, "\r\n\r\nGET /"},
		{"optional trusted bad", listener.ProxyOptional, loopback, "PROXY X\r\n", listener.RefusedProxyHeader, false, ""},
		{"optional stranger header", listener.ProxyOptional, strangers, header, "", false, header},
		{"optional stranger bad", listener.ProxyOptional, strangers, "PROXY X\r\n", "", false, "PROXY X\r\n"},
		{"require stranger", listener.ProxyRequire, strangers, header, listener.RefusedUntrusted, false, ""},
		{"require trusted none", listener.ProxyRequire, loopback, "GET /", listener.RefusedProxyHeader, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			count := newCounters()
			l := open(t, listener.Config{Proxy: tt.mode, TrustedProxies: tt.trusted, Hooks: count.hooks()})
			if tt.refused != "" {
				expectRefused(t, l, tt.sent)
				count.awaitRefused(t, tt.refused, 1)
				return
			}
			client := connect(t, l)
			send(t, client, []byte(tt.sent))
			c := accept(t, l)
			receive(t, c, tt.payload)
			if got, socket := c.RemoteAddr().String(), client.LocalAddr().String(); (got == socket) == tt.proxied {
				t.Errorf("the client is %s, the socket's peer %s", got, socket)
			}
		})
	}
}

// TestProxyStall sends nothing, or a part, and waits to be closed.
func TestProxyStall(t *testing.T) {
	t.Parallel()
	for _, mode := range []listener.ProxyMode{listener.ProxyOptional, listener.ProxyRequire} {
		for _, sent := range []string{"", "P", "PROXY TCP4 192.0.2.1", "\r", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c192."} {
			count := newCounters()
			l := open(t, listener.Config{Proxy: mode, TrustedProxies: loopback, HeaderTimeout: 20 * time.Millisecond, Hooks: count.hooks()})
			expectRefused(t, l, sent)
			count.awaitRefused(t, listener.RefusedTimeout, 1)
		}
	}
}

// TestProxyGone goes away before the header, as the health checks of some load
// balancers do.
func TestProxyGone(t *testing.T) {
	t.Parallel()
	for _, mode := range []listener.ProxyMode{listener.ProxyOptional, listener.ProxyRequire} {
		count := newCounters()
		l := open(t, listener.Config{Proxy: mode, TrustedProxies: loopback, Hooks: count.hooks()})
		for i, sent := range []string{"", "PROXY TC"} {
			client := connect(t, l)
			send(t, client, []byte(sent))
			must.Do(t, client.Close())
			count.awaitRefused(t, listener.RefusedGone, i+1)
		}
	}
}
