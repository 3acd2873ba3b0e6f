package filter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// TestScenarios runs the files of testdata. Each has policies.json, and then for
// each case:
//
//	NAME.request   a head; lines before it that start with @ set how it came
//	NAME.response  the backend's head, 200 when it is left out
//	NAME.want      what the backend or the client gets
//
// The cases of a file come one after the other and share what is counted.
func TestScenarios(t *testing.T) {
	archives.Each(t, "testdata/*.txtar", runScenario)
}

func runScenario(t *testing.T, archive *txtar.Archive) {
	sections := make(map[string]*txtar.File)
	for i := range archive.Files {
		sections[archive.Files[i].Name] = &archive.Files[i]
	}
	var policies []route.Policy
	must.Do(t, json.Unmarshal(sections["policies.json"].Data, &policies))
	chain := compile(t, filter.NewCounters(start), policies...)
	for i := range archive.Files {
		name, isRequest := strings.CutSuffix(archive.Files[i].Name, ".request")
		if !isRequest {
			continue
		}
		response := "HTTP/1.1 200 OK\nContent-Length: 0\n\n"
		if section := sections[name+".response"]; section != nil {
			response = string(section.Data) + "\n"
		}
		got := play(t, chain, string(archive.Files[i].Data), response)
		want := sections[name+".want"]
		if want == nil {
			t.Fatalf("%s has no .want", name)
		}
		archives.Check(t, want, got)
	}
}

// play runs one request and prints what becomes of it.
func play(t *testing.T, chain *filter.Chain, request, response string) string {
	t.Helper()
	var options []func(*filter.Exchange)
	trusted := false
	for strings.HasPrefix(request, "@") {
		var line string
		line, request, _ = strings.Cut(request, "\n")
		word, value, _ := strings.Cut(line, " ")
		switch word {
		case "@tls":
			options = append(options, overTLS)
		case "@client":
			options = append(options, from(value))
		case "@trusted":
			trusted = true
		case "@at":
			after := must.Get(time.ParseDuration(value))(t)
			options = append(options, at(after))
		default:
			t.Fatalf("%s is not known", word)
		}
	}
	r := begin(t, chain, request+"\n", options...)
	status := 0
	must.Get(fmt.Sscanf(response, "HTTP/1.1 %d", &status))(t)
	r.finish(status)
	if r.answer != nil {
		reply := r.replied(t, fmt.Sprintf("HTTP/1.1 %d %s\n\n", r.answer.Status, r.answer.Reason))
		return "answer\n" + withoutFraming(reply)
	}
	got := "forward\n" + withoutFraming(r.forwarded(t, trusted))
	if len(r.x.ResponseEdits) > 0 {
		got += "reply\n" + withoutFraming(r.replied(t, response))
	}
	return got
}

// withoutFraming drops what h1 writes about bodies, and the empty line.
func withoutFraming(head string) string {
	var out strings.Builder
	for line := range strings.SplitSeq(head, "\n") {
		switch {
		case line == "", line == "Transfer-Encoding: chunked", line == "Connection: close", line == "Content-Length: 0":
		default:
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}
