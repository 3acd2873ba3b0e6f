package bridgetest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
)

// report responds with the request as the origin got it, one part a line. Only
// headers that the bridge composes or rewrites are included, so that defaults
// of a client do not matter.
func report(x *Exchange) {
	body, trailers, err := x.Upload()
	if err != nil {
		_ = x.Respond(http.StatusBadRequest, err.Error())
		return
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s host=%s\n", x.Head.Method(), x.Head.Target(), x.Field("Host"))
	for _, name := range []string{"Cookie", "X-Two", "Te", "Trailer", "Content-Length", "Transfer-Encoding", "Expect"} {
		for i := range x.Head.Len() {
			if strings.EqualFold(string(x.Head.Name(i)), name) {
				fmt.Fprintf(&out, "%s: %s\n", name, x.Head.Value(i))
			}
		}
	}
	fmt.Fprintf(&out, "body=%q\n", body)
	if trailers != "" {
		fmt.Fprintf(&out, "trailers=%q\n", trailers)
	}
	_ = x.Respond(http.StatusOK, out.String())
}

// do sends a request and returns the response and its body. It fails the test
// on any error, so that callers compare only content, and checks the protocol:
// a client that falls back to HTTP/1.1 would test nothing.
func do(t *testing.T, w World, r *http.Request) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	response, err := w.Client.Do(r.WithContext(ctx))
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	if response.ProtoMajor != w.Major {
		t.Errorf("the response came by %s", response.Proto)
	}
	return response, string(body)
}

// unsized hides the length of a body, so that the client sends no
// Content-Length.
type unsized struct{ io.Reader }

// request returns a request to the server under test. The path is in escaped
// form and is sent unchanged.
func request(t *testing.T, w World, method, path string, body io.Reader) *http.Request {
	t.Helper()
	r := must.Get(http.NewRequest(method, w.URL, body))(t)
	plain := must.Get(url.PathUnescape(path))(t)
	// RawPath keeps the escapes; net/url would otherwise normalise them.
	r.URL.Path, r.URL.RawPath = plain, path
	return r
}

// testRequests checks that the composed HTTP/1.1 request equals that of the
// client: target, method, Host and repeated headers.
func testRequests(t *testing.T, start Start) {
	w := start(t, Handler(report))
	// The authority of the URL must arrive as Host.
	host := strings.TrimPrefix(w.URL, "https://")
	host = strings.TrimPrefix(host, "http://")
	// The target has to arrive byte for byte: normalising is for the reader of the conn.
	for _, path := range []string{"/", "/a/b", "/%41", "//x", "/a/./../b", "/a~b", "/%7euser", "/a%2Eb"} {
		_, got := do(t, w, request(t, w, "GET", path, nil))
		want := fmt.Sprintf("GET %s host=%s\nbody=\"\"\n", path, host)
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	for _, method := range []string{"GET", "DELETE", "OPTIONS", "PROPFIND", "POST"} {
		r := request(t, w, method, "/x", nil)
		r.URL.RawQuery = "a=1&b=%20;c"
		_, got := do(t, w, r)
		if first, _, _ := strings.Cut(got, "\n"); first != method+" /x?a=1&b=%20;c host="+host {
			t.Errorf("%s: %q", method, got)
		}
	}
	// The asterisk form (RFC 9110, section 9.3.7) has no path.
	r := request(t, w, "OPTIONS", "*", nil)
	if _, got := do(t, w, r); !strings.HasPrefix(got, "OPTIONS * host=") {
		t.Errorf("OPTIONS *: %q", got)
	}
	r = request(t, w, "GET", "/", nil)
	r.Host = "other.example:8443"
	// HTTP/2 and HTTP/3 may split cookies (RFC 9113, 8.2.3); HTTP/1.1 has one line.
	r.Header["Cookie"] = []string{"a=1", "b=2"}
	r.Header["X-Two"] = []string{"1", "2"}
	// TE: trailers is the one connection header that HTTP/2 permits (RFC 9113,
	// section 8.2.2).
	r.Header["Te"] = []string{"trailers"}
	_, got := do(t, w, r)
	want := "GET / host=other.example:8443\nCookie: a=1; b=2\nX-Two: 1\nX-Two: 2\nTe: trailers\nbody=\"\"\n"
	if got != want {
		t.Errorf("headers: got %q, want %q", got, want)
	}
}

// testRefusals checks that requests which the HTTP/1.1 codec refuses get the
// same status over the newer protocols: there is one set of rules for all of
// them.
func testRefusals(t *testing.T, start Start) {
	w := start(t, Handler(report))
	for _, tt := range []struct {
		path, name, value string
		status            int
	}{
		{"/a%2fb", "", "", 400},
		{"/a;b", "", "", 400},
		{"/", "X_Forwarded_For", "1.2.3.4", 400},
		{"/", "Expect", "a miracle", 417},
		{"/", "Proxy-Authorization", "Basic x", 400},
		{"/" + strings.Repeat("a", 9000), "", "", 414},
	} {
		r := request(t, w, "GET", tt.path, nil)
		if tt.name != "" {
			r.Header[tt.name] = []string{tt.value}
		}
		if response, _ := do(t, w, r); response.StatusCode != tt.status {
			t.Errorf("%.20s %s: %d, want %d", tt.path, tt.name, response.StatusCode, tt.status)
		}
	}
	r := request(t, w, "GET", "/", nil)
	// More than Limits.Fields.
	for i := range 120 {
		r.Header.Set(fmt.Sprintf("X-Many-%d", i), "1")
	}
	if response, _ := do(t, w, r); response.StatusCode != 431 {
		t.Errorf("120 headers: %d", response.StatusCode)
	}
}

// testUploads checks the framing of request bodies: a length stays a length, an
// unknown length becomes chunked, and trailers arrive.
func testUploads(t *testing.T, start Start) {
	w := start(t, Handler(report))
	// Longer than a buffer of the pool and than one frame.
	long := strings.Repeat("0123456789abcdef", 5000)
	for _, tt := range []struct {
		name, method string
		body         io.Reader
		trailer      http.Header
		want         string
	}{
		{"a length", "POST", strings.NewReader("hello"), nil, "Content-Length: 5\nbody=\"hello\"\n"},
		{"length 0", "POST", http.NoBody, nil, "Content-Length: 0\nbody=\"\"\n"},
		{"no length", "POST", unsized{strings.NewReader("hello")}, nil, "Transfer-Encoding: chunked\nbody=\"hello\"\n"},
		{"no length, nothing", "POST", unsized{strings.NewReader("")}, nil, "Transfer-Encoding: chunked\nbody=\"\"\n"},
		{"a body of GET", "GET", unsized{strings.NewReader("hello")}, nil, "Transfer-Encoding: chunked\nbody=\"hello\"\n"},
		{"long", "PUT", unsized{strings.NewReader(long)}, nil, "Transfer-Encoding: chunked\nbody=\"" + long + "\"\n"},
		{"long with a length", "PUT", strings.NewReader(long), nil, "Content-Length: 80000\nbody=\"" + long + "\"\n"},
		{"trailers", "POST", unsized{strings.NewReader("hello")}, http.Header{"X-Sum": {"5"}},
			"Trailer: X-Sum\nTransfer-Encoding: chunked\nbody=\"hello\"\ntrailers=\"X-Sum: 5\\n\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(t, w, tt.method, "/", tt.body)
			r.Trailer = tt.trailer
			_, got := do(t, w, r)
			_, got, _ = strings.Cut(got, "\n")
			// Both framings of an empty body are correct: a client may send
			// length 0 or none.
			if tt.name == "length 0" {
				// A client may send length 0 or none.
				got = strings.Replace(got, "Transfer-Encoding: chunked\n", "Content-Length: 0\n", 1)
			}
			if got != tt.want {
				t.Errorf("got %.200q\nwant %.200q", got, tt.want)
			}
		})
	}
}

// responses are the bytes that an origin writes, and the response that the
// client must get, in the form of show.
var responses = []struct {
	name, method string
	raw          string
	want         string
}{
	{"a length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\n\r\nhello", "200 Content-Length=[5] X-A=[1 2] hello"},
	{"length 0", "GET", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404 Content-Length=[0] "},
	{"chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", "200 hello"},
	{"no chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200 "},
	{"trailers", "GET", "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 5\r\ngrpc-status: 0\r\n\r\n",
		"200 hello trailers Grpc-Status=[0] X-Sum=[5]"},
	{"trailers of nothing", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\ngrpc-status: 12\r\n\r\n", "200  trailers Grpc-Status=[12]"},
	{"a trailer named like a header", "GET", "HTTP/1.1 200 OK\r\nX-Sum: head\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: tail\r\n\r\n",
		"200 X-Sum=[head]  trailers X-Sum=[tail]"},
	{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 7000\r\n\r\n", "200 Content-Length=[7000] "},
	{"HEAD without length", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 "},
	{"204", "GET", "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", "204 X-A=[1] "},
	{"304", "GET", "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\n\r\n", "304 Etag=[\"x\"] "},
	{"304 with length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "304 "},
	{"nothing made up", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "200 Content-Length=[6] <html>"},
	{"about the connection", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n",
		"200 Content-Length=[0] "},
	{"100 without Expect", "GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 Content-Length=[2] ok"},
}

// testResponses writes each response in pieces of several sizes. The
// translation must not depend on how the bytes are split into writes.
func testResponses(t *testing.T, start Start) {
	for _, tt := range responses {
		t.Run(tt.name, func(t *testing.T) {
			w := start(t, Handler(func(x *Exchange) {
				size := len(tt.raw)
				// The path of the request selects the size of the pieces.
				if path := string(x.Head.URI.Path); path != "/whole" {
					if _, err := fmt.Sscanf(path, "/%d", &size); err != nil {
						t.Error(err)
					}
				}
				for part := range slices.Chunk([]byte(tt.raw), size) {
					if err := x.Send(string(part)); err != nil {
						t.Errorf("cut in %d: %v", size, err)
						return
					}
				}
			}))
			for _, path := range []string{"/whole", "/1", "/2", "/3", "/7", "/50"} {
				response, body := do(t, w, request(t, w, tt.method, path, nil))
				if got := show(response, body); got != tt.want {
					t.Errorf("cut in %s: got %q, want %q", path, got, tt.want)
				}
			}
		})
	}
}

// show formats a response as one line, with sorted headers.
func show(response *http.Response, body string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d ", response.StatusCode)
	// The announcement of trailers is optional and not compared.
	delete(response.Header, "Trailer")
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		fmt.Fprintf(&out, "%s=%v ", name, response.Header[name])
	}
	out.WriteString(body)
	if len(response.Trailer) > 0 {
		out.WriteString(" trailers")
		for _, name := range slices.Sorted(maps.Keys(response.Trailer)) {
			fmt.Fprintf(&out, " %s=%v", name, response.Trailer[name])
		}
	}
	return out.String()
}

// testInterim checks that an interim response reaches the client before the
// origin writes the final one: the origin waits for the hook of the client.
func testInterim(t *testing.T, start Start) {
	// Buffered, so that the hook never blocks the client.
	early := make(chan string, 8)
	w := start(t, Handler(func(x *Exchange) {
		if err := x.Send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nX-Hint: 1\r\n\r\n"); err != nil {
			t.Error(err)
		}
		if got := Within(t, "103", early); got != "103 </a.css>" {
			t.Errorf("interim: %s", got)
		}
		_ = x.Respond(200, "ok")
	}))
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			early <- fmt.Sprint(code, " ", header.Get("Link"))
			return nil
		},
	})
	r := request(t, w, "GET", "/", nil)
	response := must.Get(w.Client.Do(r.WithContext(ctx)))(t)
	defer response.Body.Close()
	// Headers of an interim response belong to it alone (RFC 8297, section 2).
	if response.Header.Get("X-Hint") != "" {
		t.Error("a header of the interim response came with the final one")
	}
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "ok" {
		t.Errorf("%q, %v", body, err)
	}
}

// broken are the bytes that an origin writes before it closes the connection.
// Each must reach the client as an error.
var broken = map[string]string{
	"nothing":                 "",
	"half a head":             "HTTP/1.1 200 OK\r\nContent-Le",
	"an interim one only":     "HTTP/1.1 103 Early Hints\r\n\r\n",
	"a head only":             "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
	"half a body":             "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
	"chunks without end":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	"half a trailer":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: ",
	"no length at all":        "HTTP/1.1 200 OK\r\n\r\nhello",
	"not HTTP":                "hello",
	"a chunk size of nothing": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
	"more than its length":    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and",
	"101":                     "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
}

// testBroken checks that a truncated or malformed response never looks
// complete, and that it fails only its own stream.
func testBroken(t *testing.T, start Start) {
	for name, raw := range broken {
		t.Run(name, func(t *testing.T) {
			w := start(t, Handler(func(x *Exchange) {
				if x.Head.MethodID != h1.MethodGet {
					_ = x.Respond(200, "ok")
					return
				}
				_ = x.Send(raw)
			}))
			ctx, cancel := context.WithTimeout(t.Context(), Timeout)
			defer cancel()
			response, err := w.Client.Do(request(t, w, "GET", "/", nil).WithContext(ctx))
			if err == nil {
				var body []byte
				body, err = io.ReadAll(response.Body)
				response.Body.Close()
				if err == nil {
					t.Fatalf("the client got %d %q", response.StatusCode, body)
				}
			}
			// A reset must arrive promptly; a timeout would hide a stream that
			// is never ended.
			if ctx.Err() != nil {
				t.Fatalf("the client was left waiting: %v", err)
			}
			// Other streams of the connection continue.
			if _, body := do(t, w, request(t, w, "POST", "/", nil)); body != "ok" {
				t.Errorf("after it: %q", body)
			}
		})
	}
}

// testNetHTTP uses net/http as the origin: an independent implementation parses
// the composed requests and writes the translated responses.
func testNetHTTP(t *testing.T, start Start) {
	w := start(t, NetHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s %s %d %v ", r.Method, r.RequestURI, r.ContentLength, r.Trailer)
		// The flush sends the head before the body ends, which forces the
		// chunked form.
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(body)
		w.Header().Set("X-Sum", fmt.Sprint(len(body)))
	})))
	long := strings.Repeat("x", 100_000)
	r := request(t, w, "POST", "/a%20b", unsized{strings.NewReader(long)})
	// Trailers in both directions check that net/http accepts their framing.
	r.Trailer = http.Header{"X-Up": {"1"}}
	response, body := do(t, w, r)
	if want := "POST /a%20b -1 map[X-Up:[1]] " + long; body != want {
		t.Errorf("got %.80q", body)
	}
	if got := response.Trailer.Get("X-Sum"); got != "100000" {
		t.Errorf("trailer %q", got)
	}
	_, body = do(t, w, request(t, w, "GET", "/", nil))
	if body != "GET / 0 map[] " {
		t.Errorf("got %q", body)
	}
}
