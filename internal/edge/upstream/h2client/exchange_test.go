package h2client_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
)

// mirror responds with the request that it got.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var told strings.Builder
	fmt.Fprintf(&told, "%s %s %s %s length=%d\n", r.Method, r.RequestURI, r.Host, r.Proto, r.ContentLength)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		fmt.Fprintf(&told, "%s: %s\n", name, strings.Join(r.Header[name], " | "))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Trailer)) {
		fmt.Fprintf(&told, "trailer %s: %s\n", name, strings.Join(r.Trailer[name], " | "))
	}
	fmt.Fprintf(&told, "[%s]", body)
	_, _ = io.WriteString(w, told.String())
}

// TestRequests: what the edge writes, and what the endpoint is asked.
func TestRequests(t *testing.T) {
	address := serve(t, mirror)
	c := start(t, address, config())
	for _, test := range []struct{ name, request, told string }{
		{"get", "GET /a//b?c=%20d HTTP/1.1\r\nHost: shop.example:8080\r\n\r\n",
			"GET /a//b?c=%20d shop.example:8080 HTTP/2.0 length=0\n[]"},
		{"fields", "GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-one: 2\r\nCookie: a=1; b=2\r\nUser-Agent: me\r\nAccept-Encoding: br\r\nX_Odd: 3\r\n\r\n",
			"GET / a HTTP/2.0 length=0\nAccept-Encoding: br\nCookie: a=1; b=2\nUser-Agent: me\nX-One: 1 | 2\nX_odd: 3\n[]"},
		{"connection", "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nKeep-Alive: 5\r\n\r\n",
			"GET / a HTTP/2.0 length=0\nTe: trailers\n[]"},
		{"upgrade", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
			"GET / a HTTP/2.0 length=0\n[]"},
		{"options", "OPTIONS * HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n", ""},
		{"fixed", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
			"POST /x a HTTP/2.0 length=5\nContent-Length: 5\n[hello]"},
		{"empty", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
			"POST /x a HTTP/2.0 length=0\nContent-Length: 0\n[]"},
		{"chunked", "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
			"POST /x a HTTP/2.0 length=-1\n[abc0123456789]"},
		{"trailers", "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n",
			"POST /x a HTTP/2.0 length=-1\ntrailer X-Sum: 7\n[abc]"},
		{"delete", "DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n", "DELETE /x a HTTP/2.0 length=0\n[]"},
	} {
		for _, cut := range []int{len(test.request), 1, 7} {
			t.Run(fmt.Sprint(test.name, cut), func(t *testing.T) {
				s := open(t, c)
				for part := range slices.Chunk([]byte(test.request), cut) {
					say(t, s, string(part))
				}
				got := listen(t, s, h1.RequestInfo{})
				if got.status != http.StatusOK || test.told != "" && got.body != test.told {
					t.Errorf("status %d, told:\n%s\nwant:\n%s", got.status, got.body, test.told)
				}
			})
		}
	}
	if c.ActiveStreams() != 0 {
		t.Errorf("%d streams are left", c.ActiveStreams())
	}
}

// TestResponses: what the endpoint sends, and what the edge reads.
func TestResponses(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "hello")
		case "/stream":
			w.Header().Set("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
			for range 3 {
				_, _ = io.WriteString(w, "part.")
				_ = http.NewResponseController(w).Flush()
			}
		case "/trailers":
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("X-Sum", "7")
			w.Header().Set(http.TrailerPrefix+"X-Late", "8")
			w.Header().Set(http.TrailerPrefix+"Content-Type", "dropped")
		case "/trailersWithLength":
			w.Header().Set("Trailer", "Grpc-Status")
			w.Header().Set("Content-Length", "4")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("Grpc-Status", "0")
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/same":
			w.Header().Set("Etag", `"1"`)
			w.WriteHeader(http.StatusNotModified)
		case "/hints":
			w.Header().Set("Link", "</a.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		case "/empty":
		}
	})
	c := start(t, address, config())
	for _, test := range []struct {
		target  string
		asked   h1.RequestInfo
		status  int
		framing h1.Framing
		length  int64
		body    string
		more    string // of fields and trailers, name: value
	}{
		{"/length", h1.RequestInfo{}, 200, h1.Fixed, 5, "hello", "content-type: text/plain; charset=utf-8"},
		{"/length", h1.RequestInfo{Head: true}, 200, h1.NoBody, 5, "", ""},
		{"/stream", h1.RequestInfo{}, 200, h1.Chunked, -1, "part.part.part.", "set-cookie: a=1, b=2"},
		{"/stream", h1.RequestInfo{Head: true}, 200, h1.NoBody, -1, "", "set-cookie: a=1, b=2"},
		{"/trailers", h1.RequestInfo{}, 200, h1.Chunked, -1, "body", "trailer x-sum: 7 & trailer x-late: 8 & trailer content-type: "},
		{"/trailersWithLength", h1.RequestInfo{}, 200, h1.Chunked, -1, "body", "trailer grpc-status: 0"},
		{"/none", h1.RequestInfo{}, 204, h1.NoBody, -1, "", ""},
		{"/same", h1.RequestInfo{}, 304, h1.NoBody, -1, "", `etag: "1"`},
		{"/hints", h1.RequestInfo{}, 418, h1.Fixed, 0, "", "interims [103 103] & link: </a.css>"},
		{"/empty", h1.RequestInfo{}, 200, h1.Fixed, 0, "", ""},
	} {
		t.Run(fmt.Sprint(test.target, test.asked.Head), func(t *testing.T) {
			s := open(t, c)
			method := "GET"
			if test.asked.Head {
				method = "HEAD"
			}
			say(t, s, method+" "+test.target+" HTTP/1.1\r\nHost: a\r\n\r\n")
			got := listen(t, s, test.asked)
			if got.status != test.status || got.framing != test.framing || got.length != test.length || got.body != test.body {
				t.Errorf("got %+v\nwant %+v", got, test)
			}
			for want := range strings.SplitSeq(test.more, " & ") {
				check(t, got, want)
			}
			if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("after the response: %d bytes, %v; want io.EOF", n, err)
			}
		})
	}
}

// check looks for one field or trailer, or for the interim responses.
func check(t *testing.T, got *answer, want string) {
	t.Helper()
	name, value, _ := strings.Cut(want, ": ")
	found := got.fields[name]
	if trailer, is := strings.CutPrefix(name, "trailer "); is {
		found = got.trailers[trailer]
	}
	if interims, is := strings.CutPrefix(want, "interims "); is {
		name, found, value = "interims", fmt.Sprint(got.interims), interims
	}
	if want != "" && found != value {
		t.Errorf("%s is %q, want %q", name, found, value)
	}
}

// TestDuplex: the response comes piece by piece while the request does.
func TestDuplex(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "%s!\n", lines.Text())
			_ = control.Flush()
		}
	})
	s := open(t, start(t, address, config()))
	say(t, s, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	reader := bufio.NewReader(s)
	response := must.Get(http.ReadResponse(reader, nil))(t)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for i := range 100 {
		text := fmt.Sprint("line ", i)
		say(t, s, fmt.Sprintf("%x\r\n%s\n\r\n", len(text)+1, text))
		got, err := lines.ReadString('\n')
		if err != nil || got != text+"!\n" {
			t.Fatalf("got %q, %v; want %q", got, err, text)
		}
	}
	say(t, s, "0\r\n\r\n")
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

// TestWrongRequests: the edge's own output is checked nevertheless.
func TestWrongRequests(t *testing.T) {
	c := start(t, serve(t, mirror), config())
	for _, text := range []string{
		"GET / HTTP/1.1\r\n\r\n",
		"get / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: a\nY: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nab",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	} {
		s := open(t, c)
		if _, err := io.WriteString(s, text); err == nil {
			t.Errorf("%q was taken", text)
		}
		s.Close()
	}
	s := open(t, c)
	say(t, s, "GET /after HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := listen(t, s, h1.RequestInfo{}); got.status != http.StatusOK {
		t.Errorf("status %d after them, want 200", got.status)
	}
}
