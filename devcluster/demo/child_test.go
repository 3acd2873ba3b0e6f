package demo_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/slipway/devcluster/demo"
	"slipway.dev/slipway/devcluster/must"
)

// patience bounds every wait of these tests; passing tests never use it up.
const patience = 30 * time.Second

// TestMain is the re-executed binary of the process node: with demo-echo as
// first argument it is the server, else it runs the tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "demo-echo" {
		os.Exit(demo.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// child is one running server process.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *lines
	stderr bytes.Buffer // read it after the exit
	exited chan struct{}
	addr   string
}

// command is the server as the node starts it, with nothing of the test's
// environment.
func command(image string, env []string, args ...string) *exec.Cmd {
	img, err := demo.Lookup(image)
	if err != nil {
		panic(err)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, append(img.Args, args...)...)
	// The race detector of the server sleeps for a second at its end otherwise.
	cmd.Env = append(append(img.Env, "HOSTNAME=pod-1", "GORACE=atexit_sleep_ms=0"), env...)
	return cmd
}

// launch starts the server on a reserved port and does not wait for it.
func launch(t *testing.T, image string, env []string, args ...string) *child {
	t.Helper()
	addr := reserve(t)
	env = append([]string{"SLIPWAY_DEMO_LISTEN=8080=" + addr}, env...)
	return launchCommand(t, command(image, env, args...), addr)
}

// start is launch, and waits until the server listens.
func start(t *testing.T, image string, env []string, args ...string) *child {
	t.Helper()
	c := launch(t, image, env, args...)
	c.awaitLog("msg=listening")
	return c
}

func launchCommand(t *testing.T, cmd *exec.Cmd, addr string) *child {
	t.Helper()
	c := &child{t: t, cmd: cmd, stdout: newLines(), exited: make(chan struct{}), addr: addr}
	if cmd.Stdout == nil {
		cmd.Stdout = c.stdout
	}
	cmd.Stderr = &c.stderr
	stdin := must.Get(cmd.StdinPipe())(t)
	c.stdin = stdin
	must.Do(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // the state is in cmd.ProcessState
		close(c.exited)
	}()
	t.Cleanup(func() {
		stdin.Close()
		c.exitCode()
		if out := c.stderr.String(); strings.Contains(out, "DATA RACE") || strings.Contains(out, "panic") {
			t.Errorf("stderr of the server:\n%s", out)
		}
	})
	return c
}

// exitCode waits for the process to end.
func (c *child) exitCode() int {
	c.t.Helper()
	select {
	case <-c.exited:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		_ = c.cmd.Process.Kill()
		<-c.exited
		c.t.Fatalf("the process did not end; its log:\n%s", c.stdout)
		return -1
	}
}

func (c *child) terminate() {
	c.t.Helper()
	must.Do(c.t, c.cmd.Process.Signal(syscall.SIGTERM))
}

// awaitLog waits for a log line that contains all the words.
func (c *child) awaitLog(words ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !c.stdout.await(ctx, c.exited, words) {
		c.t.Fatalf("no log line with %q; the log:\n%s", words, c.stdout)
	}
}

// answer is a response with its body already read.
type answer struct {
	*http.Response
	body string
}

// fetch sends one request over a connection of its own.
func (c *child) fetch(method, path string, change ...func(*http.Request)) answer {
	c.t.Helper()
	return c.fetchWith(newClient(c.t, false), method, path, change...)
}

func (c *child) fetchWith(client *http.Client, method, path string, change ...func(*http.Request)) answer {
	c.t.Helper()
	req := must.Get(http.NewRequestWithContext(c.t.Context(), method, "http://"+c.addr+path, nil))(c.t)
	for _, f := range change {
		f(req)
	}
	res := must.Get(client.Do(req))(c.t)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatalf("reading the answer to %s %s: %v", method, path, err)
	}
	return answer{Response: res, body: string(body)}
}

func newClient(t *testing.T, http2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// dial opens a connection whose bytes the test writes itself.
func (c *child) dial() net.Conn {
	c.t.Helper()
	conn := must.Get(net.DialTimeout("tcp", c.addr, patience))(c.t)
	c.t.Cleanup(func() { conn.Close() })
	must.Do(c.t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// reserve does what the node does for a Pod's life: a socket that is bound and
// does not listen, on a free port that others may share on purpose only.
func reserve(t *testing.T) string {
	t.Helper()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	// Not SO_REUSEADDR as well: with it on both sides Linux gives the port of a
	// socket that does not listen to any other socket.
	must.Do(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	must.Do(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound := must.Get(unix.Getsockname(fd))(t)
	return fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
}

// lines collects the log and lets a test wait for a line.
type lines struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await reports whether a line with all the words came before the end.
func (l *lines) await(ctx context.Context, ended <-chan struct{}, words []string) bool {
	for {
		l.mu.Lock()
		text, changed := l.text.String(), l.changed
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			if containsAll(line, words) {
				return true
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		case <-ended:
			// Everything was written before the end was announced.
			if text == l.String() {
				return false
			}
		}
	}
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}
