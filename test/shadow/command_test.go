package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/shadow"
)

// run runs the command to its end, and returns exit code, output and messages.
func run(t *testing.T, input string, words ...string) (code int, out, messages string) {
	t.Helper()
	program := command(words...)
	var stdout, stderr bytes.Buffer
	program.Stdin, program.Stdout, program.Stderr = strings.NewReader(input), &stdout, &stderr
	err := program.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return program.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// decodeReport reads a report in JSON.
func decodeReport(t *testing.T, text string) *shadow.Report {
	t.Helper()
	report := &shadow.Report{}
	must.Do(t, json.Unmarshal([]byte(text), report))
	return report
}

// twoHosts starts a pair in which the host moved.example leads to another backend.
func twoHosts(t *testing.T, more string) *ground {
	t.Helper()
	g := newGround(t)
	var servers, rules strings.Builder
	for _, one := range []planted{{name: "kept"}, {name: "moved", rule: to("two")}} {
		server, rule := one.configure(g)
		servers.WriteString(strings.Replace(server, "location / {", "access_log LOG upstreaminfo; "+more+" location / {", 1))
		rules.WriteString(rule)
	}
	log := filepath.Join(t.TempDir(), "access.log")
	g.startNGINX(t, strings.ReplaceAll(servers.String(), "LOG", log))
	g.startEdge(t, rules.String())
	return g
}

// TestAccessLog: the command reads an access log, in every form of output, and has the
// result as its exit code.
func TestAccessLog(t *testing.T) {
	g := twoHosts(t, "")
	line := func(host, request, agent string) string {
		return fmt.Sprintf("%s 192.0.2.7 - - [17/Nov/2026:10:00:00 +0000] %q 200 12 \"-\" %q\n", host, request, agent)
	}
	kept := line("kept.example", "GET /a HTTP/1.1", "client") + line("kept.example", "POST /order HTTP/1.1", "client") +
		line("kept.example", "GET /a HTTP/1.1", "client slipway-shadow")
	moved := kept + line("moved.example", "GET /b?token=hunter2&q=1 HTTP/1.1", "client") + "no line of a log\n"
	file := filepath.Join(t.TempDir(), "access.log")
	must.Do(t, os.WriteFile(file, []byte(moved), 0o600))
	pair := []string{"--old", "http://" + g.nginx, "--new", "http://" + g.edge, "--rate", "0"}

	code, out, messages := run(t, kept, append(pair, "--access-log", "-", "-o", "json")...)
	report := decodeReport(t, out)
	if code != 0 || report.Compared != 1 || report.SkippedBy[shadow.SkipMethod] != 1 || report.SkippedBy[shadow.SkipOwn] != 1 {
		t.Errorf("exit code %d, %+v, %s", code, report, messages)
	}
	for _, form := range []string{"table", "json", "yaml", "html"} {
		code, out, messages := run(t, "", append(pair, "--access-log", file, "--admin", g.admin, "-o", form)...)
		for _, want := range []string{"moved.example", "moved[0][0]", "body", "q=1"} {
			if code != 1 || !strings.Contains(out, want) || strings.Contains(out, "hunter2") {
				t.Errorf("%s: exit code %d, without %q:\n%s%s", form, code, want, out, messages)
			}
		}
	}
	// An empty comparison is no success, and neither is one without a controller.
	nowhere := "http://" + programs.FreeAddress(t).String()
	for _, words := range [][]string{
		append(pair, "--access-log", "-"), append(pair, "--access-log", file+"x"), append(pair, "--ignore", "what", "--access-log", file),
		{"--old", nowhere, "--new", nowhere, "--access-log", file}, {"--access-log", file}, pair, {"--route-only", "--access-log", file},
	} {
		if code, out, messages := run(t, "", words...); code != 2 || messages == "" {
			t.Errorf("%q: exit code %d, %s%s", words, code, out, messages)
		}
	}
	if sent := g.unsafe.Load(); sent != 0 {
		t.Errorf("%d unsafe requests were sent", sent)
	}
}

// TestRouteOnly: the backend of ingress-nginx's log is compared with that of the edge, and
// no backend gets a request.
func TestRouteOnly(t *testing.T) {
	g := twoHosts(t, "")
	before := g.flips.Load()
	line := func(target, upstream string) string {
		return fmt.Sprintf("192.0.2.7 - - [17/Nov/2026:10:00:00 +0000] \"GET %s HTTP/1.1\" 200 12 \"-\" \"client\" 100 0.001 [%s] [] 10.0.0.1:80 12 0.001 200 abc\n", target, upstream)
	}
	for host, want := range map[string]string{"kept.example": "", "moved.example": "backend", "none.example": "backend"} {
		code, out, messages := run(t, line("/a", "default-one-80")+line("/b", "default-one-80"),
			"--route-only", "--admin", g.admin, "--host", host, "--access-log", "-", "-o", "json")
		report := decodeReport(t, out)
		causes := ""
		for _, group := range report.Groups {
			causes += group.Cause.String()
		}
		if report.Compared != 2 || !strings.HasPrefix(causes, want) || (want == "") != (causes == "") || (code == 0) != (want == "") {
			t.Errorf("%s: exit code %d, %s%s", host, code, out, messages)
		}
	}
	// Without a host, the rules of the edge have it: default-two-80 is a backend of one.
	code, out, messages := run(t, line("/a", "default-two-80")+line("/a", "default-slow-80"), "--route-only", "--admin", g.admin, "--access-log", "-", "-o", "json")
	if report := decodeReport(t, out); code != 0 || report.Compared != 1 || report.SkippedBy[shadow.SkipHost] != 1 {
		t.Errorf("exit code %d, %s%s", code, out, messages)
	}
	if g.flips.Load() != before {
		t.Error("a backend got a request")
	}
}

// TestMirror: nginx mirrors what clients send. The requests of the comparison come back as
// copies, too, and are not compared again; methods that change something are not sent.
func TestMirror(t *testing.T) {
	address := programs.FreeAddress(t).String()
	g := twoHosts(t, `mirror /mirror; location = /mirror { internal; proxy_set_header Host $http_host; proxy_pass http://`+address+`$request_uri; }`)
	program := command("--old", "http://"+g.nginx, "--new", "http://"+g.edge, "--listen", address, "--max", "20", "--rate", "0", "-o", "json")
	var out bytes.Buffer
	program.Stdout = &out
	process := programs.Run(t, "the comparison", program)
	process.AwaitListener(t, "tcp", address)
	for i := range 10 {
		for _, host := range []string{"kept.example", "moved.example"} {
			request(t, g.nginx, http.MethodPost, host, "/order")
			request(t, g.nginx, http.MethodGet, host, fmt.Sprintf("/a%%20b/%d?q=1", i))
		}
	}
	if state := process.Wait(t); state.ExitCode() != 1 {
		t.Fatalf("exit code %d: %s", state.ExitCode(), process.Output())
	}
	report := decodeReport(t, out.String())
	if len(report.Groups) != 1 || report.Groups[0].Host != "moved.example" || report.Groups[0].Count != report.Different || report.Different == 0 {
		t.Errorf("the report is %s", out.String())
	}
	if report.Compared != 20 || report.SkippedBy[shadow.SkipMethod] == 0 || report.SkippedBy[shadow.SkipOwn] == 0 {
		t.Errorf("the counts are %+v, skipped %v", report.Counts, report.SkippedBy)
	}
	example := report.Groups[0].Example
	if !strings.HasPrefix(example.URL, "http://moved.example/a%20b/") || example.Headers["Cookie"] != "[redacted]" || strings.Contains(out.String(), "hunter2") {
		t.Errorf("the example is %+v", example)
	}
	if sent := g.unsafe.Load(); sent != 20 {
		t.Errorf("backends got %d POSTs, clients sent 20", sent)
	}
}

// TestEdgeMirror: the edge mirrors to the command, too, and is compared with nginx.
func TestEdgeMirror(t *testing.T) {
	g := newGround(t)
	listener := programs.FreeAddress(t)
	g.backends["shadow"] = listener
	mirrored := planted{name: "mirrored", rule: "policies: [{mirror: {backend: {namespace: default, name: shadow, port: 80}, percent: 100, maxBodyBytes: 1024}}]"}
	server, rule := mirrored.configure(g)
	g.startNGINX(t, server)
	g.startEdge(t, rule)
	program := command("--old", "http://"+g.edge, "--new", "http://"+g.nginx, "--listen", listener.String(), "--max", "5", "--rate", "0", "-o", "json")
	var out bytes.Buffer
	program.Stdout = &out
	process := programs.Run(t, "the comparison", program)
	process.AwaitListener(t, "tcp", listener.String())
	for i := range 5 {
		request(t, g.edge, http.MethodPost, "mirrored.example", "/order")
		request(t, g.edge, http.MethodGet, "mirrored.example", fmt.Sprintf("/a/%d", i))
	}
	if state := process.Wait(t); state.ExitCode() != 0 {
		t.Fatalf("exit code %d: %s%s", state.ExitCode(), process.Output(), out.String())
	}
	if report := decodeReport(t, out.String()); report.Compared != 5 || report.Same != 5 {
		t.Errorf("the counts are %+v, skipped %v", report.Counts, report.SkippedBy)
	}
}

// request sends a request of a client.
func request(t *testing.T, address, method, host, path string) {
	t.Helper()
	sent := must.Get(http.NewRequestWithContext(context.Background(), method, "http://"+address, nil))(t)
	sent.Host, sent.URL.Opaque = host, path
	sent.Header.Set("Cookie", "session=hunter2")
	transport := &http.Transport{DisableKeepAlives: true}
	response := must.Get(transport.RoundTrip(sent))(t)
	must.Do(t, response.Body.Close())
}
