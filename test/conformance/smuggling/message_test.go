package smuggling

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// record is one request, as its reader describes it. Backends respond
// with it, too, so that a client can see whose response it got.
type record struct {
	Nonce  string `json:"nonce"` // of the header X-Nonce
	Method string `json:"method"`
	Target string `json:"target"`
	Host   string `json:"host"`
	Length int    `json:"length"`
	Sum    string `json:"sum"` // SHA-256 of the body
}

func (r record) String() string {
	return fmt.Sprintf("%s %s (host %s, body %d bytes %.8s)", r.Method, r.Target, r.Host, r.Length, r.Sum)
}

// same compares what matters: a nonce that is there twice is joined by one
// reader in this way and by the other in that.
func (r record) same(other record) bool {
	other.Nonce = r.Nonce
	return r == other
}

func sumOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// forwarded is a request that the edge wrote.
type forwarded struct {
	record
	turn     int
	fields   []string // the header lines
	body     []byte
	complete bool
	disguise error // a header that a careless backend reads as another
}

// errCut is returned when a flow ends within a message.
var errCut = errors.New("the connection ended within a message")

var (
	requestLine = regexp.MustCompile(`^([A-Z][A-Z_-]*) ([!-~]+) HTTP/1\.1$`)
	fieldLine   = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)$")
	sizeLine    = regexp.MustCompile(`^[0-9a-fA-F]{1,16}$`)
	lengthValue = regexp.MustCompile(`^[0-9]{1,19}$`)
)

// cursor reads lines that end in CRLF, and nothing that is almost a line.
type cursor struct {
	text []byte
	at   int
}

func (c *cursor) line() (string, error) {
	end := bytes.Index(c.text[c.at:], []byte("\r\n"))
	if end < 0 {
		return "", errCut
	}
	line := c.text[c.at : c.at+end]
	if bytes.ContainsAny(line, "\r\n\x00") {
		return "", fmt.Errorf("a line with a control character in it: %q", line)
	}
	c.at += end + 2
	return string(line), nil
}

func (c *cursor) take(n int) ([]byte, error) {
	if len(c.text)-c.at < n {
		rest := c.text[c.at:]
		c.at = len(c.text)
		return rest, errCut
	}
	c.at += n
	return c.text[c.at-n : c.at], nil
}

// requests reads everything that was written on a connection. It knows one
// spelling of each thing, so what it reads has no other reading. A
// message that is cut off is the last, and not complete.
func (f *flow) requests() ([]forwarded, error) {
	var all []forwarded
	c := &cursor{text: f.bytes}
	for c.at < len(c.text) {
		start := c.at
		request, err := c.request()
		request.turn = f.turnAt(start)
		request.complete = err == nil
		all = append(all, request)
		if errors.Is(err, errCut) {
			return all, nil
		}
		if err != nil {
			return all, fmt.Errorf("%w in %.300q", err, c.text[start:])
		}
	}
	return all, nil
}

func (c *cursor) request() (forwarded, error) {
	line, err := c.line()
	if err != nil {
		return forwarded{}, err
	}
	parts := requestLine.FindStringSubmatch(line)
	if parts == nil {
		return forwarded{}, fmt.Errorf("the request line %q", line)
	}
	request := forwarded{record: record{Method: parts[1], Target: parts[2]}}
	if request.fields, err = c.fields(); err != nil {
		return request, err
	}
	request.Nonce = strings.Join(valuesOf(request.fields, "x-nonce"), ",")
	hosts := valuesOf(request.fields, "host")
	if len(hosts) != 1 {
		return request, fmt.Errorf("%d Hosts", len(hosts))
	}
	request.Host = hosts[0]
	request.disguise = checkDisguises(request.fields)
	request.body, err = c.body(request.fields)
	request.Length, request.Sum = len(request.body), sumOf(request.body)
	return request, err
}

// fields reads header lines or trailers up to the empty line.
func (c *cursor) fields() ([]string, error) {
	var lines []string
	for {
		line, err := c.line()
		if err != nil || line == "" {
			return lines, err
		}
		if !fieldLine.MatchString(line) {
			return lines, fmt.Errorf("the header line %q", line)
		}
		lines = append(lines, line)
	}
}

func (c *cursor) body(fields []string) ([]byte, error) {
	lengths, codings := valuesOf(fields, "content-length"), valuesOf(fields, "transfer-encoding")
	switch {
	case len(lengths)+len(codings) > 1:
		return nil, errors.New("more than one length")
	case len(codings) == 1:
		if codings[0] != "chunked" {
			return nil, fmt.Errorf("the coding %q", codings[0])
		}
		return c.chunks()
	case len(lengths) == 1:
		if !lengthValue.MatchString(lengths[0]) {
			return nil, fmt.Errorf("the length %q", lengths[0])
		}
		length, err := strconv.Atoi(lengths[0])
		if err != nil {
			return nil, err
		}
		return c.take(length)
	}
	return nil, nil
}

func (c *cursor) chunks() ([]byte, error) {
	var body []byte
	for {
		line, err := c.line()
		if err != nil {
			return body, err
		}
		if !sizeLine.MatchString(line) {
			return body, fmt.Errorf("the chunk size %q", line)
		}
		size, err := strconv.ParseInt(line, 16, 64)
		if err != nil {
			return body, fmt.Errorf("the chunk size %q", line)
		}
		if size == 0 {
			trailers, err := c.fields()
			if err == nil {
				err = checkTrailers(trailers)
			}
			return body, err
		}
		data, err := c.take(int(size))
		body = append(body, data...)
		if err != nil {
			return body, err
		}
		if end, err := c.take(2); err != nil || string(end) != "\r\n" {
			return body, cmpErr(err, "chunk data without CRLF behind it")
		}
	}
}

func cmpErr(err error, otherwise string) error {
	if err != nil {
		return err
	}
	return errors.New(otherwise)
}

// steering are the names that decide about framing and routing.
var steering = []string{"content-length", "transfer-encoding", "host", "connection", "expect", "upgrade"}

// carelessName is a name as CGI and its heirs read it: without case, and with
// anything but letters and digits as a hyphen.
func carelessName(line string) string {
	name, _, _ := strings.Cut(line, ":")
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// checkDisguises looks for names that a careless backend takes for another.
func checkDisguises(fields []string) error {
	for _, line := range fields {
		name, _, _ := strings.Cut(line, ":")
		if careless := carelessName(line); slices.Contains(steering, careless) && strings.ToLower(name) != careless {
			return fmt.Errorf("a disguised name: %q", line)
		}
	}
	return nil
}

// checkTrailers looks for trailers that a backend could merge into the head.
func checkTrailers(trailers []string) error {
	for _, line := range trailers {
		name := carelessName(line)
		if slices.Contains(steering, name) || strings.HasPrefix(name, "x-forwarded-") {
			return fmt.Errorf("a trailer that steers: %q", line)
		}
	}
	return nil
}

func valuesOf(fields []string, name string) []string {
	var values []string
	for _, line := range fields {
		if key, value, _ := strings.Cut(line, ":"); strings.EqualFold(key, name) {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}
