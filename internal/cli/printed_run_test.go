package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// runRule is a command that runs here: without a server, or with a platform.
type runRule struct {
	path    string // the words of the command
	needs   string // a flag without which it needs a cluster, or never ends
	without string // a flag with which it does
	order   int    // commands that create come first, those that delete last
}

// runRules lists the commands that run here. Commands of a cluster are run by
// test/documents, test/up and test/runtime.
func runRules() []runRule {
	const create, read, change, remove, leave = 0, 1, 2, 3, 4
	return []runRule{
		{"version", "", "", read}, {"lint", "-f", "", read}, {"explain", "-f", "", read}, {"render", "", "", read}, {"account can", "--policy", "", read},
		{"notifications trigger run", "--config-map", "", read},
		{"images list", "", "", read}, {"images values", "", "--digest", read}, {"helm validate", "--offline", "", read},
		{"edge", "--print-config", "", read}, {"agent", "--print-config", "", read}, {"platform", "--print-config", "", read},

		{"platform create-key", "", "", create}, {"platform backup", "", "", read}, {"platform rotate-keys", "", "", change},
		{"platform reset-password", "", "", leave},

		{"login", "", "", create}, {"account users create", "", "", create}, {"account git set", "", "", create}, {"api-key create", "", "", create},
		{"whoami", "", "", read}, {"config list", "", "", read}, {"config current", "", "", read}, {"config set-runtime", "", "", read},
		{"account get", "", "", read}, {"account git get", "", "", read}, {"account users list", "", "", read}, {"account users update", "", "", change},
		{"account git reset", "", "", remove}, {"api-key list", "", "", read}, {"audit list", "", "", read}, {"audit export", "", "--follow", read},
		{"runtime list", "", "", read}, {"runtime get", "", "", read}, {"runtime delete", "", "", remove}, {"doctor", "", "", remove}, {"logout", "", "", leave},
	}
}

// TestPrintedCommandsRun: the complete commands that need no cluster succeed as
// they are printed, one after the other, beside the files that they name and
// with a platform. Only its address is replaced.
func TestPrintedCommandsRun(t *testing.T) {
	w := newPrintedWorld(t)
	commands := w.runnable(t)
	for _, one := range commands {
		// A question is confirmed; a test has no terminal.
		words := one.words
		if command, _, err := cli.Tree().Find(words); err == nil && command.Flags().Lookup("yes") != nil {
			words = append(slices.Clone(words), "--yes")
		}
		code, output := w.run(t, words)
		// A right that is denied is a result, and so is a runtime that is offline.
		found := strings.HasPrefix(one.line(), "slipway account can") || strings.HasSuffix(strings.TrimSpace(output), "checks failed")
		if code != 0 && !(code == 1 && found) {
			t.Errorf("%s: %s\nended with %d:\n%s", one.place, one.line(), code, output)
		}
	}
	t.Logf("%d different commands ran", len(commands))
	if len(commands) < 40 {
		t.Error("most commands were not found")
	}
}

// printedWorld is a directory with the files that commands name, which is also
// the home of a user, and a platform.
type printedWorld struct {
	*clitest.PlatformWorld
}

// newPrintedWorld starts a platform, whose state is where its commands look for
// it, and makes the users and the runtime that the pages name.
func newPrintedWorld(t *testing.T) printedWorld {
	t.Helper()
	clitest.Clean(t)
	home := t.TempDir()
	for _, file := range must.Get(txtar.ParseFile("testdata/printed/world.txtar"))(t).Files {
		name := filepath.Join(home, filepath.FromSlash(file.Name))
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
		clitest.WriteFile(t, name, string(file.Data))
	}
	w := printedWorld{&clitest.PlatformWorld{Home: home, Config: filepath.Join(home, ".config", "slipway", "config.yaml")}}
	process := programs.Run(t, "the platform", w.Command(context.Background(), []string{
		"platform", "--server.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--admin.address=127.0.0.1:0", "--log.format=json",
	}))
	t.Cleanup(func() { _ = process.End(nil) })
	w.Log, w.Url, w.OneTime = process.Log, process.Listens(t, "platform").URL, process.Password(t)
	w.Login(t)
	for _, email := range []string{"ada@example.com", "admin@example.com"} {
		oneTime := strings.Fields(w.Must(t, "account users create "+email+" --role admin"))
		got := w.RunWith(t, oneTime[len(oneTime)-1]+"\n"+clitest.ChosenPassword+"\n", "login "+w.Url+" --email "+email+" --password-stdin --name "+email)
		if got.Code != 0 {
			t.Fatalf("%s: %+v", email, got)
		}
	}
	w.Must(t, "config use test")
	for _, runtime := range []string{"prod", "slipway"} { // that of slipway up is called slipway
		w.Registered(t, runtime)
	}
	clitest.WriteFile(t, filepath.Join(home, "ca.pem"), string(pkitest.NewFiles(t, "slipway.example.com").Cert))
	clitest.WriteFile(t, filepath.Join(home, "key.txt"), w.Must(t, "api-key create printed"))
	return w
}

// runnable returns the different commands that run here, in their order.
// Commands with a placeholder are for a reader to fill in.
func (w printedWorld) runnable(t *testing.T) []printed {
	t.Helper()
	order := map[string]int{}
	var found []printed
	for _, one := range printedCommands(t) {
		line := one.line()
		if _, seen := order[line]; seen || one.partial || slices.ContainsFunc(one.words, placeholder.MatchString) {
			continue
		}
		command, _, err := cli.Tree().Find(one.words)
		if err != nil {
			continue // TestPrintedCommands reports it
		}
		path := strings.TrimPrefix(command.CommandPath(), "slipway ")
		for _, rule := range runRules() {
			if rule.path == path && (rule.needs == "" || slices.Contains(one.words, rule.needs)) && (rule.without == "" || !slices.Contains(one.words, rule.without)) {
				order[line] = rule.order
				found = append(found, one)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b printed) int { return cmp.Compare(order[a.line()], order[b.line()]) })
	return found
}

// run runs a command with the address of the platform, and with what a pipe or
// the user would give to its standard input.
func (w printedWorld) run(t *testing.T, words []string) (code int, output string) {
	t.Helper()
	words = slices.Clone(words)
	for i, word := range words {
		if word == "https://platform.example.com" || word == "https://slipway.example.com" {
			words[i] = w.Url
		}
	}
	input := ""
	switch {
	case words[0] == "login" && !slices.Contains(words, "--api-key-file"):
		if !slices.Contains(words, "--email") {
			words = append(words, "--email", clitest.AdminEmail)
		}
		words = append(words, "--password-stdin")
		input = clitest.ChosenPassword + "\n"
	case slices.Contains(words, "-"):
		name := map[string]string{"account": "argocd-rbac-cm.yaml", "lint": "deploy/shop.yaml", "helm": "values.yaml"}[words[0]]
		input = string(must.Get(os.ReadFile(filepath.Join(w.Home, filepath.FromSlash(name))))(t))
	}
	ctx, cancel := context.WithTimeout(t.Context(), clitest.AppTimeout)
	defer cancel()
	command := w.Command(ctx, words)
	var shown bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &shown, &shown
	err := command.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(fmt.Errorf("%s: %w", strings.Join(words, " "), err))
	}
	return command.ProcessState.ExitCode(), shown.String()
}
