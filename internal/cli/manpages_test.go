package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// TestExtras: there is a completion for each shell, which the shell can read, and a
// man page for each command, with its options as they are typed.
func TestExtras(t *testing.T) {
	clitest.Clean(t)
	dir := t.TempDir()
	if got := clitest.Run(t, "docs --extras "+dir); got.Code != 0 {
		t.Fatalf("got %+v", got)
	}
	for name, wants := range map[string][]string{
		"bash-completion/completions/slipway":    {"__start_slipway"},
		"zsh/site-functions/_slipway":            {"#compdef slipway"},
		"fish/vendor_completions.d/slipway.fish": {"complete -c slipway"},
		"man/man1/slipway.1":                     {".TH SLIPWAY 1", `.BR slipway\-up (1)`},
		"man/man1/slipway-app-list.1":            {`.B slipway app list`, `\fB\-\-output\fR`, ".SH SEE ALSO\n.BR slipway\\-app (1)"},
		"man/man1/slipway-edge.1":                {`\fB\-\-providers.kubernetesIngress`},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		for _, want := range wants {
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q: %v", name, want, err)
			}
		}
	}
	if output, err := exec.CommandContext(t.Context(), "bash", "-n", filepath.Join(dir, "bash-completion/completions/slipway")).CombinedOutput(); err != nil {
		t.Errorf("bash: %v: %s", err, output)
	}
	pages := must.Get(filepath.Glob(filepath.Join(dir, "man/man1/*")))(t)
	if len(pages) < 80 {
		t.Errorf("there are %d man pages", len(pages))
	}
	for _, page := range pages {
		for line := range strings.Lines(string(must.Get(os.ReadFile(page))(t))) {
			if known := strings.HasPrefix(line, ".TH ") || strings.HasPrefix(line, ".SH ") || strings.HasPrefix(line, ".TP") || strings.HasPrefix(line, ".B ") ||
				strings.HasPrefix(line, ".BR ") || strings.HasPrefix(line, ".PP") || strings.HasPrefix(line, ".EX") || strings.HasPrefix(line, ".EE"); !known && (strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'")) {
				t.Errorf("%s has a request that was text: %s", filepath.Base(page), line)
			}
		}
	}
}
