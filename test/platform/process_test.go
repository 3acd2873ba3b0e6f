// Package platform runs the real program, slipway platform, with each database, and
// looks at it from outside: its API, its output, what it keeps and how it ends.
package platform

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/test/binary"
)

const (
	// patience is how long anything may take on a busy machine.
	patience = time.Minute
)

// place is a database with what belongs to it.
type place struct {
	args    []string // options of the platform
	dir     string   // what is kept on the disk
	address string   // where it listens; empty is any port
	url     string   // of a PostgreSQL
}

// onBoth runs a test with each database.
func onBoth(t *testing.T, test func(t *testing.T, at place)) {
	t.Run("sqlite", func(t *testing.T) { test(t, sqlitePlace(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, postgresPlace(t)) })
}

func sqlitePlace(t *testing.T) place {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	return place{dir: dir, args: []string{"--state.dir=" + dir}}
}

func postgresPlace(t *testing.T) place {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	url := pgtest.URL(t)
	return place{dir: dir, url: url, args: []string{"--database.url=" + url, "--database.secretKeyFile=" + key}}
}

// process is a platform that runs.
type process struct {
	command *exec.Cmd
	url     string
	out     *tail
	log     *tail
	done    chan struct{}
	err     error // of Wait, after done
}

// tail keeps what a process writes.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (k *tail) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.Write(p)
}

func (k *tail) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.String()
}

// start runs a platform on free ports and waits until it is ready.
func start(t *testing.T, at place, args ...string) *process {
	t.Helper()
	p, listens := launch(t, at, args...)
	select {
	case p.url = <-listens:
	case <-p.done:
		t.Fatalf("the platform ended: %v\n%s", p.err, p.log)
	case <-time.After(patience):
		t.Fatalf("the platform does not listen:\n%s", p.log)
	}
	return p
}

// launch runs a platform; its URL comes when it listens.
func launch(t *testing.T, at place, args ...string) (*process, <-chan string) {
	t.Helper()
	given := append([]string{"platform", "--server.address=" + cmp.Or(at.address, "127.0.0.1:0"), "--health.address=127.0.0.1:0", "--admin.address=127.0.0.1:0", "--log.format=json"}, at.args...)
	p := &process{command: exec.Command(binary.Path(t), append(given, args...)...), out: &tail{}, log: &tail{}, done: make(chan struct{})}
	p.command.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	p.command.Stdout = p.out
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	listens := make(chan string, 1)
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(io.TeeReader(stderr, p.log))
		for lines.Scan() {
			var line struct{ Msg, Server, URL string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Server == "platform" && line.Msg == "server listens" {
				listens <- line.URL
			}
		}
		p.err = p.command.Wait()
	}()
	t.Cleanup(func() { p.kill() })
	return p, listens
}

// kill ends the process as a machine that loses its power does.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it may be over
	<-p.done
}

// stop ends the process in good order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("it does not stop:\n%s", p.log)
	}
	if p.err != nil {
		t.Errorf("it ended with %v:\n%s", p.err, p.log)
	}
}

// run runs a command to its end.
func run(t *testing.T, at place, words ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, binary.Path(t), append(append([]string{"platform"}, words...), at.args...)...)
	command.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	out, err := command.CombinedOutput()
	return string(out), err
}

// bearer adds a token to requests.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}
