package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	adminEmail = "admin@localhost"
	// chosenPassword is what the admin takes in place of the one-time password.
	chosenPassword = "correct horse battery staple"
)

// platformWorld is a platform that runs as a process, and a person who works with
// it: commands are processes too, with a home of their own.
type platformWorld struct {
	url, oneTime string
	home, config string
	log          *lockedBuffer
	// environ is added to the environment of commands.
	environ []string
}

// newPlatformWorld starts a platform with its first account.
func newPlatformWorld(t *testing.T, args ...string) *platformWorld {
	t.Helper()
	clean(t)
	home := t.TempDir()
	w := &platformWorld{home: home, config: filepath.Join(home, ".config", "slipway", "config.yaml"), log: &lockedBuffer{}}
	args = append([]string{
		"platform", "--server.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--admin.address=127.0.0.1:0", "--log.format=json",
		"--state.dir=" + filepath.Join(t.TempDir(), "state"),
	}, args...)
	command := w.command(context.Background(), args)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	listens, passwords, done := make(chan string, 1), make(chan string, 1), make(chan struct{})
	go func() {
		defer close(done)
		var reading sync.WaitGroup
		reading.Go(func() { w.followLog(stderr, listens) })
		reading.Go(func() { followPassword(stdout, passwords) })
		reading.Wait()
		_ = command.Wait()
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // it may be over
		<-done
	})
	select {
	case w.url = <-listens:
	case <-done:
		t.Fatalf("the platform ended: %s", w.log)
	}
	select {
	case w.oneTime = <-passwords:
	case <-done:
		t.Fatalf("the platform ended without a password: %s", w.log)
	}
	return w
}

// followPassword finds the password of the first admin. It is printed before the
// platform listens, and may be read after that.
func followPassword(stdout io.Reader, passwords chan<- string) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if _, password, found := strings.Cut(lines.Text(), "password: "); found {
			passwords <- password
		}
	}
}

func (w *platformWorld) followLog(stderr io.Reader, listens chan<- string) {
	lines := bufio.NewScanner(io.TeeReader(stderr, w.log))
	for lines.Scan() {
		var line struct{ Msg, Server, URL string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Server == "platform" && line.Msg == "server listens" {
			listens <- line.URL
		}
	}
}

// command is a command line of the person.
func (w *platformWorld) command(ctx context.Context, args []string) *exec.Cmd {
	command := exec.CommandContext(ctx, os.Args[0], args...)
	command.Env = append([]string{programVariable + "=1", "HOME=" + w.home, "PATH=" + os.Getenv("PATH")}, w.environ...)
	command.Dir = w.home
	return command
}

// runWith runs a command line, split at blanks, with an input.
func (w *platformWorld) runWith(t *testing.T, input, line string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), appPatience)
	defer cancel()
	command := w.command(ctx, strings.Fields(line))
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	err := command.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func (w *platformWorld) run(t *testing.T, line string) result {
	t.Helper()
	return w.runWith(t, "", line)
}

// must runs a command line that has to succeed, and gives its output.
func (w *platformWorld) must(t *testing.T, line string) string {
	t.Helper()
	got := w.run(t, line)
	if got.code != 0 {
		t.Fatalf("%s: %+v", line, got)
	}
	return got.stdout
}

// fails runs a command line that has to end with a code and say something.
func (w *platformWorld) fails(t *testing.T, line string, code int, want string) {
	t.Helper()
	if got := w.run(t, line); got.code != code || !strings.Contains(got.stderr, want) {
		t.Errorf("%s: got %+v, wanted %d and %q", line, got, code, want)
	}
}

// login signs the admin in for the first time.
func (w *platformWorld) login(t *testing.T) {
	t.Helper()
	got := w.runWith(t, w.oneTime+"\n"+chosenPassword+"\n", "login "+w.url+" --email "+adminEmail+" --password-stdin --name test")
	if got.code != 0 {
		t.Fatalf("login: %+v\n%s", got, w.log)
	}
}

// key is the key that the context has.
func (w *platformWorld) key(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(w.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "key: "); ok {
			return value
		}
	}
	t.Fatalf("there is no key in\n%s", text)
	return ""
}

// bearer adds a token to requests.
type bearer struct{ token string }

func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(request)
}

// registered makes a runtime that is known to the platform, and gives what its
// agent would ask with.
func (w *platformWorld) registered(t *testing.T, name string) platformv1connect.AgentServiceClient {
	t.Helper()
	return w.registeredAs(t, w.key(t), name)
}

func (w *platformWorld) registeredAs(t *testing.T, key, name string) platformv1connect.AgentServiceClient {
	t.Helper()
	admin := platformv1connect.NewRuntimeServiceClient(&http.Client{Transport: bearer{key}}, w.url)
	answer, err := admin.RegisterRuntime(t.Context(), connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: name, Namespace: "slipway", Cluster: name + "-cluster", ClusterUid: "uid-" + name, Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	}))
	if err != nil {
		t.Fatal(err)
	}
	return platformv1connect.NewAgentServiceClient(&http.Client{Transport: bearer{answer.Msg.GetCredential().GetAccessToken()}}, w.url)
}

func beat(t *testing.T, agent platformv1connect.AgentServiceClient, told *platformv1.HeartbeatRequest) {
	t.Helper()
	if _, err := agent.Heartbeat(t.Context(), connect.NewRequest(told)); err != nil {
		t.Fatal(err)
	}
}
