package demo_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"slipway.dev/slipway/devcluster/must"
)

// upload is a request that runs until the test finishes it.
type upload struct {
	t     *testing.T
	conn  net.Conn
	reply *bufio.Reader
}

// beginUpload returns when the handler is running: the server asks for the
// body only when its handler reads it.
func beginUpload(c *child) *upload {
	c.t.Helper()
	u := &upload{t: c.t, conn: c.dial()}
	u.reply = bufio.NewReader(u.conn)
	fmt.Fprintf(u.conn, "POST /api HTTP/1.1\r\nHost: demo.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	line, err := u.reply.ReadString('\n')
	if err != nil || !strings.Contains(line, "100 Continue") {
		c.t.Fatalf("got %q, %v, want 100 Continue", line, err)
	}
	must.Get(u.reply.ReadString('\n'))(c.t)
	return u
}

func (u *upload) finish() (*http.Response, string) {
	u.t.Helper()
	fmt.Fprint(u.conn, "hello")
	res := must.Get(http.ReadResponse(u.reply, nil))(u.t)
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(u.t)
	return res, string(body)
}

func TestTerminateFinishesRequests(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	if got := c.fetch("GET", "/readyz"); got.StatusCode != http.StatusOK {
		t.Fatalf("before: /readyz answers %s", got.Status)
	}
	running := beginUpload(c)

	c.terminate()
	c.awaitLog("msg=draining", "signal=terminated")
	// Connections are accepted while the earlier request runs; /readyz fails,
	// and POST /ready does not bring it back.
	if got := c.fetch("POST", "/ready"); got.StatusCode != http.StatusOK {
		t.Errorf("draining: POST /ready answers %s", got.Status)
	}
	if got := c.fetch("GET", "/readyz"); got.StatusCode != http.StatusServiceUnavailable || !strings.Contains(got.body, "stopping") {
		t.Errorf("draining: /readyz answers %s %q", got.Status, got.body)
	}
	if got := c.fetch("GET", "/api"); got.StatusCode != http.StatusOK || !got.Close {
		t.Errorf("draining: /api answers %s, close %t, want 200 and Connection: close", got.Status, got.Close)
	}
	c.terminate() // a second signal changes nothing

	if res, body := running.finish(); res.StatusCode != http.StatusOK || !strings.Contains(body, `"body": "hello"`) {
		t.Errorf("the running request got %s %s", res.Status, body)
	}
	if code := c.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	c.awaitLog("msg=stopped", "finished=true")
}

func TestTerminateHTTP2(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	client := newClient(t, true)
	res := must.Get(client.Get("http://" + c.addr + "/stream?n=20&every=20ms"))(t)
	defer res.Body.Close()

	c.terminate()
	c.awaitLog("msg=draining")
	body, err := io.ReadAll(res.Body)
	if err != nil || strings.Count(string(body), "data: ") != 20 {
		t.Errorf("the running stream got %q, %v, want 20 events", body, err)
	}
	if code := c.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestTerminateGivesUp(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes the 10 s of the drain")
	}
	c := start(t, "slipway.dev/demo:v1", nil)
	stuck := beginUpload(c)
	c.terminate()
	if code := c.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	c.awaitLog("msg=stopped", "finished=false")
	if b, err := io.ReadAll(stuck.reply); err == nil && strings.Contains(string(b), "200 OK") {
		t.Errorf("the stuck request was answered: %s", b)
	}
}

func TestStdinEnds(t *testing.T) {
	t.Parallel()
	t.Run("serving", func(t *testing.T) {
		c := start(t, "slipway.dev/demo:v1", nil)
		beginUpload(c) // a running request does not keep it
		c.stdin.Close()
		c.exitCode()
	})
	t.Run("delayed", func(t *testing.T) {
		c := launch(t, "slipway.dev/demo:v1", nil, "--start-delay=1h")
		c.awaitLog("msg=starting")
		c.stdin.Close()
		c.exitCode()
	})
	t.Run("draining", func(t *testing.T) {
		c := start(t, "slipway.dev/demo:v1", nil, "--drain-delay=10s")
		c.terminate()
		c.awaitLog("msg=draining")
		c.stdin.Close()
		c.exitCode()
		if strings.Contains(c.stdout.String(), "msg=stopped") {
			t.Errorf("it drained to the end; the log:\n%s", c.stdout)
		}
	})
	t.Run("data", func(t *testing.T) {
		c := start(t, "slipway.dev/demo:v1", nil)
		fmt.Fprintln(c.stdin, "ignored")
		if got := c.fetch("GET", "/healthz"); got.StatusCode != http.StatusOK {
			t.Errorf("/healthz answers %s", got.Status)
		}
	})
}

// A server that cannot write its log still ends with its parent.
func TestStdinEndsWithLogBlocked(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	defer w.Close()
	fillPipe(t, w)
	cmd := command("slipway.dev/demo:v1", []string{"SLIPWAY_DEMO_LISTEN=8080=" + reserve(t)})
	cmd.Stdout = w
	c := launchCommand(t, cmd, "")
	c.stdin.Close()
	c.exitCode()
}

// fillPipe writes until a pipe takes no more.
func fillPipe(t *testing.T, w *os.File) {
	t.Helper()
	raw, err := w.SyscallConn()
	must.Do(t, err)
	err = raw.Control(func(fd uintptr) {
		for _, size := range []int{4096, 1} {
			for {
				if _, err := unix.Write(int(fd), make([]byte, size)); err != nil {
					break
				}
			}
		}
		// The child shares this file description and must block on it.
		if err := unix.SetNonblock(int(fd), false); err != nil {
			t.Error(err)
		}
	})
	must.Do(t, err)
}

func TestReservedPort(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	if got := c.fetch("GET", "/api"); got.Header.Get("X-Slipway-Version") != "v1" {
		t.Errorf("got version %q", got.Header.Get("X-Slipway-Version"))
	}
	c.stdin.Close()
	c.exitCode()

	// While no server runs, the port is refused and no other process gets it.
	if conn, err := net.Dial("tcp", c.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling got %v, %v, want connection refused", conn, err)
	}
	if l, err := net.Listen("tcp", c.addr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("listening got %v, %v, want address in use", l, err)
	}

	next := launchCommand(t, command("slipway.dev/demo:v2", []string{"SLIPWAY_DEMO_LISTEN=8080=" + c.addr}), c.addr)
	next.awaitLog("msg=listening")
	if got := next.fetch("GET", "/api"); got.Header.Get("X-Slipway-Version") != "v2" {
		t.Errorf("got version %q", got.Header.Get("X-Slipway-Version"))
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	for _, tt := range []struct {
		name   string
		listen string
		args   []string
		code   int
		stderr string
	}{
		{name: "unknown flag", args: []string{"--colour=red"}, code: 2, stderr: "not defined: -colour"},
		{name: "argument", args: []string{"serve"}, code: 2, stderr: `unexpected argument "serve"`},
		{name: "bad duration", args: []string{"--start-delay=soon"}, code: 2, stderr: `invalid value "soon"`},
		{name: "negative", args: []string{"--log-every=-1s"}, code: 2, stderr: "--log-every must not be negative"},
		{name: "code too large", args: []string{"--exit-code=256"}, code: 2, stderr: "--exit-code must be from 0 to 255"},
		{name: "drain too long", args: []string{"--drain-delay=11s"}, code: 2, stderr: "--drain-delay must not be over 10s"},
		{name: "help", args: []string{"--help"}, code: 0},
		{name: "listen without port", listen: ":8080", code: 2, stderr: "is not containerPort=ip:port"},
		{name: "listen bad port", listen: "0=127.0.0.1:0", code: 2, stderr: "from 1 to 65535"},
		{name: "listen bad address", listen: "80=127.0.0.1", code: 2, stderr: "must be ip:port"},
		{name: "listen taken", listen: "80=" + taken.Addr().String(), code: 1, stderr: "container port 80"},
		{name: "crash", args: []string{"--exit-after=1ms", "--exit-code=7"}, code: 7},
		{name: "crash default", args: []string{"--exit-after=1ms"}, code: 1},
		{name: "crash delayed", args: []string{"--exit-after=1ms", "--start-delay=1h", "--exit-code=8"}, code: 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			listen := tt.listen
			if listen == "" {
				listen = "8080=" + reserve(t)
			}
			c := launchCommand(t, command("slipway.dev/demo", []string{"SLIPWAY_DEMO_LISTEN=" + listen}, tt.args...), "")
			if code := c.exitCode(); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if got := c.stderr.String(); !strings.Contains(got, tt.stderr) || (tt.stderr == "" && got != "") {
				t.Errorf("stderr %q, want %q", got, tt.stderr)
			}
			if tt.name == "help" && !strings.Contains(c.stdout.String(), "--start-delay duration") {
				t.Errorf("help prints %q", c.stdout)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	t.Run("start-delay", func(t *testing.T) {
		c := launch(t, "slipway.dev/demo:v1", nil, "--start-delay=1h")
		c.awaitLog("msg=starting", "version=v1", "colour=blue")
		if conn, err := net.Dial("tcp", c.addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialling got %v, %v, want connection refused", conn, err)
		}
		c.terminate()
		if code := c.exitCode(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
	})
	t.Run("start-delay passes", func(t *testing.T) {
		c := start(t, "slipway.dev/demo:v1", nil, "--start-delay=10ms")
		if got := c.fetch("GET", "/readyz"); got.StatusCode != http.StatusOK {
			t.Errorf("/readyz answers %s", got.Status)
		}
	})
	t.Run("not-ready", func(t *testing.T) {
		c := start(t, "slipway.dev/demo:v1", nil, "--not-ready")
		if got := c.fetch("GET", "/readyz"); got.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("/readyz answers %s", got.Status)
		}
		if got := c.fetch("GET", "/healthz"); got.StatusCode != http.StatusOK {
			t.Errorf("/healthz answers %s", got.Status)
		}
	})
	t.Run("log-every", func(t *testing.T) {
		c := start(t, "slipway.dev/demo:v1", nil, "--log-every=1ms")
		c.awaitLog(`msg="still here"`, "line=3")
	})
	t.Run("drain-delay", func(t *testing.T) {
		c := start(t, "slipway.dev/demo:v1", nil, "--drain-delay=10s")
		c.terminate()
		c.awaitLog("msg=draining")
		if got := c.fetch("GET", "/readyz"); got.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("/readyz answers %s", got.Status)
		}
	})
}
