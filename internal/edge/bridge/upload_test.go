package bridge

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
)

// newUpload composes a request as HTTP/2 gives it.
func newUpload(t testing.TB, r *http.Request) (*upload, error) {
	t.Helper()
	r.ProtoMajor = 2
	u := new(upload)
	u.begin(&Handler{Pool: new(h1.BufferPool)}, r, nil)
	return u, u.compose()
}

// What is read is one request, whatever room there is to read into.
func TestUploadInPieces(t *testing.T) {
	body := strings.Repeat("0123456789", 20_000)
	for _, size := range []int{1, 2, 5, 6, 7, 8, 9, 63, 64, 65, 1000, 32 << 10, 1 << 20} {
		r := httptest.NewRequest("POST", "/x", io.MultiReader(strings.NewReader(body[:7]), strings.NewReader(body[7:])))
		r.ContentLength = -1
		r.Trailer = http.Header{"X-Sum": {"1", "2"}}
		u := must.Get(newUpload(t, r))(t)
		var got strings.Builder
		buf := make([]byte, size)
		for {
			n, err := u.read(buf)
			got.Write(buf[:n])
			if err == io.EOF {
				break
			}
			if err != nil || n == 0 {
				t.Fatalf("pieces of %d: %d, %v", size, n, err)
			}
		}
		u.release()
		checkRequest(t, got.String(), body, "X-Sum: 1\r\nX-Sum: 2\r\n")
	}
}

// checkRequest reads a request with the codec.
func checkRequest(t *testing.T, raw, body, trailers string) {
	t.Helper()
	var head h1.Head
	limits := h1.DefaultLimits()
	n, err := head.Parse([]byte(raw), &limits)
	if err != nil || n == 0 {
		t.Fatalf("the head: %d, %v", n, err)
	}
	var b h1.Body
	b.Reset(head.Framing, head.Length, true, &limits)
	var got strings.Builder
	rest := []byte(raw[n:])
	for !b.Done() {
		pass, used, err := b.Next(rest)
		if err != nil || used == 0 {
			t.Fatalf("the body: %d, %v", used, err)
		}
		got.Write(pass)
		rest = rest[used:]
	}
	if got.String() != body || len(rest) > 0 {
		t.Errorf("%d bytes of %d, and %d more", got.Len(), len(body), len(rest))
	}
	if !strings.HasSuffix(raw, "0\r\n"+trailers+"\r\n") {
		t.Errorf("ends with %q", raw[len(raw)-40:])
	}
}

// A body that has a length and does not keep to it is no whole body, whatever
// error the library returns.
func TestUploadEndsShort(t *testing.T) {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, errors.New("reset")} {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("1234"), iotest.ErrReader(end)))
		r.Header.Set("Content-Length", "5")
		r.ContentLength = 5
		u := must.Get(newUpload(t, r))(t)
		u.give(make([]byte, 4096))
		buf := make([]byte, 100)
		if n, err := u.read(buf); n != 4 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := u.read(buf); n != 0 || err == nil || err == io.EOF {
			t.Errorf("the end is %d, %v", n, err)
		}
	}
}

// A body that brings nothing, again and again, does not keep its reader.
func TestUploadWithoutProgress(t *testing.T) {
	r := httptest.NewRequest("POST", "/", stuck{})
	r.ContentLength = -1
	u := must.Get(newUpload(t, r))(t)
	u.give(make([]byte, 4096))
	if n, err := u.read(make([]byte, 100)); n != 0 || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("%d, %v", n, err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// What the libraries are trusted to refuse is refused here, too.
func TestComposeRefuses(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"another host":            func(r *http.Request) { r.Header["Host"] = []string{"other.example"} },
		"two hosts":               func(r *http.Request) { r.Header["Host"] = []string{r.Host, r.Host} },
		"a line break in a value": func(r *http.Request) { r.Header["X-A"] = []string{"1\r\nHost: x"} },
		"a line break in a name":  func(r *http.Request) { r.Header["X-A: 1\r\nHost"] = []string{"x"} },
		"a line break in a path":  func(r *http.Request) { r.RequestURI = "/ HTTP/1.1\r\nHost: x\r\n" },
		"a space in a path":       func(r *http.Request) { r.RequestURI = "/a b" },
		"an empty path":           func(r *http.Request) { r.RequestURI = "" },
		"a line break in a host":  func(r *http.Request) { r.Host = "a\r\nX: y" },
		"chunks":                  func(r *http.Request) { r.Header["Transfer-Encoding"] = []string{"chunked"} },
		"another length":          func(r *http.Request) { r.Header["Content-Length"] = []string{"6"} },
		"two lengths":             func(r *http.Request) { r.Header["Content-Length"] = []string{"5", "5"} },
		"CONNECT":                 func(r *http.Request) { r.Method = "CONNECT" },
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader("hello"))
		r.Header.Set("Content-Length", "5")
		change(r)
		if u, err := newUpload(t, r); err == nil {
			t.Errorf("%s: composed %q", name, u.out)
		} else if status := h1.StatusOf(err); status != 400 {
			t.Errorf("%s: answered with %d", name, status)
		}
	}
	r := httptest.NewRequest("POST", "/", io.LimitReader(strings.NewReader(""), 1))
	r.ContentLength = -1
	r.Trailer = http.Header{"X-A": {"1\r\n\r\nGET / HTTP/1.1"}}
	u := must.Get(newUpload(t, r))(t)
	u.give(make([]byte, 4096))
	if n, err := u.read(make([]byte, 100)); err == nil {
		t.Errorf("a trailer with a request in it is read: %d", n)
	}
}
