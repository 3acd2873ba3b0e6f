package shadow

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// How a request can fail.
const (
	FailureTimeout    = "timeout"
	FailureRefused    = "refused connection"
	FailureConnection = "broken connection"
	FailureTLS        = "TLS error"
	// failureSpelling is the failure of a copy that was not sent.
	failureSpelling = "spelling"
)

// maxDecoderMemory bounds the window of a zstd body, which its sender chooses.
const maxDecoderMemory = 64 << 20

// Response is what is compared of a response.
type Response struct {
	// Failure is set when there is no response, with its error.
	Failure, Err string

	Status int
	Header http.Header
	// Hash is that of the body after decoding, and Size its length, both up to the limit.
	Hash string
	Size int64
	// Truncated: the body is longer than the limit.
	Truncated bool
	// ownPage: the page is one that the controller has made itself.
	ownPage bool
}

// readResponse reads a response. A stream of events has no end, so it has no body here.
func readResponse(response *http.Response, limit int64) *Response {
	r := &Response{Status: response.StatusCode, Header: response.Header}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return r
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		out := failed(err)
		out.Err = "reading the body: " + out.Err
		return out
	}
	body, ok := decode(response.Header.Get("Content-Encoding"), raw, limit)
	r.Truncated = int64(len(raw)) > limit || int64(len(body)) > limit
	body = body[:min(int64(len(body)), limit)]
	if !ok && r.Truncated {
		// The part of an encoded body ends anywhere in the plain one.
		return r
	}
	sum := sha256.Sum256(body)
	r.Hash, r.Size = hex.EncodeToString(sum[:]), int64(len(body))
	r.ownPage = isOwnPage(r.Status, body)
	return r
}

// decode returns a body without its encoding: two compressors seldom write the same bytes.
// Content-Encoding itself is compared as a header. At most one byte more than the limit is
// decoded, so that a small body cannot become a large one. A body that cannot be decoded is
// returned as it is, and one that ends too early up to there.
func decode(encoding string, raw []byte, limit int64) (body []byte, ok bool) {
	if len(raw) == 0 {
		return raw, true // HEAD
	}
	var reader io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "gzip", "x-gzip":
		reader, err = gzip.NewReader(bytes.NewReader(raw))
	case "br":
		reader = brotli.NewReader(bytes.NewReader(raw))
	case "zstd":
		var decoder *zstd.Decoder
		if decoder, err = zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecoderMemory)); err == nil {
			defer decoder.Close()
			reader = decoder
		}
	default:
		return raw, true
	}
	if err != nil {
		return raw, false
	}
	body, err = io.ReadAll(io.LimitReader(reader, limit+1))
	if err != nil && int64(len(raw)) <= limit {
		return raw, false
	}
	return body, err == nil || int64(len(body)) > limit
}

// isOwnPage reports whether a page is the one that nginx, Traefik or the edge writes for an
// error when the backend has none. Its text is another for each, and no application has
// chosen it.
func isOwnPage(status int, body []byte) bool {
	if status < 400 {
		return false
	}
	text := http.StatusText(status)
	return bytes.Contains(body, []byte("<hr><center>nginx")) || // with or without the version
		bytes.Equal(body, []byte(text+"\n")) || bytes.Equal(body, []byte(text)) ||
		string(body) == strconv.Itoa(status)+" page not found\n"
}
