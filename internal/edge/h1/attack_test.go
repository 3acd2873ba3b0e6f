package h1_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/httperr"
	"slipway.dev/slipway/internal/edge/normalize"
)

// attacks are requests that must be refused, each named for what it tries or
// what is wrong with it, with the reason for the refusal. Every one ends with
// an empty line or an unfinished one, so nothing but the fault stops the parse.
var attacks = []struct {
	name string
	raw  string
	want error
}{
	// Lines.
	{"bare LF everywhere", "GET / HTTP/1.1\nHost: a\n\n", h1.ErrBareLF},
	{"bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", h1.ErrBareLF},
	{"bare LF after a header", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", h1.ErrBareLF},
	{"bare LF ends the head", "GET / HTTP/1.1\r\nHost: a\r\n\n", h1.ErrBareLF},
	{"bare LF hides a header", "GET / HTTP/1.1\r\nHost: a\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n", h1.ErrBareLF},
	{"bare LF before the request", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrBareLF},
	{"bare CR in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n", h1.ErrBareCR},
	{"bare CR in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\rY: z\r\n\r\n", h1.ErrBareCR},
	{"bare CR before the CRLF", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\r\n\r\n", h1.ErrBareCR},
	{"bare CR as an empty line", "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n", h1.ErrBareCR},
	{"bare CR in the target", "GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrBareCR},
	{"bare CR before the request", "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrBareCR},
	{"folded line", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", h1.ErrFold},
	{"folded line with a tab", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n", h1.ErrFold},
	{"folded Transfer-Encoding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", h1.ErrFold},
	{"first header is indented", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", h1.ErrFold},
	{"line of a space", "GET / HTTP/1.1\r\nHost: a\r\n \r\n\r\n", h1.ErrFold},
	{"two empty lines before the request", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrRequestLine},

	// Control characters.
	{"null in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: y\x00z\r\n\r\n", h1.ErrControl},
	{"null in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\x00: y\r\n\r\n", h1.ErrControl},
	{"vertical tab before chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", h1.ErrControl},
	{"form feed after chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\x0c\r\n\r\n", h1.ErrControl},
	{"delete in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: y\x7f\r\n\r\n", h1.ErrControl},
	{"escape in a long value", "GET / HTTP/1.1\r\nHost: a\r\nX: 0123456789\x1b0123456789\r\n\r\n", h1.ErrControl},
	{"null in the target", "GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrControl},
	{"TLS handshake", "\x16\x03\x01\x02\x00\x01\x00", h1.ErrMethod},

	// The request line.
	{"three spaces", "GET / evil HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrRequestLine},
	{"two spaces after the method", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrRequestLine},
	{"two spaces before the version", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrRequestLine},
	{"no target", "GET  HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrRequestLine},
	{"tab after the method", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrRequestLine},
	{"tab before the version", "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrRequestLine},
	{"tab in the target", "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrRequestLine},
	{"leading space", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrRequestLine},
	{"trailing space", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", h1.ErrVersion},
	{"method alone", "GET\r\nHost: a\r\n\r\n", h1.ErrRequestLine},
	{"HTTP/0.9", "GET /\r\n\r\n", h1.ErrVersion},
	{"lower-case method", "get / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrMethod},
	{"method with a digit", "G3T / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrMethod},
	{"method with quotes", "\"GET\" / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrMethod},
	{"endless method", strings.Repeat("A", 33) + " / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrMethod},
	{"CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", h1.ErrConnect},
	{"CONNECT with a path", "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrConnect},
	{"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", h1.ErrVersionUnsupported},
	{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", h1.ErrVersionUnsupported},
	{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", h1.ErrVersionUnsupported},
	{"HTTP/0.9 spelled", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", h1.ErrVersionUnsupported},
	{"lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n", h1.ErrVersion},
	{"version without a dot", "GET / HTTP/11\r\nHost: a\r\n\r\n", h1.ErrVersion},
	{"version with zeros", "GET / HTTP/1.01\r\nHost: a\r\n\r\n", h1.ErrVersion},
	{"version with a sign", "GET / HTTP/1.+1\r\nHost: a\r\n\r\n", h1.ErrVersion},
	{"version cut short", "GET / HTTP/1.\r\nHost: a\r\n\r\n", h1.ErrVersion},

	// The target: the rest is in package normalize.
	{"fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrFragment},
	{"fragment in the query", "GET /a?b#c HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrFragment},
	{"raw UTF-8 in the target", "GET /é HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrTargetByte},
	{"relative target", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrTargetForm},
	{"authority form", "GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", normalize.ErrTargetForm},
	{"asterisk with GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrAsterisk},
	{"absolute target for another host", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrHostMismatch},
	{"absolute target with a user", "GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrHostByte},
	{"encoded slash", "GET /a%2fb HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrEncodedSlash},
	{"encoded null", "GET /a%00 HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrEncodedNull},
	{"dots behind an encoded slash", "GET /public/..%2fadmin HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrHiddenDots},
	{"path parameter", "GET /public/..;/admin HTTP/1.1\r\nHost: a\r\n\r\n", normalize.ErrHiddenDots},

	// Names.
	{"space before the colon", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n", h1.ErrFieldName},
	{"tab before the colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n", h1.ErrFieldName},
	{"empty name", "GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", h1.ErrFieldName},
	{"no colon", "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", h1.ErrFieldName},
	{"name in quotes", "GET / HTTP/1.1\r\nHost: a\r\n\"X\": y\r\n\r\n", h1.ErrFieldName},
	{"space in a name", "GET / HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n", h1.ErrFieldName},
	{"UTF-8 in a name", "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encodïng: chunked\r\n\r\n", h1.ErrFieldName},
	{"second request line", "GET / HTTP/1.1\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrFieldName},
	{"underscore", "GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 127.0.0.1\r\n\r\n", h1.ErrUnderscore},
	{"Content_Length", "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\n", h1.ErrUnderscore},

	// Host.
	{"no Host", "GET / HTTP/1.1\r\n\r\n", h1.ErrNoHost},
	{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", h1.ErrHostTwice},
	{"two Hosts alike", "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", h1.ErrHostTwice},
	{"empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", normalize.ErrHostEmpty},
	{"empty Host in HTTP/1.0", "GET / HTTP/1.0\r\nHost: \r\n\r\n", normalize.ErrHostEmpty},
	{"list of Hosts", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", normalize.ErrHostByte},
	{"Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", normalize.ErrHostByte},
	{"Host with a user", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", normalize.ErrHostByte},
	{"Host with a bad port", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", normalize.ErrHostPort},

	// Content-Length.
	{"two lengths that differ", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", h1.ErrLengthTwice},
	{"two lengths alike", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", h1.ErrLengthTwice},
	{"list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", h1.ErrLength},
	{"empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", h1.ErrLength},
	{"signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", h1.ErrLength},
	{"negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", h1.ErrLength},
	{"hexadecimal length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n", h1.ErrLength},
	{"length with an underscore", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\n", h1.ErrLength},
	{"length with a point", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n\r\n", h1.ErrLength},
	{"length with a space inside", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 0\r\n\r\n", h1.ErrLength},
	{"length of Arabic digits", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ٥\r\n\r\n", h1.ErrLength},
	{"length over 63 bits", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n", h1.ErrLength},
	{"length over 64 bits", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\n", h1.ErrLength},

	// Transfer-Encoding.
	{"TE.CL", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", h1.ErrTwoLengths},
	{"CL.TE", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", h1.ErrTwoLengths},
	{"CL.TE with a coding nobody knows", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n", h1.ErrTwoLengths},
	{"coding is not chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", h1.ErrCoding},
	{"coding is identity", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", h1.ErrCoding},
	{"coding list", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", h1.ErrCoding},
	{"chunked is not last", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n", h1.ErrCoding},
	{"chunked twice in a list", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", h1.ErrCoding},
	{"chunked twice", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", h1.ErrCoding},
	{"TE.TE", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", h1.ErrCoding},
	{"empty coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", h1.ErrCoding},
	{"comma before chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,chunked\r\n\r\n", h1.ErrCoding},
	{"chunked in quotes", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", h1.ErrCoding},
	{"chunked with a parameter", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n", h1.ErrCoding},
	{"xchunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", h1.ErrCoding},
	{"chunked with the Kelvin sign", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chun\u212aed\r\n\r\n", h1.ErrCoding},
	{"coding in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", h1.ErrCodingVersion},

	// The rest.
	{"expectation nobody knows", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-maybe\r\nContent-Length: 5\r\n\r\n", h1.ErrExpectation},
	{"Connection is no list of names", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close x\r\n\r\n", h1.ErrConnectionList},
	{"Connection lists a hundred names", "GET / HTTP/1.1\r\nHost: a\r\nConnection: " + strings.Repeat("x-a,", 100) + "\r\n\r\n", h1.ErrConnectionList},
	{"Content-Length announced as trailer", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X, Content-Length\r\n\r\n", h1.ErrTrailerName},

	// Limits.
	{"endless target", "GET /" + strings.Repeat("a", 9000) + " HTTP/1.1\r\nHost: a\r\n\r\n", h1.ErrTargetTooLong},
	{"endless target, unfinished", "GET /" + strings.Repeat("a", 9000), h1.ErrTargetTooLong},
	{"endless value", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 40000) + "\r\n\r\n", h1.ErrHeadTooLarge},
	{"endless value, unfinished", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 40000), h1.ErrHeadTooLarge},
	{"endless name", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("a", 40000), h1.ErrHeadTooLarge},
	{"head too large in sum", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: "+strings.Repeat("a", 1000)+"\r\n", 40) + "\r\n", h1.ErrHeadTooLarge},
	{"too many headers", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 100) + "\r\n", h1.ErrTooManyFields},
}

func TestAttacks(t *testing.T) {
	limits := h1.DefaultLimits()
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			var head h1.Head
			n, err := head.Parse([]byte(attack.raw), &limits)
			if n != 0 || !errors.Is(err, attack.want) {
				t.Fatalf("Parse(%.200q) = %d, %v, want %v", attack.raw, n, err, attack.want)
			}
			if status := h1.StatusOf(err); status < 400 || status > 505 {
				t.Errorf("answered with %d", status)
			}
		})
	}
}

// TestAttacksInPieces sends each attack cut in two, at every place. Where the
// cut is must not change whether it is refused.
func TestAttacksInPieces(t *testing.T) {
	limits := h1.DefaultLimits()
	var head h1.Head
	for _, attack := range attacks {
		step := 1 + len(attack.raw)/500
		for at := 1; at < len(attack.raw); at += step {
			head.Reset()
			if n, err := parseSplit(&head, []byte(attack.raw), at, &limits); err == nil {
				t.Errorf("%s, cut at %d: accepted %d bytes", attack.name, at, n)
			}
		}
	}
}

// TestErrors pins the statuses and the labels, which users see.
func TestErrors(t *testing.T) {
	for _, test := range []struct {
		err    *httperr.Error
		status int
		reason string
	}{
		{h1.ErrBareLF, 400, "bare_lf"},
		{h1.ErrBareCR, 400, "bare_cr"},
		{h1.ErrControl, 400, "control"},
		{h1.ErrRequestLine, 400, "request_line"},
		{h1.ErrMethod, 400, "method"},
		{h1.ErrConnect, 400, "connect"},
		{h1.ErrVersion, 400, "version"},
		{h1.ErrVersionUnsupported, 505, "version_unsupported"},
		{h1.ErrStatusLine, 400, "status_line"},
		{h1.ErrFold, 400, "fold"},
		{h1.ErrFieldName, 400, "field_name"},
		{h1.ErrUnderscore, 400, "underscore"},
		{h1.ErrNoHost, 400, "no_host"},
		{h1.ErrHostTwice, 400, "host_twice"},
		{h1.ErrLengthTwice, 400, "length_twice"},
		{h1.ErrLength, 400, "length"},
		{h1.ErrCoding, 400, "coding"},
		{h1.ErrCodingVersion, 400, "coding_version"},
		{h1.ErrTwoLengths, 400, "two_lengths"},
		{h1.ErrConnectionList, 400, "connection_list"},
		{h1.ErrExpectation, 417, "expectation"},
		{h1.ErrTrailerName, 400, "trailer_name"},
		{h1.ErrTargetTooLong, 414, "target_too_long"},
		{h1.ErrHeadTooLarge, 431, "head_too_large"},
		{h1.ErrTooManyFields, 431, "too_many_fields"},
		{h1.ErrUnexpectedSwitch, 400, "unasked"},
		{h1.ErrChunkSize, 400, "chunk_size"},
		{h1.ErrChunkEnd, 400, "chunk_end"},
		{h1.ErrChunkExtension, 400, "chunk_extension"},
		{h1.ErrTrailerTooLarge, 431, "trailer_too_large"},
	} {
		if test.err.Status != test.status || test.err.Reason != test.reason {
			t.Errorf("%q has status %d and label %s, want %d and %s", test.err, test.err.Status, test.err.Reason, test.status, test.reason)
		}
		if wrapped := fmt.Errorf("wrapped: %w", test.err); h1.StatusOf(wrapped) != test.status {
			t.Errorf("%q is answered with %d when it is wrapped, want %d", test.err, h1.StatusOf(wrapped), test.status)
		}
	}
}
