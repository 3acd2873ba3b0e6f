package ingress

import (
	"context"
	"crypto/tls"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// step is one line of a case, with the lines that belong to it.
type step struct {
	line int
	text string
	// play gives what is wrong; empty is nothing.
	play func(*testing.T, *scene) string
}

// parseSteps reads the section steps. A line is one of these; # starts a comment
// line:
//
//	GET http://a.example/x -> svc-a        this backend responds with 200
//	GET http://a.example/x -> svc-a 500    it responds, with another status
//	GET http://a.example/x -> a, b         one of these responds; sent again and
//	                                       again, each of them does
//	GET http://a.example/x -> 404          the edge responds itself
//	GET http://a.example/x -> no answer    there is no handshake, or no response
//	eventually GET ... -> ...              the same, asked until it is so
//	start GET ... -> ...                   sent, and held by the backend until
//	finish                                 lets go of what is held
//	apply SECTION                          applies it; the edge has seen it then
//	a second later                         what is made next is younger
//	default class NAME                     what is made next without a class gets
//	                                       this one
//	delete KIND/NAME                       deletes an object
//	event KIND/NAME REASON TEXT            there is such an Event, or will be
//	no event KIND/NAME                     there is none now
//	status INGRESS ADDRESS, ADDRESS        its status comes to have just these
//	no status INGRESS                      or none
//	health INGRESS CODE TEXT               it comes to be so, with this in the message
//	balancer SERVICE ADDRESS, ADDRESS      its load balancer gets these addresses
//	counted BACKEND N                      it comes to have got so many requests
//	sick BACKEND, well BACKEND             it fails its health checks, or not
//
// Lines below a request, indented, are its details; see modify. An https URL
// goes to the entry point websecure, an http URL to web.
func parseSteps(t *testing.T, text string) []step {
	t.Helper()
	var steps []step
	var last *request
	number := 0
	for line := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || trimmed[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			if last == nil || !last.modify(trimmed) {
				t.Fatalf("steps, line %d: what is %q?", number, trimmed)
			}
		case strings.Contains(line, " -> "):
			last = parseRequest(t, trimmed)
			steps = append(steps, step{number, trimmed, last.play})
		default:
			last = nil
			deed := parseDeed(trimmed)
			if deed == nil {
				t.Fatalf("steps, line %d: what is %q?", number, trimmed)
			}
			steps = append(steps, step{number, trimmed, func(t *testing.T, c *scene) string { deed(t, c); return "" }})
		}
	}
	if len(steps) == 0 {
		t.Fatal("the case has no steps")
	}
	return steps
}

// request is what is sent, and what is expected.
type request struct {
	method, url string
	eventually  bool
	start       bool

	header     http.Header
	body       int
	protocol   string // h2, or empty for HTTP/1.1
	tlsVersion uint16 // the newest that is spoken; 0 is any
	entryPoint string
	serverName string // of the handshake; empty is the host
	client     string // the certificate that is shown
	jar        string // keeps cookies
	times      int
	same       bool

	wantBackends []string
	wantStatus   int
	wantFailure  bool
	checks       []func(*answer) string
}

func parseRequest(t *testing.T, line string) *request {
	t.Helper()
	q := &request{header: http.Header{}, times: 1}
	sent, want, _ := strings.Cut(line, " -> ")
	words := strings.Fields(sent)
	for len(words) > 2 {
		switch words[0] {
		case "eventually":
			q.eventually = true
		case "start":
			q.start = true
		default:
			t.Fatalf("steps: what is %q?", line)
		}
		words = words[1:]
	}
	if len(words) != 2 {
		t.Fatalf("steps: what is %q?", line)
	}
	q.method, q.url = words[0], words[1]
	want = strings.TrimSpace(want)
	if want == "no answer" {
		q.wantFailure = true
		return q
	}
	names, status := want, ""
	if at := strings.LastIndexByte(want, ' '); at >= 0 {
		names, status = want[:at], want[at+1:]
	}
	switch number, err := strconv.Atoi(status); {
	case status != "" && err == nil:
		q.wantStatus = number
	default:
		names = want
		q.wantStatus = http.StatusOK
	}
	if number, err := strconv.Atoi(names); err == nil {
		q.wantStatus = number
		return q
	}
	for name := range strings.SplitSeq(names, ",") {
		q.wantBackends = append(q.wantBackends, strings.TrimSpace(name))
	}
	return q
}

// modify reads a line below a request:
//
//	with NAME: VALUE             a header of the request
//	body N                       a body of N bytes
//	by h2                        HTTP/2, where it is encrypted
//	by tls1.2                    no newer version of TLS
//	at ENTRYPOINT                another entry point
//	for NAME                     asks for another server name in the handshake
//	as CLIENT                    shows this certificate
//	jar NAME                     keeps cookies between requests with this name
//	times N                      sent so often, with this result each time
//	times N same                 by the same backend each time
//	got host VALUE               the backend received this; and so for path,
//	                             method, protocol and body
//	got NAME: VALUE              it received this header; * is any value
//	got no NAME                  it did not
//	answer NAME: VALUE           the client received this header; * is any value
//	answer no NAME               it did not
//	attributes A; B              those of the cookie that the client received
//	shown NAME                   the common name of the edge's certificate
func (q *request) modify(line string) bool {
	word, rest, _ := strings.Cut(line, " ")
	name, value, pair := strings.Cut(rest, ": ")
	var err error
	switch word {
	case "with":
		q.header.Add(name, value)
		return pair
	case "body":
		q.body, err = strconv.Atoi(rest)
	case "by":
		switch rest {
		case "h2":
			q.protocol = rest
		case "tls1.2":
			q.tlsVersion = tls.VersionTLS12
		default:
			return false
		}
	case "at":
		q.entryPoint = rest
	case "for":
		q.serverName = rest
	case "as":
		q.client = rest
	case "jar":
		q.jar = rest
	case "times":
		count, same := strings.CutSuffix(rest, " same")
		q.same = same
		q.times, err = strconv.Atoi(count)
	case "got", "answer", "attributes", "shown":
		check := parseCheck(word, rest)
		q.checks = append(q.checks, check)
		return check != nil
	default:
		return false
	}
	return err == nil
}

// parseDeed reads a step that is no request; nil when it is none.
func parseDeed(line string) func(*testing.T, *scene) {
	words := strings.Fields(line)
	rest := strings.TrimSpace(strings.TrimPrefix(line, words[0]))
	switch {
	case line == "finish":
		return func(_ *testing.T, c *scene) {
			for _, b := range c.backends {
				b.finish()
			}
			c.pending.Wait()
		}
	case line == "a second later":
		return func(t *testing.T, c *scene) { c.awaitAge(t) }
	case words[0] == "apply" && len(words) == 2:
		return func(t *testing.T, c *scene) {
			if c.sections[rest] == "" {
				t.Fatalf("there is no section %s", rest)
			}
			c.applySection(t, rest)
			c.settle(t)
		}
	case strings.HasPrefix(line, "default class ") && len(words) == 3:
		return func(t *testing.T, c *scene) { c.awaitDefaultClass(t, words[2]) }
	case words[0] == "delete" && len(words) == 2:
		return func(t *testing.T, c *scene) {
			c.remove(t, rest)
			c.settle(t)
		}
	case words[0] == "event" && len(words) > 3:
		text := strings.Join(words[3:], " ")
		return func(t *testing.T, c *scene) { c.awaitEvent(t, words[1], words[2], text) }
	case strings.HasPrefix(line, "no event ") && len(words) == 3:
		return func(t *testing.T, c *scene) { c.refuseEvent(t, words[2]) }
	case words[0] == "status" && len(words) > 2:
		addresses := strings.TrimSpace(strings.TrimPrefix(rest, words[1]))
		return func(t *testing.T, c *scene) { c.awaitStatus(t, words[1], addresses) }
	case words[0] == "balancer" && len(words) > 2:
		addresses := strings.TrimSpace(strings.TrimPrefix(rest, words[1]))
		return func(t *testing.T, c *scene) { c.setBalancer(t, words[1], addresses) }
	case strings.HasPrefix(line, "no status ") && len(words) == 3:
		return func(t *testing.T, c *scene) { c.awaitStatus(t, words[2], "") }
	case words[0] == "health" && len(words) > 2:
		text := strings.Join(words[3:], " ")
		return func(t *testing.T, c *scene) { c.awaitHealth(t, words[1], words[2], text) }
	case words[0] == "counted" && len(words) == 3:
		return func(t *testing.T, c *scene) { c.awaitCount(t, words[1], words[2]) }
	case (words[0] == "sick" || words[0] == "well") && len(words) == 2:
		return func(t *testing.T, c *scene) { c.backend(t, rest).setSick(words[0] == "sick") }
	}
	return nil
}

// backend is a server of the case.
func (c *scene) backend(t *testing.T, name string) *backend {
	t.Helper()
	b := c.backends[name]
	if b == nil {
		t.Fatalf("there is no backend %s", name)
	}
	return b
}

func (c *scene) awaitCount(t *testing.T, name, number string) {
	t.Helper()
	b := c.backend(t, name)
	want := must.Get(strconv.Atoi(number))(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for b.counted() < want && ctx.Err() == nil {
		pause(ctx)
	}
	if got := b.counted(); got != want {
		t.Errorf("%s has got %d requests, want %d", name, got, want)
	}
}

// detached is a context for what comes after a test.
func detached() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}
