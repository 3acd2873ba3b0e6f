package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	// AdminEmail is the first admin of a platform.
	AdminEmail = "admin@localhost"
	// ChosenPassword is the password that the admin chooses in place of the
	// one-time password.
	ChosenPassword = "correct horse battery staple"
)

// PlatformWorld is a platform that runs as a process, and a user who works with
// it: commands are processes too, with a home directory of their own.
type PlatformWorld struct {
	// Url is the address that the platform listens on, and OneTime the password
	// of its first admin.
	Url, OneTime string
	// Home is the home directory of the user, and Config the file of contexts
	// in it.
	Home, Config string
	Log          *programs.Output
	// Environ is added to the environment of commands.
	Environ []string
}

// NewPlatformWorld starts a platform with its first account and waits until it
// listens. args are added to its options. SIGTERM stops it when the test ends;
// the kernel kills it if the test binary dies.
func NewPlatformWorld(t *testing.T, args ...string) *PlatformWorld {
	t.Helper()
	home := t.TempDir()
	w := &PlatformWorld{Home: home, Config: filepath.Join(home, ".config", "slipway", "config.yaml")}
	args = append([]string{
		"platform", "--server.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--admin.address=127.0.0.1:0", "--log.format=json",
		"--state.dir=" + filepath.Join(t.TempDir(), "state"),
	}, args...)
	process := programs.Run(t, "the platform", w.Command(context.Background(), args))
	t.Cleanup(func() { _ = process.End(nil) }) // other tests look at how it ends
	w.Log = process.Log
	w.Url = process.Listens(t, "platform").URL
	w.OneTime = process.Password(t)
	return w
}

// Command returns a command line of the user as a process of the test binary.
// Its environment has the home directory and PATH only: variables of the
// developer must not reach it.
func (w *PlatformWorld) Command(ctx context.Context, args []string) *exec.Cmd {
	command := exec.CommandContext(ctx, os.Args[0], args...)
	command.Env = append([]string{ProgramVariable + "=1", "HOME=" + w.Home, "PATH=" + os.Getenv("PATH")}, w.Environ...)
	command.Dir = w.Home
	return command
}

// RunWith runs a command line, split at blanks, with text on standard input,
// and waits for its end within AppPatience. A nonzero exit code is a result and
// no failure of the test.
func (w *PlatformWorld) RunWith(t *testing.T, input, line string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), AppTimeout)
	defer cancel()
	command := w.Command(ctx, strings.Fields(line))
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	err := command.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return Result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Run runs a command line without input.
func (w *PlatformWorld) Run(t *testing.T, line string) Result {
	t.Helper()
	return w.RunWith(t, "", line)
}

// Must runs a command line that has to succeed, and returns its standard
// output.
func (w *PlatformWorld) Must(t *testing.T, line string) string {
	t.Helper()
	got := w.Run(t, line)
	if got.Code != 0 {
		t.Fatalf("%s: %+v", line, got)
	}
	return got.Stdout
}

// Fails runs a command line that has to end with a code and with want in its
// standard error.
func (w *PlatformWorld) Fails(t *testing.T, line string, code int, want string) {
	t.Helper()
	if got := w.Run(t, line); got.Code != code || !strings.Contains(got.Stderr, want) {
		t.Errorf("%s: got %+v, wanted %d and %q", line, got, code, want)
	}
}

// Login signs the admin in for the first time, which exchanges the one-time
// password, and makes the context test current.
func (w *PlatformWorld) Login(t *testing.T) {
	t.Helper()
	got := w.RunWith(t, w.OneTime+"\n"+ChosenPassword+"\n", "login "+w.Url+" --email "+AdminEmail+" --password-stdin --name test")
	if got.Code != 0 {
		t.Fatalf("login: %+v\n%s", got, w.Log)
	}
}

// Key returns the API key of the first context in the user's file.
func (w *PlatformWorld) Key(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile(w.Config))(t)
	for _, line := range strings.Split(string(text), "\n") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "key: "); ok {
			return value
		}
	}
	t.Fatalf("there is no key in\n%s", text)
	return ""
}

// Bearer is a transport that adds a token to requests.
type Bearer struct{ Token string }

// RoundTrip sends a request with the token.
func (b Bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.Token)
	return http.DefaultTransport.RoundTrip(request)
}

// Registered registers a runtime with the key of the user, and returns the API
// client that its agent would have. No agent runs.
func (w *PlatformWorld) Registered(t *testing.T, name string) platformv1connect.AgentServiceClient {
	t.Helper()
	return w.RegisteredAs(t, w.Key(t), name)
}

// RegisteredAs is Registered with an API key of the test.
func (w *PlatformWorld) RegisteredAs(t *testing.T, key, name string) platformv1connect.AgentServiceClient {
	t.Helper()
	admin := platformv1connect.NewRuntimeServiceClient(&http.Client{Transport: Bearer{key}}, w.Url)
	response := must.Get(admin.RegisterRuntime(t.Context(), connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: name, Namespace: "slipway", Cluster: name + "-cluster", ClusterUid: "uid-" + name, Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	})))(t)
	return platformv1connect.NewAgentServiceClient(&http.Client{Transport: Bearer{response.Msg.GetCredential().GetAccessToken()}}, w.Url)
}

// Beat sends a heartbeat of a runtime, in place of its agent.
func Beat(t *testing.T, agent platformv1connect.AgentServiceClient, message *platformv1.HeartbeatRequest) {
	t.Helper()
	must.Get(agent.Heartbeat(t.Context(), connect.NewRequest(message)))(t)
}

// AccountOf returns the ID of the account that the test is signed in to.
func AccountOf(t *testing.T, w *PlatformWorld) string {
	t.Helper()
	var account struct{ ID string }
	if err := json.Unmarshal([]byte(w.Must(t, "account get -o json")), &account); err != nil || account.ID == "" {
		t.Fatalf("%+v, %v", account, err)
	}
	return account.ID
}
