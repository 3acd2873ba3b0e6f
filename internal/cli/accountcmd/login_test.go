package accountcmd_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// TestLogin: a one-time password is changed, a key for 90 days is kept in a file
// that only its owner can read, nothing secret is shown, and logout revokes the
// key.
func TestLogin(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	got := w.RunWith(t, w.OneTime+"\n"+clitest.ChosenPassword+"\n", "login "+w.Url+" --email "+clitest.AdminEmail+" --password-stdin --name test")
	if got.Code != 0 || got.Stdout != "" || !strings.Contains(got.Stderr, "Signed in to "+w.Url+" as "+clitest.AdminEmail) {
		t.Fatalf("login: %+v", got)
	}
	key := w.Key(t)
	for _, canary := range []string{w.OneTime, clitest.ChosenPassword, key} {
		if strings.Contains(got.Stdout+got.Stderr+w.Log.String(), canary) {
			t.Errorf("a secret is shown: %+v", got)
		}
	}
	for path, want := range map[string]os.FileMode{w.Config: 0o600, filepath.Dir(w.Config): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	text, err := os.ReadFile(w.Config)
	if err != nil || strings.Contains(string(text), clitest.ChosenPassword) || strings.Contains(string(text), w.OneTime) {
		t.Errorf("the file has a password: %v", err)
	}
	who := w.Must(t, "whoami")
	host, _ := os.Hostname()
	expires := time.Now().UTC().Add(90 * 24 * time.Hour).Format(time.DateOnly)
	for _, part := range []string{clitest.AdminEmail, "admin", "cli on " + host, "scope all", "expires " + expires} {
		if !strings.Contains(who, part) {
			t.Errorf("%q is missing in\n%s", part, who)
		}
	}
	// Logging in again replaces the key, and the old one is dead.
	if got := w.RunWith(t, clitest.ChosenPassword+"\n", "login "+w.Url+" --email "+clitest.AdminEmail+" --password-stdin --name test"); got.Code != 0 {
		t.Fatalf("login again: %+v", got)
	}
	w.Environ = []string{"SLIPWAY_URL=" + w.Url, "SLIPWAY_API_KEY=" + key}
	w.Fails(t, "whoami", 1, "check the key in SLIPWAY_API_KEY")
	second := w.Key(t)
	w.Environ = nil
	if got := w.Run(t, "logout"); got.Code != 0 {
		t.Fatalf("logout: %+v", got)
	}
	w.Fails(t, "whoami", 2, "run slipway login URL")
	w.Environ = []string{"SLIPWAY_URL=" + w.Url, "SLIPWAY_API_KEY=" + second}
	w.Fails(t, "whoami", 1, "the platform does not accept the key")
}

// TestLoginInterrupted: a login that ends at the prompt for the new password
// leaves the one-time password valid, with a note about it.
func TestLoginInterrupted(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	for range 2 {
		got := w.RunWith(t, w.OneTime+"\n", "login "+w.Url+" --email "+clitest.AdminEmail+" --password-stdin")
		if got.Code != 1 || !strings.Contains(got.Stderr, "Until then it stays valid") || !strings.Contains(got.Stderr, "standard input ended before the password") {
			t.Fatalf("an interrupted login: %+v", got)
		}
	}
	w.Login(t)
}

// TestLoginWithKey: a key that was made elsewhere is checked, kept, and not revoked
// by logout.
func TestLoginWithKey(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	secretText := strings.TrimSpace(w.Must(t, "api-key create ci --scope read --lifetime 2d"))
	if got := w.RunWith(t, secretText+"\n", "login "+w.Url+" --api-key-file - --name ci"); got.Code != 0 || strings.Contains(got.Stderr, secretText) {
		t.Fatalf("login: %+v", got)
	}
	if got := w.Must(t, "whoami"); !strings.Contains(got, "scope read") {
		t.Errorf("who: %s", got)
	}
	if got := w.Run(t, "account update --name other"); got.Code != 1 || !strings.Contains(got.Stderr, "you may not do this") {
		t.Errorf("a key that only reads: %+v", got)
	}
	if got := w.Run(t, "logout"); got.Code != 0 {
		t.Fatalf("logout: %+v", got)
	}
	w.Environ = []string{"SLIPWAY_URL=" + w.Url, "SLIPWAY_API_KEY=" + secretText}
	w.Must(t, "whoami")
	w.Environ = nil
	if got := w.RunWith(t, "slw_wrong_key", "login "+w.Url+" --api-key-file -"); got.Code != 1 || strings.Contains(got.Stderr, "slw_wrong_key") {
		t.Errorf("a wrong key: %+v", got)
	}
	if got := w.RunWith(t, "wrong\n", "login "+w.Url+" --email "+clitest.AdminEmail+" --password-stdin"); got.Code != 1 || !strings.Contains(got.Stderr, "slipway platform reset-password "+clitest.AdminEmail) {
		t.Errorf("a wrong password: %+v", got)
	}
}

// TestLoginRefusals: arguments that cannot be right are refused before anything is sent.
func TestLoginRefusals(t *testing.T) {
	clitest.Clean(t)
	w := &clitest.PlatformWorld{Home: t.TempDir()}
	for line, want := range map[string]string{
		"login http://platform.example":                                  "use https",
		"login nonsense":                                                 "write one such as https://",
		"login https://127.0.0.1:1":                                      "there is no terminal for a password prompt",
		"login https://127.0.0.1:1 --api-key-file x --email a@b":         "needs neither",
		"login https://127.0.0.1:1 --api-key-file missing":               "no such file",
		"login https://127.0.0.1:1 --api-key-file /dev/null --ca-file x": "is empty",
		"config use nothing":                                             "there is no context nothing",
		"config set-runtime":                                             "give the name of a runtime",
		"whoami --platform-context nothing":                              "there is no context nothing",
		"logout":                                                         "no context is current",
		"runtime list":                                                   "run slipway login URL",
		"api-key revoke slw_abc_def":                                     "run slipway login URL",
	} {
		w.Fails(t, line, 2, want)
	}
	w.Fails(t, "config current", 1, "no context is current")
	got := w.RunWith(t, "key", "login http://127.0.0.1:1 --api-key-file -")
	if got.Code != 1 || !strings.Contains(got.Stderr, "the platform at http://127.0.0.1:1 does not respond") {
		t.Errorf("nobody there: %+v", got)
	}
}

// TestKeyStaysAtHome: a key is sent to the platform that it is for, and to no server
// that it names instead.
func TestKeyStaysAtHome(t *testing.T) {
	clitest.Clean(t)
	w := &clitest.PlatformWorld{Home: t.TempDir()}
	asked := make(chan string, 8)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Authorization") }))
	defer thief.Close()
	moved := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer moved.Close()
	stranger := httptest.NewServer(http.NotFoundHandler())
	defer stranger.Close()
	for _, server := range []*httptest.Server{moved, stranger} {
		got := w.RunWith(t, "slw_canary_key", "login "+server.URL+" --api-key-file -")
		if got.Code != 1 || !strings.Contains(got.Stderr, "the server at "+server.URL+" is no platform") || strings.Contains(got.Stderr, "canary") {
			t.Errorf("got %+v", got)
		}
	}
	if len(asked) > 0 {
		t.Errorf("the key went elsewhere: %q", <-asked)
	}
	if _, err := os.Stat(filepath.Join(w.Home, ".config")); err == nil {
		t.Error("a key that nobody believed is kept")
	}
}

// TestContexts: the commands for contexts, and files that are refused.
func TestContexts(t *testing.T) {
	clitest.Clean(t)
	w := &clitest.PlatformWorld{Home: t.TempDir()}
	w.Config = filepath.Join(w.Home, "contexts.yaml")
	w.Environ = []string{"SLIPWAY_CONFIG=" + w.Config}
	write := func(mode os.FileMode, text string) {
		t.Helper()
		_ = os.Remove(w.Config)
		must.Do(t, os.WriteFile(w.Config, []byte(text), mode))
	}
	const two = `currentContext: a
contexts:
- {name: a, url: "https://a.example", account: acme, user: ada@example.com, key: slw_canary_1, keyExpires: "2026-12-01T00:00:00Z"}
- {name: b, url: "https://b.example", key: slw_canary_2, runtime: prod}
`
	write(0o600, two)
	w.Must(t, "config use b")
	w.Must(t, "config set-runtime staging --platform-context a")
	clitest.RequireText(t, w.Must(t, "config list"), `
CURRENT NAME URL ACCOUNT USER RUNTIME KEY_EXPIRES
a https://a.example acme ada@example.com staging 2026-12-01T00:00:00Z
* b https://b.example - - prod never`)
	if got := w.Must(t, "config current"); got != "b\n" {
		t.Errorf("current: %q", got)
	}
	if got := w.Must(t, "config list -o json"); strings.Contains(got, "canary") || !strings.Contains(got, `"name": "a"`) {
		t.Errorf("as JSON: %s", got)
	}
	w.Must(t, "config delete b")
	w.Fails(t, "config current", 1, "no context is current")
	if info, err := os.Stat(w.Config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if text, err := os.ReadFile(w.Config); err != nil || !strings.Contains(string(text), "slw_canary_1") || strings.Contains(string(text), "slw_canary_2") {
		t.Errorf("the file has %s: %v", text, err)
	}
	write(0o644, two)
	w.Fails(t, "config list", 2, "chmod 600")
	write(0o600, "contexts: [{name: a, url: 'https://a.example', key: slw_canary_1, more: 1}]")
	w.Fails(t, "config list", 2, "written by a newer program")
	if os.Geteuid() == 0 {
		write(0o600, two)
		must.Do(t, os.Chown(w.Config, 65534, -1))
		w.Fails(t, "config list", 2, "belongs to another user")
	}
}

// TestContextsTogether: commands that change contexts at the same time lose nothing,
// and one that is locked out reports it.
func TestContextsTogether(t *testing.T) {
	clitest.Clean(t)
	w := &clitest.PlatformWorld{Home: t.TempDir()}
	w.Config = filepath.Join(w.Home, "c.yaml")
	w.Environ = []string{"SLIPWAY_CONFIG=" + w.Config}
	var text strings.Builder
	text.WriteString("contexts:\n")
	const many = 6
	for i := range many {
		fmt.Fprintf(&text, "- {name: c%d, url: 'https://c%d.example'}\n", i, i)
	}
	must.Do(t, os.WriteFile(w.Config, []byte(text.String()), 0o600))
	done := make(chan error, many)
	for i := range many {
		command := w.Command(t.Context(), strings.Fields(fmt.Sprintf("config set-runtime r%d --platform-context c%d", i, i)))
		go func() {
			out, err := command.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			done <- err
		}()
	}
	for range many {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	list := w.Must(t, "config list")
	for i := range many {
		if !strings.Contains(list, fmt.Sprintf("r%d", i)) {
			t.Errorf("r%d is lost:\n%s", i, list)
		}
	}
	lock := must.Get(os.OpenFile(w.Config+".lock", os.O_RDWR, 0))(t)
	defer func() { _ = lock.Close() }()
	must.Do(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	w.Fails(t, "config use c1", 1, "another command changes the contexts")
}

// TestLoginOnTerminal: passwords are asked for without echo, and the new one twice.
func TestLoginOnTerminal(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	screen, terminal := programs.OpenTerminal(t)
	command := w.Command(t.Context(), []string{"login", w.Url})
	shown := &programs.Output{}
	command.Stdin, command.Stdout, command.Stderr = terminal, shown, shown
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	echoed := &programs.Output{}
	go func() { _, _ = copyUntilEnd(echoed, screen) }()
	must.Do(t, command.Start())
	for _, step := range []struct{ prompt, response string }{
		{"Email: ", clitest.AdminEmail}, {"Password: ", w.OneTime}, {"New password: ", "a mistake of mine"}, {"Once more: ", "another mistake"},
		{"They differ.\nNew password: ", clitest.ChosenPassword}, {"differ.\nNew password: \nOnce more: ", clitest.ChosenPassword},
	} {
		shown.WaitFor(t, step.prompt)
		waitForRaw(t, terminal, step.prompt != "Email: ")
		must.Get(screen.WriteString(step.response + "\n"))(t)
	}
	if err := command.Wait(); err != nil {
		t.Fatalf("%v: %s", err, shown)
	}
	for _, canary := range []string{w.OneTime, clitest.ChosenPassword, "mistake"} {
		if strings.Contains(echoed.String()+shown.String(), canary) {
			t.Errorf("a password is shown: %q %q", echoed, shown)
		}
	}
	if !strings.Contains(echoed.String(), clitest.AdminEmail) {
		t.Errorf("the terminal echoes nothing: %q", echoed)
	}
	w.Must(t, "whoami")
}

// TestInterruptedPassword: Ctrl-C ends the question, and the terminal echoes again.
func TestInterruptedPassword(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	_, terminal := programs.OpenTerminal(t)
	command := w.Command(t.Context(), []string{"login", w.Url, "--email", clitest.AdminEmail})
	shown := &programs.Output{}
	command.Stdin, command.Stdout, command.Stderr = terminal, shown, shown
	must.Do(t, command.Start())
	shown.WaitFor(t, "Password: ")
	waitForRaw(t, terminal, true)
	must.Do(t, command.Process.Signal(os.Interrupt))
	if err := command.Wait(); err == nil || command.ProcessState.ExitCode() != 1 || !strings.Contains(shown.String(), "interrupted") {
		t.Errorf("it ended with %v: %s", err, shown)
	}
	waitForRaw(t, terminal, false)
}

func copyUntilEnd(to *programs.Output, from *os.File) (int64, error) {
	buffer, total := make([]byte, 1024), int64(0)
	for {
		n, err := from.Read(buffer)
		_, _ = to.Write(buffer[:n])
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
}

// waitForRaw waits until the terminal echoes or does not: a prompt is written
// before the echo is turned off.
func waitForRaw(t *testing.T, terminal *os.File, hidden bool) {
	t.Helper()
	programs.Until(t, "the echo of the terminal changes", func() bool {
		state := must.Get(unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS))(t)
		return (state.Lflag&unix.ECHO == 0) == hidden
	})
}

// TestLoginCertificate: a certificate of an unknown authority is refused, and taken
// with its authority.
func TestLoginCertificate(t *testing.T) {
	made := pkitest.NewFiles(t)
	cert := made.CertFile
	w := clitest.NewPlatformWorld(t, "--tls.certFile="+cert, "--tls.keyFile="+made.KeyFile)
	input := w.OneTime + "\n" + clitest.ChosenPassword + "\n"
	line := "login " + w.Url + " --email " + clitest.AdminEmail + " --password-stdin --name test"
	if got := w.RunWith(t, input, line); got.Code != 1 || !strings.Contains(got.Stderr, "--ca-file") {
		t.Fatalf("without the authority: %+v", got)
	}
	if got := w.RunWith(t, input, line+" --ca-file "+cert); got.Code != 0 {
		t.Fatalf("with it: %+v", got)
	}
	w.Must(t, "whoami")
	if got := w.Must(t, "runtime install --create-key --print helm"); !strings.Contains(got, "--from-file=ca-bundle.crt="+cert) || !strings.Contains(got, "caCerts.secretKeyRef.name=slipway-platform-ca") {
		t.Errorf("install: %s", got)
	}
	if got := w.Run(t, "doctor"); got.Code != 0 || !strings.Contains(got.Stdout, "certificate") || !strings.Contains(got.Stdout, "by slipway test") {
		t.Errorf("doctor: %+v", got)
	}
}
