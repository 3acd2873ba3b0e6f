package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// processTimeout bounds everything that a process of a test may take.
const processTimeout = 30 * time.Second

// process is a running `slipway edge` whose data plane is the test's.
type process struct {
	*programs.Process
	stdin   io.WriteCloser
	servers map[string]string // URL by the name of the server
}

// start starts the process and waits until its servers listen.
func start(t *testing.T, environ []string, args ...string) *process {
	t.Helper()
	clitest.Clean(t)
	command := exec.Command(os.Args[0], append([]string{"edge", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--log.format=json"}, args...)...)
	command.Env = append(append(os.Environ(), processVariable+"=1"), environ...)
	stdin := must.Get(command.StdinPipe())(t)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	p := &process{Process: programs.Run(t, "the edge", command), stdin: stdin, servers: map[string]string{}}
	for _, server := range []string{"admin", "health"} {
		p.servers[server] = "http://" + p.Address(t, server)
	}
	return p
}

// wait gives the exit code and the whole log.
func (p *process) wait(t *testing.T) (int, string) {
	t.Helper()
	return p.Wait(t).ExitCode(), p.Log.String()
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must.Do(t, p.Signal(s))
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	response := must.Get(http.Get(url))(t)
	defer func() { _ = response.Body.Close() }()
	body := must.Get(io.ReadAll(io.LimitReader(response.Body, 1<<20)))(t)
	return response.StatusCode, string(body)
}

// becomes waits until readiness is what it should be.
func (p *process) becomes(t *testing.T, status int, body string) {
	t.Helper()
	for deadline := time.Now().Add(processTimeout); ; {
		s, b := fetch(t, p.servers["health"]+"/readyz")
		if s == status && b == body {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("readyz stays %d %q, wanted %d %q", s, b, status, body)
		}
	}
}

func TestSignals(t *testing.T) {
	for name, first := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			p := start(t, nil, "--providers.kubernetesingress")
			p.becomes(t, 200, "ready\n")
			p.signal(t, first)
			// It has work left, and is not ready until that is done.
			p.becomes(t, 503, "not ready\nprocess: it is stopping\n")
			must.Do(t, p.stdin.Close())
			code, logged := p.wait(t)
			if code != 0 || !strings.Contains(logged, "edge has stopped") {
				t.Errorf("exit code %d: %s", code, logged)
			}
		})
	}
}

func TestSecondSignal(t *testing.T) {
	p := start(t, nil, "--providers.kubernetesingress")
	p.becomes(t, 200, "ready\n")
	p.signal(t, syscall.SIGTERM)
	p.becomes(t, 503, "not ready\nprocess: it is stopping\n")
	p.signal(t, syscall.SIGTERM) // its work is not done: standard input is open
	if code, logged := p.wait(t); code != 130 {
		t.Errorf("exit code %d: %s", code, logged)
	}
}

// TestPorts: profiles are on the admin server only, metrics on the health
// server only.
func TestPorts(t *testing.T) {
	p := start(t, nil, "--providers.kubernetesingress")
	for _, c := range []struct {
		server, path string
		status       int
		body         string
	}{
		{"health", "/healthz", 200, "ok\n"},
		{"health", "/metrics", 200, "slipway_build_info{"},
		{"health", "/debug/pprof/", 404, ""},
		{"health", "/debug/pprof/heap", 404, ""},
		{"admin", "/debug/pprof/", 200, "goroutine"},
		{"admin", "/debug/pprof/cmdline", 404, ""},
		{"admin", "/metrics", 404, ""},
	} {
		if status, body := fetch(t, p.servers[c.server]+c.path); status != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s%s: %d %.80q", c.server, c.path, status, body)
		}
	}
	if !strings.HasPrefix(p.servers["admin"], "http://127.0.0.1:") {
		t.Errorf("the admin server is at %s", p.servers["admin"])
	}
}

// TestOptionsAreLogged: what is set is in the log, and no secret is.
func TestOptionsAreLogged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edge.yaml")
	must.Do(t, os.WriteFile(file, []byte("providers: {kubernetesIngress: {token: do-not-show, ingressClass: x}}"), 0o600))
	p := start(t, []string{"SLIPWAY_PROVIDERS_KUBERNETESINGRESS_LABELSELECTOR=a=b"}, "--configFile="+file)
	_, profile := fetch(t, p.servers["admin"]+"/debug/pprof/goroutine?debug=2")
	_, metrics := fetch(t, p.servers["health"]+"/metrics")
	p.signal(t, syscall.SIGTERM)
	must.Do(t, p.stdin.Close())
	_, logged := p.wait(t)
	for _, want := range []string{
		`"msg":"options come from a file","file":"` + file + `"`,
		`"option":"providers.kubernetesIngress.token","value":"[redacted]"`,
		`"option":"providers.kubernetesIngress.ingressClass","value":"x"`,
		`"option":"providers.kubernetesIngress.labelSelector","value":"a=b"`,
	} {
		if !strings.Contains(logged, want) {
			t.Errorf("no %s in %s", want, logged)
		}
	}
	if strings.Contains(logged, "strictPrefixMatching") {
		t.Error("a default is logged")
	}
	if strings.Contains(logged+profile+metrics, "do-not-show") {
		t.Error("the token is shown")
	}
}

// TestBinary: the program as it is built, with what the linker sets.
func TestBinary(t *testing.T) {
	clitest.Clean(t)
	binary := filepath.Join(t.TempDir(), "slipway")
	// The flags of `make build`: with others everything would be compiled again.
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "-ldflags",
		"-X slipway.dev/slipway/internal/cli/buildinfo.version=v1.2.3 -X slipway.dev/slipway/internal/cli/buildinfo.commit=abcdef", "../../cmd/slipway")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(args ...string) clitest.Result {
		ctx, cancel := context.WithTimeout(t.Context(), processTimeout)
		defer cancel()
		var stdout, stderr bytes.Buffer
		command := exec.CommandContext(ctx, binary, args...)
		command.Stdout, command.Stderr = &stdout, &stderr
		if err := command.Run(); err != nil && command.ProcessState == nil {
			t.Fatal(err)
		}
		return clitest.Result{Code: command.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	}
	if got := run("version"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "slipway v1.2.3\ncommit abcdef\ngo1.") {
		t.Errorf("version: %+v", got)
	}
	var facts map[string]string
	must.Do(t, json.Unmarshal([]byte(run("version", "--output", "json").Stdout), &facts))
	for key, want := range map[string]string{"version": "v1.2.3", "commit": "abcdef", "goVersion": "go1.", "platform": "linux/"} {
		if !strings.HasPrefix(facts[key], want) {
			t.Errorf("%s is %q", key, facts[key])
		}
	}
	if got := run("edge"); got.Code != 2 || !strings.Contains(got.Stderr, "no provider is enabled") {
		t.Errorf("edge: %+v", got)
	}
	if got := run("edge", "--print-config"); got.Code != 0 || !strings.Contains(got.Stdout, "entryPoints:") {
		t.Errorf("edge --print-config: %+v", got)
	}
}
