package shadow

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxLineBytes bounds a line of an access log. nginx accepts at most 32 KiB of headers.
const maxLineBytes = 64 << 10

// errLine is the error of a line without a request.
var errLine = errors.New("the line has no request")

// LogParser parses the lines of an access log. Without a format it recognises each line by
// its form: JSON with the names of nginx's variables or of Traefik's fields, the default of
// ingress-nginx, and the combined log format, with a host before or behind it or with what
// Traefik appends.
type LogParser struct {
	// Format is for lines of another form.
	Format *LogFormat
	// Host is for lines without a host.
	Host string
}

// Parse returns the request of a line.
func (p *LogParser) Parse(line string) (*Request, error) {
	line = strings.TrimSpace(line)
	var found fields
	var err error
	switch {
	case p.Format != nil:
		found, err = p.Format.match(line)
	case strings.HasPrefix(line, "{"):
		found, err = parseJSONLine(line)
	default:
		found, err = parseTextLine(line)
	}
	if err != nil {
		return nil, err
	}
	if found["host"] == "" {
		found["host"] = p.Host
	}
	return found.request()
}

// fields are the parts of a line by the names of nginx's variables.
type fields map[string]string

// set adds a field. A dash is how logs write that there is none.
func (f fields) set(name, value string) {
	if value != "-" && value != "" && f[name] == "" {
		f[name] = value
	}
}

// request makes a request of the fields.
func (f fields) request() (*Request, error) {
	r := &Request{Method: f["request_method"], Scheme: f["scheme"], Host: f["host"], Header: http.Header{}, Client: f["remote_addr"]}
	r.Target = f["request_uri"]
	if line := f["request"]; line != "" {
		// The target is all between method and protocol: a client may send blanks.
		method, rest, ok := strings.Cut(line, " ")
		end := strings.LastIndex(rest, " HTTP/")
		if !ok || end < 0 {
			return nil, errLine
		}
		r.Method, r.Target = method, rest[:end]
	}
	if r.Target == "" && f["uri"] != "" {
		// $uri is decoded, and its first spelling is lost.
		r.Target = (&url.URL{Path: f["uri"]}).EscapedPath()
		if f["args"] != "" {
			r.Target += "?" + f["args"]
		}
	}
	r.absolute()
	if r.Method == "" || r.Target == "" || strings.Contains(r.Target, " ") || !isMethod(r.Method) {
		return nil, errLine
	}
	for name, value := range f {
		if header, found := strings.CutPrefix(name, "http_"); found && header != "host" {
			r.Header.Set(strings.ReplaceAll(header, "_", "-"), value)
		}
	}
	r.Recorded.Status, _ = strconv.Atoi(f["status"])
	r.Recorded.Backend = f["proxy_upstream_name"]
	// A canary has the name of its backend in a field of its own.
	if other := f["proxy_alternative_upstream_name"]; other != "" {
		r.Recorded.Backend = other
	}
	return r, nil
}

// absolute splits a target with scheme and host, as proxies get it.
func (r *Request) absolute() {
	for _, scheme := range []string{"http", "https"} {
		rest, found := strings.CutPrefix(r.Target, scheme+"://")
		if !found {
			continue
		}
		host, path, _ := strings.Cut(rest, "/")
		r.Scheme, r.Host, r.Target = scheme, host, "/"+path
	}
}

// isMethod reports whether a text is a method. Lines of broken requests have anything in
// its place.
func isMethod(text string) bool {
	return len(text) <= 32 && !strings.ContainsFunc(text, func(r rune) bool { return r < 'A' || r > 'Z' })
}

// ReadLog submits the requests of an access log until its end. It waits while the queue is
// full, so a log is read no faster than its requests are compared. It also returns when the
// context is done, while the log is a pipe to which nothing is written.
func ReadLog(ctx context.Context, log io.Reader, parser *LogParser, intake *Intake) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines, failed := make(chan string), make(chan error, 1)
	// A read cannot be interrupted. This goroutine ends with the next line at the latest.
	go func() {
		failed <- readLines(ctx, log, lines)
		close(lines)
	}()
	for !intake.full() {
		select {
		case <-ctx.Done():
			return nil
		case line, more := <-lines:
			if !more {
				return <-failed
			}
			submitLine(ctx, line, parser, intake)
		}
	}
	return nil
}

// readLines sends the lines of a log. One that is too long is an unreadable one: its rest
// is dropped, and so is a part of its request.
func readLines(ctx context.Context, log io.Reader, lines chan<- string) error {
	reader := bufio.NewReaderSize(log, maxLineBytes)
	for {
		line, tooLong, err := reader.ReadLine()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		text := string(line)
		if tooLong {
			text = "..."
		}
		for rest := tooLong; rest && err == nil; {
			_, rest, err = reader.ReadLine()
		}
		select {
		case lines <- text:
		case <-ctx.Done():
			return nil
		}
	}
}

// submitLine submits the request of a line.
func submitLine(ctx context.Context, line string, parser *LogParser, intake *Intake) {
	if strings.TrimSpace(line) == "" {
		return
	}
	request, err := parser.Parse(line)
	if err != nil {
		intake.Skip(SkipUnreadable)
		return
	}
	agent := request.Header.Get("User-Agent")
	if strings.HasSuffix(agent, agentMark) {
		intake.Skip(SkipOwn)
		return
	}
	request.Header.Set("User-Agent", strings.TrimSpace(agent+" "+agentMark))
	intake.Submit(ctx, request)
}

// isAddress reports whether a text is an IP address.
func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}
