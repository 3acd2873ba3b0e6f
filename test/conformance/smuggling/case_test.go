package smuggling

import (
	"fmt"
	"strings"
)

// verdict is what the edge has to do with a case.
type verdict int

const (
	// either: it may refuse or serve, as long as all readers read the same.
	either verdict = iota
	// refuse: it responds with an error and closes, and no backend receives it.
	refuse
	// serve: it passes all of it on, the canary too.
	serve
)

// sample is one request, or a few, for one connection.
type sample struct {
	name string
	raw  string
	want verdict
	// open is set when the hidden request is not hidden: by every reading of the
	// standard it is a request of its own.
	open bool
	// loose is set when the meaning of the case is undefined: its length may reach
	// into the canary.
	loose bool
}

// stamp stands for the nonce in the text of a case. It is as long as a nonce,
// so lengths are right before it is replaced.
const stamp = "q0000000q"

const site = "edge.test"

// canary is the honest request behind each case.
const canary = "GET /canary-" + stamp + " HTTP/1.1\r\nHost: " + site + "\r\nX-Nonce: " + stamp + "\r\nConnection: close\r\n\r\n"

// hidden is the request that a case tries to get past the edge.
const hidden = "GET /hidden-" + stamp + " HTTP/1.1\r\nHost: " + site + "\r\nX-Nonce: " + stamp + "\r\n\r\n"

// unfinished is a hidden request that swallows the request line of what
// follows, and takes its Host.
const unfinished = "GET /hidden-" + stamp + " HTTP/1.1\r\nX-Rest: "

// chunkedHidden ends a chunked body early; by its length it is all body.
const chunkedHidden = "0\r\n\r\n" + unfinished

// plainChunks is an honest chunked body.
const plainChunks = "5\r\nhello\r\n0\r\n\r\n"

// nonced is the text of a case, or of a canary, with a nonce.
func nonced(text, nonce string) string { return strings.ReplaceAll(text, stamp, nonce) }

// post is a POST with header lines and a body.
func post(body string, lines ...string) string {
	return message("POST /case-"+stamp+" HTTP/1.1", body, append([]string{"Host: " + site}, lines...)...)
}

// get is a GET with header lines.
func get(lines ...string) string {
	return message("GET /case-"+stamp+" HTTP/1.1", "", append([]string{"Host: " + site}, lines...)...)
}

// message is a request line, a nonce, header lines and a body.
func message(line, body string, lines ...string) string {
	lines = append([]string{line, "X-Nonce: " + stamp}, lines...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// length is an honest Content-Length line.
func length(body string) string { return fmt.Sprintf("Content-Length: %d", len(body)) }

const chunked = "Transfer-Encoding: chunked"

// family is a list of cases about one thing.
type family []sample

func (f *family) add(want verdict, name, raw string) {
	*f = append(*f, sample{name: name, raw: raw, want: want})
}

// addOpen adds a case whose hidden request is a request.
func (f *family) addOpen(want verdict, name, raw string) {
	*f = append(*f, sample{name: name, raw: raw, want: want, open: true})
}

// corpus is every case, each with a name of its own.
func corpus() []sample {
	var all []sample
	families := []struct {
		name  string
		cases family
	}{
		{"length", lengthValues()},
		{"length-name", lengthNames()},
		{"lengths", lengthPairs()},
		{"coding", codingValues()},
		{"coding-name", codingNames()},
		{"both", bothLengths()},
		{"odd-byte", oddBytes()},
		{"line-end", lineEnds()},
		{"fold", folds()},
		{"chunk-size", chunkSizes()},
		{"chunk-extension", chunkExtensions()},
		{"chunk-end", chunkEnds()},
		{"trailer", trailers()},
		{"request-line", requestLines()},
		{"version", versions()},
		{"method", methods()},
		{"target", targets()},
		{"host", hosts()},
		{"connection", connections()},
		{"expect", expectations()},
		{"upgrade", upgrades()},
		{"pipeline", pipelines()},
		{"size", sizes()},
	}
	for _, f := range families {
		for i, c := range f.cases {
			c.name = fmt.Sprintf("%s/%d %s", f.name, i, c.name)
			all = append(all, c)
		}
	}
	return all
}
