package program_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// TestCases: rules, and which of them serves each request. A rule is a name,
// with or without a namespace, and its fields. A request is a method (GET when
// it is left out) or an entry point, a host and path, and headers.
func TestCases(t *testing.T) {
	archives.Each(t, "testdata/route/*.txtar", runCase)
}

func runCase(t *testing.T, archive *txtar.Archive) {
	files := make(map[string][]string)
	for _, file := range archive.Files {
		files[file.Name] = strings.Split(strings.TrimSpace(string(file.Data)), "\n")
	}
	table := &route.Table{EntryPoints: []string{"web", "internal"}}
	for _, line := range files["rules.txt"] {
		table.Rules = append(table.Rules, parseRule(t, line))
	}
	compiled := mustCompile(t, table)
	var last program.Request
	for _, line := range files["requests.txt"] {
		var want string
		last, want = parseRequest(t, line)
		got := "404"
		if rule := compiled.Lookup(&last).Rule; rule != nil {
			got = shortName(rule.ID)
		}
		if got != want {
			t.Errorf("%s: got %s", line, got)
		}
		if rule := oracle(table, &last); (rule == nil) != (want == "404") || rule != nil && shortName(rule.ID) != want {
			t.Errorf("%s: the oracle says %s", line, show(rule))
		}
	}
	if want, ok := files["explain.txt"]; ok {
		checkExplainText(t, compiled, &last, want)
	}
}

func checkExplainText(t *testing.T, compiled *program.Program, req *program.Request, want []string) {
	t.Helper()
	var got []string
	for _, step := range compiled.Explain(req) {
		got = append(got, fmt.Sprintf("%-10s %-10s %s", shortName(step.Rule.ID), step.Decision, step.Why))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func shortName(id route.ID) string {
	if id.Namespace == "" {
		return id.Name
	}
	return id.Namespace + "/" + id.Name
}

func parseRule(t *testing.T, line string) *route.Rule {
	t.Helper()
	fields := strings.Fields(line)
	rule := &route.Rule{ID: route.ID{Name: fields[0]}, Response: &route.Response{Status: 200}}
	if namespace, name, found := strings.Cut(fields[0], "/"); found {
		rule.ID = route.ID{Namespace: namespace, Name: name}
	}
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "host":
			rule.Host = value
		case "exact", "prefix", "characterPrefix", "regexp":
			rule.Match.Path = route.PathMatch{Type: route.PathType(key), Value: value}
		case "fallback":
			rule.Fallback = true
		case "owner":
			rule.HostOwner.Namespace = value
		case "exclusive":
			rule.HostOwner.Exclusive = true
		case "behind":
			rule.HostOwner.Behind = true
		case "priority":
			rule.Priority = int32(number(t, value))
		case "age":
			rule.Created = time.Unix(int64(number(t, value)), 0)
		case "method":
			rule.Match.Methods = strings.Split(value, ",")
		case "scheme":
			rule.Match.Scheme = route.Scheme(value)
		case "entryPoint":
			rule.EntryPoints = []string{value}
		case "header":
			rule.Match.Headers = append(rule.Match.Headers, parseValue(value))
		case "query":
			rule.Match.Query = append(rule.Match.Query, parseValue(value))
		default:
			t.Fatalf("unknown field %s", field)
		}
	}
	return rule
}

// parseValue reads name:value, name~expression, or a name that is present.
func parseValue(text string) route.ValueMatch {
	if name, value, found := strings.Cut(text, ":"); found {
		return route.ValueMatch{Name: name, Type: route.ValueExact, Value: value}
	}
	if name, value, found := strings.Cut(text, "~"); found {
		return route.ValueMatch{Name: name, Type: route.ValueRegexp, Value: value}
	}
	return route.ValueMatch{Name: text, Type: route.ValuePresent}
}

func parseRequest(t *testing.T, line string) (program.Request, string) {
	t.Helper()
	fields := strings.Fields(line)
	req := program.Request{EntryPoint: "web", Method: "GET"}
	header := headers{}
	for _, field := range fields[:len(fields)-1] {
		switch {
		case field == "GET" || field == "POST":
			req.Method = field
		case field == "internal":
			req.EntryPoint = field
		case strings.HasPrefix(field, "X-"):
			name, value, _ := strings.Cut(field, ":")
			header[name] = append(header[name], value)
		default:
			rest, secure := strings.CutPrefix(field, "https://")
			slash := strings.Index(rest, "/")
			req.TLS = secure
			req.Host = rest[:slash]
			req.Path, req.Query, _ = strings.Cut(rest[slash:], "?")
		}
	}
	req.Header = header
	return req, fields[len(fields)-1]
}

func number(t *testing.T, text string) int {
	t.Helper()
	return must.Get(strconv.Atoi(text))(t)
}
