package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// serving is the real edge, in this process.
type serving struct {
	// addresses are those of entry points and servers, by name.
	addresses map[string]string
	stop      func() (code int)
}

// serve runs the edge with options until stop, once it takes traffic.
func serve(t *testing.T, options ...string) *serving {
	t.Helper()
	clitest.Clean(t)
	ctx, cancel := context.WithCancel(t.Context())
	logs, stderr := io.Pipe()
	ended := make(chan int, 1)
	args := append([]string{"edge", "--log.format=json", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0"}, options...)
	go func() {
		code := cli.Execute(ctx, args, io.Discard, stderr)
		_ = stderr.Close()
		ended <- code
	}()
	s := &serving{addresses: map[string]string{}}
	s.stop = func() int {
		cancel()
		return <-ended
	}
	ready := make(chan string, 1)
	go func() {
		var said bytes.Buffer
		for lines := bufio.NewScanner(logs); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			var entry struct{ Msg, EntryPoint, Server, Address string }
			if json.Unmarshal(lines.Bytes(), &entry) != nil || entry.Address == "" {
				continue
			}
			s.addresses[entry.EntryPoint+entry.Server] = entry.Address
			if entry.EntryPoint == "websecure" { // the last one
				ready <- ""
			}
		}
		ready <- said.String()
	}()
	if said := <-ready; said != "" {
		t.Fatalf("it ended with %d: %s", s.stop(), said)
	}
	return s
}

// TestEdgeServes: the options reach what serves.
func TestEdgeServes(t *testing.T) {
	dir := t.TempDir()
	routes, lines, last := filepath.Join(dir, "routes.yaml"), filepath.Join(dir, "access.log"), filepath.Join(dir, "last")
	must.Do(t, os.WriteFile(routes, []byte("rules: [{id: {name: all}, response: {status: 204}}]\n"), 0o600))
	options := []string{
		"--providers.file.filename=" + routes, "--lastGood.dir=" + last,
		"--entryPoints.web.address=127.0.0.1:0", "--entryPoints.web.http.redirections.entryPoint.to=:8443",
		"--entryPoints.web.http.encodedCharacters.allowEncodedSlash", "--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=0",
		"--entryPoints.websecure.address=127.0.0.1:0", "--entryPoints.websecure.http.tls", "--entryPoints.websecure.http3",
		"--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=0",
		"--accessLog.filePath=" + lines, "--accessLog.format=json",
	}
	s := serve(t, options...)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	ask := func(url string) *http.Response {
		t.Helper()
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
		response := must.Get(transport.RoundTrip(request))(t)
		_ = response.Body.Close()
		return response
	}
	if r := ask("http://" + s.addresses["web"] + "/a%2fb"); r.StatusCode != 308 || r.Header.Get("Location") != "https://127.0.0.1:8443/a%2Fb" {
		t.Errorf("redirected with %d to %s", r.StatusCode, r.Header.Get("Location"))
	}
	if r := ask("http://" + s.addresses["web"] + "/a%5cb"); r.StatusCode != 400 {
		t.Errorf("a backslash: %d", r.StatusCode)
	}
	if r := ask("https://" + s.addresses["websecure"]); r.StatusCode != 204 || r.ProtoMajor != 2 || !strings.HasPrefix(r.Header.Get("Alt-Svc"), "h3=") {
		t.Errorf("encrypted: %s %d %s", r.Proto, r.StatusCode, r.Header.Get("Alt-Svc"))
	}
	if r := ask("http://" + s.addresses["admin"] + "/api/v1/explain?url=http://x/"); r.StatusCode != 200 {
		t.Errorf("the admin API: %d", r.StatusCode)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if written, err := os.ReadFile(lines); err != nil || bytes.Count(written, []byte("\n")) != 3 {
		t.Errorf("the access log has %q, %v", written, err)
	}

	// The file is gone at the next start: the routes served last are not.
	must.Do(t, os.Remove(routes))
	transport.CloseIdleConnections()
	s = serve(t, options...)
	if r := ask("https://" + s.addresses["websecure"]); r.StatusCode != 204 {
		t.Errorf("without the routes file: %d", r.StatusCode)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestSharedSecretFile: the error names what is wrong with the file.
func TestSharedSecretFile(t *testing.T) {
	clitest.Clean(t)
	dir := t.TempDir()
	routes, short := filepath.Join(dir, "routes.yaml"), filepath.Join(dir, "secret")
	for _, file := range []string{routes, short} {
		must.Do(t, os.WriteFile(file, []byte("{}"), 0o600))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, c := range []struct{ file, want string }{
		{short, "has fewer than 32 bytes; make it with"},
		{filepath.Join(dir, "none"), "shared.secretFile: open"},
	} {
		var stderr bytes.Buffer
		args := []string{"edge", "--providers.file.filename=" + routes, "--shared.secretFile=" + c.file, "--entryPoints.web.address=127.0.0.1:0",
			"--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0"}
		if code := cli.Execute(ctx, args, io.Discard, &stderr); code != 1 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("got %d %s", code, stderr.String())
		}
	}
}
