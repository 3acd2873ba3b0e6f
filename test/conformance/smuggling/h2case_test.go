package smuggling

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/test/conformance/rawh2"
)

// stream is one request of HTTP/2, as frames.
type stream struct {
	name string
	// fields are the header block, in this order and spelling.
	fields []rawh2.Field
	// data are the DATA frames; none ends the stream with the headers.
	data []string
	// trailers are a second header block.
	trailers []rawh2.Field
	// dangling leaves the stream open.
	dangling bool
	want     verdict
}

// base is an honest request. With a value for a name that is in it, that is
// replaced; "-" removes it.
func base(changes ...rawh2.Field) []rawh2.Field {
	fields := []rawh2.Field{
		rawh2.F(":method", "GET"), rawh2.F(":scheme", "http"), rawh2.F(":authority", site), rawh2.F(":path", "/case-"+stamp), rawh2.F("x-nonce", stamp),
	}
	for _, change := range changes {
		for i := range fields {
			if fields[i].Name == change.Name {
				fields[i].Value = change.Value
			}
		}
	}
	var kept []rawh2.Field
	for _, f := range fields {
		if f.Value != "-" {
			kept = append(kept, f)
		}
	}
	return kept
}

// with is an honest request and more fields.
func with(more ...rawh2.Field) []rawh2.Field { return append(base(), more...) }

// streams is a list of cases about one thing.
type streams []stream

func (s *streams) add(want verdict, name string, fields []rawh2.Field, data ...string) {
	*s = append(*s, stream{name: name, fields: fields, data: data, want: want})
}

func (s *streams) addTrailers(want verdict, name string, trailers ...rawh2.Field) {
	*s = append(*s, stream{name: name, fields: base(rawh2.F(":method", "POST")), data: []string{"hello"}, trailers: trailers, want: want})
}

// h2Corpus is every case, each with a name of its own.
func h2Corpus() []stream {
	var all []stream
	families := []struct {
		name  string
		cases streams
	}{
		{"pseudo", pseudoFields()}, {"path", h2Paths()}, {"method", h2Methods()}, {"authority", authorities()}, {"injection", injections()},
		{"odd-byte", h2OddBytes()}, {"name", h2Names()}, {"connection", connectionFields()}, {"length", h2Lengths()}, {"trailer", h2Trailers()}, {"other", h2Others()},
	}
	for _, f := range families {
		for i, c := range f.cases {
			c.name = fmt.Sprintf("%s/%d %s", f.name, i, c.name)
			all = append(all, c)
		}
	}
	return all
}

func pseudoFields() (s streams) {
	for _, name := range []string{":method", ":scheme", ":path"} {
		s.add(refuse, "no "+name, base(rawh2.F(name, "-")))
		s.add(refuse, "empty "+name, base(rawh2.F(name, "")))
	}
	s.add(refuse, "no :authority and no host", base(rawh2.F(":authority", "-")))
	s.add(refuse, "empty :authority", base(rawh2.F(":authority", "")))
	for _, f := range []rawh2.Field{
		rawh2.F(":method", "GET"), rawh2.F(":method", "POST"), rawh2.F(":path", "/case-"+stamp), rawh2.F(":path", "/hidden-"+stamp),
		rawh2.F(":scheme", "http"), rawh2.F(":scheme", "https"), rawh2.F(":authority", site), rawh2.F(":authority", "evil.test"),
	} {
		s.add(refuse, "twice: "+f.Name+" "+f.Value, append([]rawh2.Field{f}, base()...))
		s.add(refuse, "late: "+f.Name+" "+f.Value, with(f))
	}
	for _, f := range []rawh2.Field{
		rawh2.F(":status", "200"), rawh2.F(":unknown", "x"), rawh2.F(":", "x"), rawh2.F(":protocol", "websocket"), rawh2.F(":host", "evil.test"), rawh2.F("::path", "/hidden-"+stamp), rawh2.F(":Path", "/hidden-"+stamp), rawh2.F(":path ", "/hidden-"+stamp),
	} {
		s.add(refuse, "unknown "+f.Name, append([]rawh2.Field{f}, base()...))
	}
	s.add(refuse, "all after a header", append([]rawh2.Field{rawh2.F("x-first", "1")}, base()...))
	for _, scheme := range []string{"ftp", "HTTP", "http:", "http ", " http", "http://evil.test/", "http\r\nx: y", "ws", "h2", "1"} {
		s.add(either, fmt.Sprintf("scheme %q", scheme), base(rawh2.F(":scheme", scheme)))
	}
	return s
}

func h2Paths() (s streams) {
	path := "/case-" + stamp
	for _, good := range []string{path, path + "?a=b", path + "?", "/%63ase-" + stamp, "/./case-" + stamp, "//case-" + stamp} {
		s.add(serve, fmt.Sprintf("%q", good), base(rawh2.F(":path", good)))
	}
	for _, bad := range []string{
		"case-" + stamp, "*", "?" + path, "#", path + "#x", path + " HTTP/1.1", path + " HTTP/1.1\r\nX: y", path + " HTTP/1.1\r\nHost: evil.test\r\n\r\n" + hidden, path + "\r\n", path + "\n", path + "\r", path + "\x00", path + "\t", path + " ", " " + path,
		path + "\x7f", path + "\u00e9", path + "\xff", "http://" + site + path + "#", "//", site + path, "http:" + path, path + "%00", path + "%2f..", path + "\\", path + ";x", path + "%", "\\" + path, path + "/..;/x", "http://evil.test" + path,
	} {
		want := refuse
		if bad == "//" {
			want = either // it is the root, spelled oddly
		}
		s.add(want, fmt.Sprintf("%.40q", bad), base(rawh2.F(":path", bad)))
	}
	s.add(either, "absolute", base(rawh2.F(":path", "http://"+site+path)))
	s.add(refuse, "too long", base(rawh2.F(":path", path+strings.Repeat("a", 20000))))
	s.add(either, "asterisk with OPTIONS", base(rawh2.F(":path", "*"), rawh2.F(":method", "OPTIONS")))
	return s
}

func h2Methods() (s streams) {
	for _, good := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"} {
		s.add(serve, good, base(rawh2.F(":method", good)))
	}
	for _, bad := range []string{
		"get", "GET ", " GET", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\nGET", "GET /hidden-" + stamp + " HTTP/1.1\r\nX: ", "GET\r\n", "GET\n", "GET\x00", "GET\t", "G(T", "GET,POST", "GET/", "GET:", "\"GET\"", "G\u00c9T", strings.Repeat("A", 100),
		"CONNECT", "connect",
	} {
		s.add(refuse, fmt.Sprintf("%.40q", bad), base(rawh2.F(":method", bad)))
	}
	s.add(refuse, "CONNECT as the standard has it", base(rawh2.F(":method", "CONNECT"), rawh2.F(":scheme", "-"), rawh2.F(":path", "-")))
	s.add(refuse, "CONNECT with a protocol", append(base(rawh2.F(":method", "CONNECT")), rawh2.F(":protocol", "websocket")))
	s.add(refuse, "CONNECT with a protocol, in order", append([]rawh2.Field{rawh2.F(":protocol", "websocket")}, base(rawh2.F(":method", "CONNECT"))...))
	return s
}

func authorities() (s streams) {
	for _, good := range []string{site, strings.ToUpper(site), site + ":80", site + "."} {
		s.add(serve, good, base(rawh2.F(":authority", good)))
	}
	for _, bad := range []string{
		"evil@" + site, site + "@evil.test", site + "/", site + "/x", site + "#", site + "?x", site + " ", " " + site, site + ",evil.test", site + " evil.test", site + "\r\nX: y", site + "\n", site + "\r", site + "\x00", site + ":", site + ":x", site + ":99999",
		"http://" + site, "[" + site + "]", site + "\\", "\u00e9.test", site + "\x7f", "*." + site, "a..b", site + "%00", "host: " + site, site + "\r\n\r\n" + hidden,
	} {
		s.add(refuse, fmt.Sprintf("%.40q", bad), base(rawh2.F(":authority", bad)))
		s.add(refuse, fmt.Sprintf("host %.40q instead", bad), append(base(rawh2.F(":authority", "-")), rawh2.F("host", bad)))
	}
	s.add(serve, "host instead", append(base(rawh2.F(":authority", "-")), rawh2.F("host", site)))
	s.add(serve, "host alike", with(rawh2.F("host", site)))
	s.add(refuse, "host differs", with(rawh2.F("host", "evil.test")))
	s.add(refuse, "two hosts", with(rawh2.F("host", site), rawh2.F("host", "evil.test")))
	s.add(either, "two hosts alike", with(rawh2.F("host", site), rawh2.F("host", site)))
	s.add(refuse, "two hosts instead", append(base(rawh2.F(":authority", "-")), rawh2.F("host", site), rawh2.F("host", "evil.test")))
	s.add(refuse, "empty host", with(rawh2.F("host", "")))
	return s
}
