package runtime

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/programs"
)

// launch runs slipway with these words until the end of the test.
func (s *suite) launch(t *testing.T, name string, environment []string, words ...string) *programs.Process {
	t.Helper()
	return programs.Slipway(t, name, s.binary, environment, words...)
}

// metrics is the page of metrics of a process.
func metrics(t *testing.T, p *programs.Process) string {
	t.Helper()
	text, err := programs.Fetch(t.Context(), "http://"+p.Address(t, "health")+"/metrics")
	if err != nil || !strings.Contains(text, "slipway_") {
		t.Fatalf("the metrics of %s are %s: %v", p.Name(), text, err)
	}
	return text
}

// run runs slipway to its end.
func (s *suite) run(t *testing.T, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, s.binary, words...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir()}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("slipway %s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}
