package smuggling

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/test/conformance/rawh2"
)

// injections are texts that end a header of HTTP/1.1 and begin another.
func injections() (s streams) {
	for _, end := range []string{"\r\n", "\n", "\r", "\r\n\r\n", "\n\n", "\x00", "\x00\r\n", "\u560d\u560a", "\x85"} {
		injected := []string{"Transfer-Encoding: chunked", "Content-Length: 0", "Host: evil.test", "X: y", hidden}
		for i, line := range injected {
			text := "a" + end + line
			want := refuse
			if end == "\u560d\u560a" || end == "\x85" {
				want = either // to us they are letters like others
			}
			s.add(want, fmt.Sprintf("value %q %d", end, i), with(rawh2.F("x-value", text)))
			s.add(want, fmt.Sprintf("cookie %q %d", end, i), with(rawh2.F("cookie", text)))
			s.add(refuse, fmt.Sprintf("name %q %d", end, i), with(rawh2.F("x-name"+end+strings.ToLower(line), "z")))
			s.add(want, fmt.Sprintf("value with a body %q %d", end, i), append(base(rawh2.F(":method", "POST")), rawh2.F("x-value", text)), hidden)
		}
	}
	return s
}

// h2OddBytes puts odd characters where HTTP/1.1 would stumble.
func h2OddBytes() (s streams) {
	for _, c := range odd() {
		control := strings.ContainsAny(c, "\x00\x01\x08\x0b\x0c\x0e\x1b\x1c\x1d\x1e\x1f\x7f\r\n")
		want := either
		if control {
			want = refuse
		}
		s.add(want, fmt.Sprintf("%q in a value", c), with(rawh2.F("x-value", "a"+c+"b")))
		if want = either; c == " " || c == "\t" {
			want = refuse // RFC 9113, section 8.2.1
		}
		for place, value := range map[string]string{"before": c + "b", "after": "b" + c, "around": c + "b" + c} {
			s.add(want, fmt.Sprintf("%q %s a value", c, place), with(rawh2.F("x-value", value)))
		}
		if c != "'" {
			s.add(refuse, fmt.Sprintf("%q in a name", c), with(rawh2.F("x-a"+c+"b", "z")))
			s.add(refuse, fmt.Sprintf("%q before transfer-encoding", c), with(rawh2.F(c+"transfer-encoding", "chunked")))
			s.add(refuse, fmt.Sprintf("%q after transfer-encoding", c), with(rawh2.F("transfer-encoding"+c, "chunked")))
		}
		s.add(refuse, fmt.Sprintf("%q in the method", c), base(rawh2.F(":method", "G"+c+"T")))
	}
	return s
}

func h2Names() (s streams) {
	for _, name := range []string{
		"X-Upper", "Transfer-Encoding", "Content-Length", "Host", "Connection", "x-Mixed", "COOKIE", "", " ", "x y", "x:", ":x", "x:y", "\"x\"", "x\u00e9", "x\xff", "x\x00", "x\t", "(x)", "x=y", "x/y", "x@y", "x,y", "x;y", "[x]", "{x}", "x\\y",
		"x_y", "content_length", "transfer_encoding", "x_forwarded_for",
	} {
		s.add(refuse, fmt.Sprintf("%q", name), with(rawh2.F(name, "1")))
	}
	for _, name := range []string{"x-lower", "x", "x1", "x.y", "x!y", "x'y", "x~y", "x|y", "x+y", "x--y", "-x", "x-"} {
		s.add(either, fmt.Sprintf("%q", name), with(rawh2.F(name, "1")))
	}
	return s
}

// connectionFields have no place in HTTP/2 (RFC 9113, section 8.2.2).
func connectionFields() (s streams) {
	for _, f := range []rawh2.Field{
		rawh2.F("connection", "close"), rawh2.F("connection", "keep-alive"), rawh2.F("connection", "x-nonce"), rawh2.F("connection", "content-length"), rawh2.F("connection", ""), rawh2.F("keep-alive", "timeout=5"),
		rawh2.F("proxy-connection", "close"), rawh2.F("transfer-encoding", "chunked"), rawh2.F("transfer-encoding", "identity"), rawh2.F("transfer-encoding", ""), rawh2.F("transfer-encoding", "gzip, chunked"),
		rawh2.F("upgrade", "websocket"), rawh2.F("upgrade", "h2c"), rawh2.F("te", "gzip"), rawh2.F("te", "trailers, deflate"), rawh2.F("te", "chunked"), rawh2.F("te", ""),
	} {
		s.add(refuse, f.Name+" "+f.Value, with(f))
		s.add(refuse, f.Name+" "+f.Value+" with a body", append(base(rawh2.F(":method", "POST")), f), chunkedHidden)
	}
	s.add(either, "http2-settings", with(rawh2.F("http2-settings", "AAMAAABk")))
	s.add(either, "proxy-authorization", with(rawh2.F("proxy-authorization", "x")))
	s.add(serve, "te trailers", with(rawh2.F("te", "trailers")))
	s.add(serve, "te trailers with a body", append(base(rawh2.F(":method", "POST")), rawh2.F("te", "trailers")), "hello")
	return s
}

func h2Lengths() (s streams) {
	posted := func(lengths ...string) []rawh2.Field {
		fields := base(rawh2.F(":method", "POST"))
		for _, length := range lengths {
			fields = append(fields, rawh2.F("content-length", length))
		}
		return fields
	}
	right := fmt.Sprint(len(hidden))
	s.add(serve, "none", posted(), hidden)
	s.add(serve, "right", posted(right), hidden)
	s.add(serve, "right, in pieces", posted(right), hidden[:10], hidden[10:])
	s.add(serve, "none, in pieces with empty ones", posted(), "", hidden[:10], "", hidden[10:])
	s.add(serve, "chunks are data", posted(), chunkedHidden)
	s.add(serve, "0 without data", posted("0"))
	// A length of 0 is complete with the head. The request is passed on without a
	// body; data that comes nevertheless is an error of the stream.
	s.add(either, "0 with data", posted("0"), hidden)
	s.add(either, "0 with data, in pieces", posted("0"), hidden[:10], hidden[10:])
	for _, wrong := range []string{"1", "5", fmt.Sprint(len(hidden) - 1), fmt.Sprint(len(hidden) + 1), "100000", "9223372036854775807"} {
		s.add(refuse, "wrong "+wrong, posted(wrong), hidden)
		s.add(refuse, "wrong "+wrong+", in pieces", posted(wrong), hidden[:10], hidden[10:])
	}
	s.add(refuse, "5 without data", posted("5"))
	for _, odd := range []string{"+" + right, "-" + right, " " + right, right + " ", "0x47", right + "," + right, right + ";", "", "x", right + ".0", "18446744073709551616", right + "\r\nx: y", "\uff17\uff11", "1e2", "0" + right + "x"} {
		s.add(refuse, fmt.Sprintf("odd %q", odd), posted(odd), hidden)
	}
	s.add(either, "leading zero", posted("0"+right), hidden)
	s.add(refuse, "two that differ", posted(right, "0"), hidden)
	s.add(refuse, "two that differ the other way", posted("0", right), hidden)
	s.add(either, "two alike", posted(right, right), hidden)
	s.add(serve, "GET with data", append(base(), rawh2.F("content-length", right)), hidden)
	s.add(either, "HEAD with data", base(rawh2.F(":method", "HEAD")), hidden)
	return s
}

func h2Trailers() (s streams) {
	s.addTrailers(serve, "honest", rawh2.F("x-sum", "1"))
	for _, f := range []rawh2.Field{
		rawh2.F(":path", "/hidden-"+stamp), rawh2.F(":method", "GET"), rawh2.F(":status", "200"), rawh2.F(":authority", "evil.test"), rawh2.F("X-Upper", "1"), rawh2.F("x y", "1"), rawh2.F("x\r\ny", "1"), rawh2.F("x-sum", "a\r\nX: y"), rawh2.F("x-sum", "a\nX: y"),
		rawh2.F("x-sum", "a\x00"), rawh2.F("", "1"),
	} {
		s.addTrailers(refuse, fmt.Sprintf("%q %q", f.Name, f.Value), f)
	}
	// These are dropped or refused; what matters is that no backend sees them
	// as what they pretend to be.
	for _, f := range []rawh2.Field{
		rawh2.F("content-length", "0"), rawh2.F("content-length", "5"), rawh2.F("transfer-encoding", "chunked"), rawh2.F("host", "evil.test"), rawh2.F("connection", "close"), rawh2.F("x-forwarded-for", "6.6.6.6"), rawh2.F("te", "trailers"), rawh2.F("upgrade", "h2c"),
		rawh2.F("trailer", "host"), rawh2.F("content_length", "0"),
	} {
		s.addTrailers(either, fmt.Sprintf("%q %q", f.Name, f.Value), f)
		s = append(s, stream{
			name: "announced " + f.Name, fields: append(base(rawh2.F(":method", "POST")), rawh2.F("trailer", f.Name)),
			data: []string{"hello"}, trailers: []rawh2.Field{f}, want: either,
		})
	}
	s = append(s, stream{name: "headers twice, then nothing", fields: base(rawh2.F(":method", "POST")), data: []string{"hello"}, trailers: base(), want: refuse})
	return s
}

func h2Others() (s streams) {
	s.add(serve, "expect", append(base(rawh2.F(":method", "POST")), rawh2.F("expect", "100-continue")), "hello")
	s.add(refuse, "expect something else", append(base(rawh2.F(":method", "POST")), rawh2.F("expect", "x")), "hello")
	s.add(serve, "cookies in pieces", with(rawh2.F("cookie", "a=b"), rawh2.F("cookie", "c=d"), rawh2.F("cookie", "e=f")))
	s.add(refuse, "too many headers", with(repeated(rawh2.F("x-many", "y"), 200)...))
	s.add(refuse, "too many cookies", with(repeated(rawh2.F("cookie", "a="+strings.Repeat("a", 500)), 200)...))
	s.add(refuse, "a value without end", with(rawh2.F("x-value", strings.Repeat("a", 70000))))
	s.add(serve, "a large body", base(rawh2.F(":method", "POST")), strings.Repeat("x", 16000), strings.Repeat("y", 16000), strings.Repeat("z", 16000))
	s = append(s, stream{name: "a body without end", fields: base(rawh2.F(":method", "POST")), data: []string{hidden}, dangling: true, want: either})
	s.add(serve, "x-forwarded headers", with(rawh2.F("x-forwarded-for", "6.6.6.6"), rawh2.F("x-forwarded-host", "evil.test"), rawh2.F("forwarded", "for=6.6.6.6")))
	return s
}

func repeated(f rawh2.Field, count int) []rawh2.Field {
	all := make([]rawh2.Field, count)
	for i := range all {
		all[i] = f
	}
	return all
}
