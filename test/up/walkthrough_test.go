package up

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
)

// walkthroughs follows the ten minutes of the migration pages, block by block, beside a
// slipway up that runs.
func walkthroughs(t *testing.T, dir string) {
	t.Helper()
	for _, page := range []string{"migration-nginx.md", "migration-traefik.md"} {
		t.Run(page, func(t *testing.T) {
			_, section, _ := strings.Cut(read(t, "../../docs/"+page), "\n## Ten minutes on one machine\n")
			section, _, _ = strings.Cut(section, "\n## ")
			examples := examplesOf(section)
			if len(examples) < 8 || examples[0].text != "slipway up\n" {
				t.Fatalf("the section begins otherwise, or has only %d blocks", len(examples))
			}
			newReader(t, dir).follow(examples[1:])
		})
	}
}

// reader is a person with a terminal, whose home has the state directory at its usual place.
type reader struct {
	t           *testing.T
	environment []string
	// dir is where the person is, and exports are the variables that were set.
	dir     string
	exports []string
}

func newReader(t *testing.T, state string) *reader {
	t.Helper()
	home, tools := t.TempDir(), t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(home, ".local", "share"), 0o700))
	must.Do(t, os.Symlink(state, filepath.Join(home, ".local", "share", "slipway")))
	for name, command := range map[string]string{
		"kubectl": fmt.Sprintf("exec '%s' kubectl", kubetest.Binary(t)), "slipway": fmt.Sprintf("exec '%s'", os.Getenv(binary.Variable)),
	} {
		must.Do(t, os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\n"+command+" \"$@\"\n"), 0o700))
	}
	environment := append(programs.UserEnvironment(), "HOME="+home, "PATH="+tools+":"+os.Getenv("PATH"))
	return &reader{t: t, environment: environment, dir: t.TempDir()}
}

// follow runs the blocks. The lines of a block of text are in the output of the block before
// it, at the latest when that is repeated: what is applied is served a moment later.
func (r *reader) follow(examples []example) {
	r.t.Helper()
	for i, one := range examples {
		if one.language != "sh" {
			continue
		}
		var shown []string
		if i+1 < len(examples) && examples[i+1].language == "text" {
			shown = strings.Split(strings.TrimSpace(examples[i+1].text), "\n")
		}
		programs.Eventually(r.t, func(ctx context.Context) error { return r.run(ctx, one.text, shown) })
		for line := range strings.Lines(one.text) {
			if strings.HasPrefix(line, "export ") {
				r.exports = append(r.exports, line)
			}
		}
	}
}

// run runs one block, and returns why it is not as the page has it.
func (r *reader) run(ctx context.Context, text string, shown []string) error {
	command := exec.CommandContext(ctx, "bash", "-e", "-c", strings.Join(r.exports, "")+text)
	command.Env, command.Dir = r.environment, r.dir
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s\nfails: %w\n%s", text, err, output)
	}
	if missing := slices.IndexFunc(shown, func(line string) bool { return !strings.Contains(string(output), line) }); missing >= 0 {
		return fmt.Errorf("%s\ndoes not show %q:\n%s", text, shown[missing], output)
	}
	return nil
}
