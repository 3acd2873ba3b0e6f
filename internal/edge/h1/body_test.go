package h1_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
)

// chunkTests are chunked bodies: the data, and what is passed on when the
// framing is; or the fault for which they are refused.
var chunkTests = []struct {
	name string
	raw  string
	data string
	pass string // empty when it is raw itself
	want error
}{
	{name: "two chunks", raw: "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", data: "hello world"},
	{name: "empty", raw: "0\r\n\r\n"},
	{name: "hex of both cases", raw: "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", data: "01234567890123456789"},
	{name: "leading zeros", raw: "0000000000000005\r\nhello\r\n000\r\n\r\n", data: "hello"},
	{name: "data looks like framing", raw: "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", data: "\r\n0\r\n\r\n"},
	{name: "extension", raw: "5;a=b;c=\"d e\"\r\nhello\r\n0;last\r\n\r\n", data: "hello", pass: "5\r\nhello\r\n0\r\n\r\n"},
	{name: "trailers", raw: "5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Other:2\r\n\r\n", data: "hello"},

	{name: "no size", raw: "\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "size with a sign", raw: "+5\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "negative size", raw: "-5\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "size with 0x", raw: "0x5\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "size with an underscore", raw: "1_0\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "size is not hex", raw: "g\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "space before the size", raw: " 5\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "space after the size", raw: "5 \r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "tab before an extension", raw: "5\t;a\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "size of 17 digits", raw: "00000000000000005\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "size over 62 bits", raw: "4000000000000000\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "size that wraps to 5", raw: "10000000000000005\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "size that is -1", raw: "ffffffffffffffff\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkSize},
	{name: "bare LF after the size", raw: "5\nhello\r\n0\r\n\r\n", want: h1.ErrBareLF},
	{name: "bare CR after the size", raw: "5\rXhello\r\n0\r\n\r\n", want: h1.ErrBareCR},
	{name: "bare LF after the data", raw: "5\r\nhello\n0\r\n\r\n", want: h1.ErrBareLF},
	{name: "bare CR after the data", raw: "5\r\nhello\rX0\r\n\r\n", want: h1.ErrBareCR},
	{name: "data longer than its size", raw: "5\r\nhello!\r\n0\r\n\r\n", want: h1.ErrChunkEnd},
	{name: "two bytes instead of CRLF", raw: "5\r\nhelloXY0\r\n\r\n", want: h1.ErrChunkEnd},
	{name: "bare LF in an extension", raw: "5;a\nhello\r\n0\r\n\r\n", want: h1.ErrBareLF},
	{name: "bare CR in an extension", raw: "5;a\rb\r\nhello\r\n0\r\n\r\n", want: h1.ErrBareCR},
	{name: "null in an extension", raw: "5;a\x00\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkExtension},
	{name: "endless extension", raw: "5;" + strings.Repeat("a", 300) + "\r\nhello\r\n0\r\n\r\n", want: h1.ErrChunkExtension},
	{name: "endless extension, unfinished", raw: "5;" + strings.Repeat("a", 300), want: h1.ErrChunkExtension},
	{name: "endless extensions", raw: strings.Repeat("1;"+strings.Repeat("a", 200)+"\r\nx\r\n", 30) + "0\r\n\r\n", want: h1.ErrChunkExtension},
	{name: "bare LF ends the body", raw: "0\r\n\n", want: h1.ErrBareLF},
	{name: "bare LF after a trailer", raw: "0\r\nX: y\n\r\n", want: h1.ErrBareLF},
	{name: "folded trailer", raw: "0\r\nX: y\r\n z\r\n\r\n", want: h1.ErrFold},
	{name: "trailer without a colon", raw: "0\r\nX\r\n\r\n", want: h1.ErrFieldName},
	{name: "request in place of trailers", raw: "0\r\nGET / HTTP/1.1\r\n\r\n", want: h1.ErrFieldName},
	{name: "length as a trailer", raw: "0\r\nContent-Length: 5\r\n\r\n", want: h1.ErrTrailerName},
	{name: "coding as a trailer", raw: "0\r\nTransfer-Encoding: chunked\r\n\r\n", want: h1.ErrTrailerName},
	{name: "Host as a trailer", raw: "0\r\nHost: b\r\n\r\n", want: h1.ErrTrailerName},
	{name: "identity as a trailer", raw: "0\r\nX-Forwarded-For: 127.0.0.1\r\n\r\n", want: h1.ErrTrailerName},
	{name: "authorization as a trailer", raw: "0\r\nAuthorization: Basic x\r\n\r\n", want: h1.ErrTrailerName},
	{name: "underscore in a trailer", raw: "0\r\nX_Real_Ip: 127.0.0.1\r\n\r\n", want: h1.ErrUnderscore},
	{name: "endless trailer", raw: "0\r\nX: " + strings.Repeat("a", 5000), want: h1.ErrTrailerTooLarge},
	{name: "endless trailers", raw: "0\r\n" + strings.Repeat("X: "+strings.Repeat("a", 90)+"\r\n", 60) + "\r\n", want: h1.ErrTrailerTooLarge},
	{name: "too many trailers", raw: "0\r\n" + strings.Repeat("X: y\r\n", 101) + "\r\n", want: h1.ErrTooManyFields},
	{name: "cut short in the size", raw: "5\r\nhello\r\n5", want: io.ErrUnexpectedEOF},
	{name: "cut short in the data", raw: "5\r\nhell", want: io.ErrUnexpectedEOF},
	{name: "cut short before the end", raw: "5\r\nhello\r\n0\r\n", want: io.ErrUnexpectedEOF},
	{name: "cut short at the end", raw: "5\r\nhello\r\n0\r\n\r", want: io.ErrUnexpectedEOF},
}

// TestChunks reads each body at once, byte by byte and in pieces between.
func TestChunks(t *testing.T) {
	limits := h1.DefaultLimits()
	for _, test := range chunkTests {
		t.Run(test.name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, 7, 100_000} {
				for _, decode := range []bool{true, false} {
					var body h1.Body
					body.Reset(h1.Chunked, 0, decode, &limits)
					raw := test.raw
					if test.want == nil {
						raw += "next"
					}
					passed, used, err := readBody(&body, []byte(raw), step)
					if !errors.Is(err, test.want) {
						t.Fatalf("step %d, decode %v: error %v, want %v", step, decode, err, test.want)
					}
					if err != nil {
						continue
					}
					want := test.data
					if !decode {
						want = test.raw
						if test.pass != "" {
							want = test.pass
						}
					}
					if string(passed) != want || used != len(test.raw) || body.Payload() != int64(len(test.data)) {
						t.Errorf("step %d, decode %v: passed %q, used %d, payload %d, want %q", step, decode, passed, used, body.Payload(), want)
					}
				}
			}
		})
	}
}

func TestTrailers(t *testing.T) {
	limits := h1.DefaultLimits()
	var body h1.Body
	body.Reset(h1.Chunked, 0, true, &limits)
	raw := "5\r\nhello\r\n0\r\nX-Sum:  1\r\nGrpc-Status: 0\r\n\r\n"
	if _, _, err := readBody(&body, []byte(raw), 3); err != nil {
		t.Fatal(err)
	}
	if got := string(h1.AppendLastChunk(nil, &body.Trailers)); got != "0\r\nX-Sum: 1\r\nGrpc-Status: 0\r\n\r\n" {
		t.Errorf("trailers are written as %q", got)
	}
	body.Reset(h1.Chunked, 0, true, &limits)
	if body.Trailers.Len() != 0 {
		t.Errorf("%d trailers after Reset", body.Trailers.Len())
	}
}

func TestOtherBodies(t *testing.T) {
	limits := h1.DefaultLimits()
	tests := []struct {
		name    string
		framing h1.Framing
		length  int64
		want    string
		err     error
	}{
		{"none", h1.NoBody, 0, "", nil},
		{"none, with a length to HEAD", h1.NoBody, 5, "", nil},
		{"fixed", h1.Fixed, 5, "hello", nil},
		{"fixed, empty", h1.Fixed, 0, "", nil},
		{"fixed, cut short", h1.Fixed, 50, "hello world", io.ErrUnexpectedEOF},
		{"until close", h1.UntilClose, 0, "hello world", nil},
	}
	for _, test := range tests {
		for _, step := range []int{1, 3, 100} {
			var body h1.Body
			body.Reset(test.framing, test.length, false, &limits)
			passed, _, err := readBody(&body, []byte("hello world"), step)
			if string(passed) != test.want || !errors.Is(err, test.err) {
				t.Errorf("%s, step %d: %q, %v, want %q, %v", test.name, step, passed, err, test.want, test.err)
			}
		}
	}
	var zero h1.Body
	if _, used, err := zero.Next([]byte("x")); used != 0 || err != nil || !zero.Done() {
		t.Errorf("the zero body used %d bytes, %v", used, err)
	}
}

// appendChunk appends data as one chunk.
func appendChunk(dst, data []byte) []byte { return fmt.Appendf(dst, "%x\r\n%s\r\n", len(data), data) }

// FuzzChunks holds the chunk reader to this: how the bytes are cut does not
// matter; what is passed on is the same body; and net/http reads both alike.
func FuzzChunks(f *testing.F) {
	for _, test := range chunkTests {
		f.Add([]byte(test.raw), uint8(3))
	}
	limits := h1.DefaultLimits()
	f.Fuzz(func(t *testing.T, raw []byte, step uint8) {
		var body h1.Body
		body.Reset(h1.Chunked, 0, true, &limits)
		data, used, err := readBody(&body, raw, len(raw)+1)
		body.Reset(h1.Chunked, 0, true, &limits)
		pieces, usedInPieces, errInPieces := readBody(&body, raw, int(step)+1)
		if (err == nil) != (errInPieces == nil) {
			t.Fatalf("%q: %v at once, %v in pieces", raw, err, errInPieces)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(data, pieces) || used != usedInPieces {
			t.Fatalf("%q: %q at once, %q in pieces", raw, data, pieces)
		}
		body.Reset(h1.Chunked, 0, false, &limits)
		passed, _, err := readBody(&body, raw, int(step)+1)
		if err != nil {
			t.Fatalf("%q: decoded, but not passed on: %v", raw, err)
		}
		for name, wire := range map[string][]byte{"received": raw[:used], "passed on": passed} {
			head := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
			request, rest := readWithNetHTTP(t, head+string(wire)+"next")
			got, err := io.ReadAll(request.Body)
			if err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%s %q: net/http reads %q, %v, we read %q", name, wire, got, err, data)
			}
			if after, _ := io.ReadAll(rest); string(after) != "next" {
				t.Fatalf("%s %q: net/http leaves %q", name, wire, after)
			}
			if len(request.Trailer) > 0 && request.Trailer.Get("Content-Length") != "" {
				t.Fatalf("%s %q: net/http has trailers %v", name, wire, request.Trailer)
			}
		}
	})
}
