package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
)

const (
	// maxEchoedBody is the largest body that is sent back; of a larger one only
	// the size is reported.
	maxEchoedBody = 64 << 10
	// maxBody is the largest body that is read at all.
	maxBody = 1 << 30
)

// report is one request as it arrived, and the identity of the server that
// received it. /api responds with its JSON form.
type report struct {
	Name      string      `json:"name"`
	Version   string      `json:"version"`
	Colour    string      `json:"colour"`
	Namespace string      `json:"namespace"`
	IP        string      `json:"ip"`
	Port      int         `json:"port"` // the container port, not the real one
	Method    string      `json:"method"`
	Host      string      `json:"host"`
	Target    string      `json:"target"` // the request target as it was sent
	Path      string      `json:"path"`   // still escaped
	Query     string      `json:"query"`
	Proto     string      `json:"proto"`
	Headers   http.Header `json:"headers"`
	Remote    string      `json:"remote"`
	Body      string      `json:"body"`
	BodyBytes int64       `json:"bodyBytes"`
}

// report reads the request's body and describes the request. When the body
// cannot be read it has sent the error response, and ok is false.
func (s *server) report(w http.ResponseWriter, r *http.Request) (_ report, ok bool) {
	body, size, err := readBody(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "reading the request's body: "+err.Error(), status)
		return report{}, false
	}
	port, _ := r.Context().Value(containerPortKey{}).(int)
	// Without POD_IP the address of the connection is the best information.
	ip := s.self.ip
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && ip == "" {
		ip, _, _ = net.SplitHostPort(local.String())
	}
	return report{
		Name: s.self.name, Version: s.self.version, Colour: s.self.colour, Namespace: s.self.namespace,
		IP: ip, Port: port,
		Method: r.Method, Host: r.Host, Target: r.RequestURI, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Proto: r.Proto, Headers: r.Header, Remote: r.RemoteAddr,
		Body: string(body), BodyBytes: size,
	}, true
}

// readBody reads the body to its end, because a client may wait for that, but
// keeps only one that is small enough to be sent back.
func readBody(r io.Reader) (body []byte, size int64, err error) {
	body, err = io.ReadAll(io.LimitReader(r, maxEchoedBody+1))
	if err != nil {
		return nil, 0, err
	}
	if len(body) <= maxEchoedBody {
		return body, int64(len(body)), nil
	}
	rest, err := io.Copy(io.Discard, r)
	return nil, int64(len(body)) + rest, err
}

// echo handles every path that has no handler of its own, for any method: with
// a page for browsers, JSON if the client accepts it, else text.
func (s *server) echo(w http.ResponseWriter, r *http.Request) {
	accept := r.Header.Values("Accept")
	switch {
	case accepts(accept, "text/html"):
		s.echoPage(w, r)
	case accepts(accept, "application/json"):
		s.echoJSON(w, r)
	default:
		s.echoText(w, r)
	}
}

// accepts reports whether an Accept header contains the type. Wildcards do not
// count: curl sends */* and its users expect text. Quality values are ignored.
func accepts(header []string, mediaType string) bool {
	for part := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, _, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), mediaType) {
			return true
		}
	}
	return false
}

// echoJSON responds with the report as indented JSON. It also serves /api,
// where the Accept header does not matter.
func (s *server) echoJSON(w http.ResponseWriter, r *http.Request) {
	rep, ok := s.report(w, r)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(rep)
}

// echoText responds with the identity of the server and the request in plain
// text.
func (s *server) echoText(w http.ResponseWriter, r *http.Request) {
	rep, ok := s.report(w, r)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	var b bytes.Buffer
	fmt.Fprintf(&b, "Name: %s\nVersion: %s\nColour: %s\n", rep.Name, rep.Version, rep.Colour)
	if rep.Namespace != "" {
		fmt.Fprintf(&b, "Namespace: %s\n", rep.Namespace)
	}
	fmt.Fprintf(&b, "IP: %s\nRemote: %s\n\n%s", rep.IP, rep.Remote, rep.request())
	_, _ = w.Write(b.Bytes())
}

// request formats the request in HTTP/1.1 syntax, with sorted headers so that
// two responses can be compared.
func (rep report) request() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\nHost: %s\n", rep.Method, rep.Target, rep.Proto, rep.Host)
	for _, name := range slices.Sorted(maps.Keys(rep.Headers)) {
		for _, value := range rep.Headers[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	if rep.Body != "" {
		fmt.Fprintf(&b, "\n%s\n", rep.Body)
	}
	return b.String()
}

// page is the response for browsers, with the colour as its background. The
// first background is the fallback for a colour that a container sets and no
// browser supports.
var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Name}} {{.Version}}</title>
<style>
body { margin: 0; font-family: system-ui, sans-serif; color: #fff; background: #334155; background: {{.CSS}}; }
main { max-width: 48rem; margin: 0 auto; padding: 3rem 1.5rem; }
h1 { font-size: 6rem; margin: 0; }
p { font-size: 1.25rem; }
pre { padding: 1rem; border-radius: .5rem; background: rgba(0,0,0,.35); white-space: pre-wrap; overflow-wrap: anywhere; }
</style>
</head>
<body>
<main>
<h1>{{.Version}}</h1>
<p>{{.Colour}}: served by {{.Name}}{{with .Namespace}} in {{.}}{{end}} at {{.IP}} for {{.Remote}}</p>
<pre>{{.Request}}</pre>
</main>
</body>
</html>
`))

// echoPage responds with the page. The content security policy blocks scripts:
// the page shows data of the request, and html/template escapes it.
func (s *server) echoPage(w http.ResponseWriter, r *http.Request) {
	rep, ok := s.report(w, r)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	// The colour of the next rollout must show on reload.
	w.Header().Set("Cache-Control", "no-store")
	_ = page.Execute(w, struct {
		report
		CSS     string
		Request string
	}{rep, css(rep.Colour), rep.request()})
}

// css returns the shade of a built-in colour; any other name is passed on to
// the browser.
func css(colour string) string {
	for _, c := range palette {
		if c.name == colour {
			return c.css
		}
	}
	return colour
}
