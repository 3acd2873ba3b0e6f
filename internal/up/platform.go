package up

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

const (
	platformName = "platform"
	// The ports of the platform, which are its own defaults.
	platformPort       = 8086
	platformHealthPort = 8087
	platformAdminPort  = 8092

	platformOptionsFile = "platform.yaml"
	// firstAdmin is the first user.
	firstAdmin = "admin@localhost"
	// registerKeyFile has the key that the runtime joins with, and adminKeyFile
	// the key of the printed commands. passwordShownFile exists once the
	// password was printed.
	registerKeyFile   = "register.key"
	adminKeyFile      = "admin.key"
	passwordShownFile = "password-told"
	// commandTimeout bounds one command of the platform.
	commandTimeout = 30 * time.Second
	// maxOutput bounds the output of a command.
	maxOutput = 4 << 10
)

// platformOptions is a complete configuration, so that no options of the user's
// own apply.
const platformOptions = `# The options of the platform. slipway up rewrites them at each start.
log:
  format: text
server:
  address: %q
admin:
  address: %q
health:
  address: %q
state:
  dir: %q
tunnel:
  domain: localhost
firstStart:
  email: %q
`

// platformStatus is the platform's part of a scene.
type platformStatus struct {
	child *child
	// password is the admin's one-time password, if it has not been printed
	// before.
	password string
}

// platformPorts lists the fixed ports of the platform.
func platformPorts() []fixedPort {
	return []fixedPort{
		{platformPort, "the platform"}, {platformHealthPort, "the platform's health and metrics"},
		{platformAdminPort, "the platform's admin API"},
	}
}

// startPlatform starts this program again as the control plane. It listens on
// loopback only.
func startPlatform(_ context.Context, s *scene) (*child, error) {
	if err := s.state.root.MkdirAll(platformName, 0o700); err != nil {
		return nil, err
	}
	options := fmt.Sprintf(platformOptions, s.local(platformPort), s.local(platformAdminPort), s.local(platformHealthPort),
		s.platformState(), firstAdmin)
	// The control plane gets no kubeconfig: it works without a cluster.
	var err error
	s.platform.child, err = s.startRole(platformName, options, "")
	return s.platform.child, err
}

// platformReady waits until the platform is ready, and creates the keys that
// later parts need.
func platformReady(ctx context.Context, s *scene, report func(string)) (string, error) {
	report("waiting for the platform to start")
	if err := s.awaitHealth(ctx, platformHealthPort, report); err != nil {
		return "", err
	}
	// The runtime gets a key that can only register, and the printed commands
	// get one with all scopes.
	for _, key := range []struct{ file, name, scope string }{
		{registerKeyFile, "runtime of slipway up", "--register"}, {adminKeyFile, "commands of slipway up", ""},
	} {
		if err := s.provideKey(ctx, key.file, key.name, key.scope); err != nil {
			return "", err
		}
	}
	if err := s.provideGitSettings(ctx); err != nil {
		return "", err
	}
	return "ready", s.providePassword(ctx)
}

// provideKey creates an API key, unless an earlier run has.
func (s *scene) provideKey(ctx context.Context, file, name, scope string) error {
	// Without an error there is a key of an earlier run.
	if _, err := os.Stat(s.platformFile(file)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	words := []string{"create-key", firstAdmin, name, "--days", "0"} // as long as the state directory
	if scope != "" {
		words = append(words, scope)
	}
	key, err := s.runPlatformTask(ctx, words...)
	if err != nil {
		return err
	}
	return s.state.writeSynced(filepath.Join(platformName, file), []byte(key+"\n"))
}

// providePassword creates a one-time password for the first admin if none was
// printed yet. A run that ends before it is printed creates another next time.
func (s *scene) providePassword(ctx context.Context) error {
	if _, err := os.Stat(s.platformFile(passwordShownFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := s.runPlatformTask(ctx, "reset-password", firstAdmin)
	if err != nil {
		return err
	}
	// The task prints the password on a line of its own.
	for line := range strings.Lines(text) {
		if _, password, found := strings.Cut(line, "password:"); found {
			s.platform.password = strings.TrimSpace(password)
			return nil
		}
	}
	return errors.New("the platform gave no password for its admin")
}

// passwordPrinted records that the password was printed.
func (s *scene) passwordPrinted() error {
	if s.platform.password == "" {
		return nil
	}
	return s.state.writeSynced(filepath.Join(platformName, passwordShownFile), nil)
}

// runPlatformTask runs one of the platform's tasks, which need only access to
// the state directory, and returns its output.
func (s *scene) runPlatformTask(ctx context.Context, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	args := append([]string{"platform"}, words...)
	command := exec.CommandContext(ctx, s.options.Executable, append(args, "--configFile="+s.platformFile(platformOptionsFile))...)
	command.Env = roleEnvironment(os.Environ(), "")
	// Standard error may be long. The reason is at its end.
	var message outputTail
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &message
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("slipway platform %s: %w: %s", words[0], err, strings.TrimSpace(message.String()))
	}
	if output.Len() > maxOutput {
		return "", fmt.Errorf("slipway platform %s: its output is longer than expected", words[0])
	}
	return strings.TrimSpace(output.String()), nil
}

// platformFile returns the path of a file of the platform.
func (s *scene) platformFile(name string) string {
	return filepath.Join(s.state.path(platformName), name)
}

// platformState returns the folder of the platform's database.
func (s *scene) platformState() string { return s.platformFile("state") }

// platformURL returns the URL of the platform and its console.
func (s *scene) platformURL() string { return "http://" + s.local(platformPort) }

// awaitRuntime waits until the runtime has registered and is reached through
// its tunnel.
func (s *scene) awaitRuntime(ctx context.Context, report func(string)) error {
	client, err := s.adminClient()
	if err != nil {
		return err
	}
	runtime := runtimev1connect.NewRuntimeServiceClient(client, s.runtimeURL())
	return poll(ctx, func() bool {
		_, err := runtime.GetInfo(ctx, connect.NewRequest(&runtimev1.GetInfoRequest{}))
		if err != nil {
			report(err.Error())
		}
		return err == nil
	})
}

// adminClient returns a client with the key of the admin.
func (s *scene) adminClient() (*http.Client, error) {
	// The platform shows a key only once, so later runs read it from the file.
	key, err := os.ReadFile(s.platformFile(adminKeyFile))
	return &http.Client{Timeout: commandTimeout, Transport: bearer("Bearer " + strings.TrimSpace(string(key)))}, err
}

// runtimeURL returns the address of the runtime's API, through the platform and
// the tunnel.
func (s *scene) runtimeURL() string {
	return s.platformURL() + wire.RuntimesPath + runtimeName + strings.TrimSuffix(wire.AppProxyPath, "/")
}

// bearer is a transport that adds an API key to requests.
type bearer string

// RoundTrip sends a request with the key.
func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	// A RoundTripper must not change the request of its caller.
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", string(b))
	return http.DefaultTransport.RoundTrip(request)
}

// showPlatform returns the platform's row and hints.
func showPlatform(s *scene) (Row, []Hint) {
	detail := fmt.Sprintf("the control plane and its console, pid %d", s.platform.child.pid())
	if s.platform.password != "" {
		detail = fmt.Sprintf("%s; sign in as %s with %s, which is shown only this once", detail, firstAdmin, s.platform.password)
	}
	return Row{
			Part: platformName, Address: s.platformURL(), Detail: detail, PID: s.platform.child.pid(), Log: s.platform.child.log,
		}, []Hint{
			{"see the runtimes", s.asAdmin("runtime list")},
			{"see the Applications", s.asAdmin("app list")},
		}
}

// asAdmin returns a command of this program for the platform. It works in any
// directory and does not use the user's own contexts.
func (s *scene) asAdmin(arguments string) string {
	return fmt.Sprintf("SLIPWAY_URL=%s SLIPWAY_API_KEY=\"$(cat %s)\" %s %s",
		s.platformURL(), shellQuote(s.platformFile(adminKeyFile)), shellQuote(s.options.Executable), arguments)
}
