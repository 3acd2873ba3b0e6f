package cli_test

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
)

// TestSourcesAgree: the same options in YAML, TOML, flags and variables give
// the same configuration, with everything that want.yaml has in it.
func TestSourcesAgree(t *testing.T) {
	authority := pkitest.NewFiles(t).CertFile
	for name, archive := range archives.All(t, "testdata/sources/*.txtar") {
		files := archives.Texts(archive)
		for file, text := range files {
			files[file] = strings.ReplaceAll(text, "/ca.crt", authority)
		}
		first := ""
		for _, source := range []string{"in.yaml", "in.toml", "flags", "env"} {
			t.Run(name+"/"+source, func(t *testing.T) {
				if files[source] == "" {
					t.Fatal("the case does not have it")
				}
				got := effective(t, source, files[source])
				checkContains(t, got, files["want.yaml"])
				first = cmp.Or(first, got)
				if got != first {
					t.Errorf("got\n%s\nas YAML it is\n%s", got, first)
				}
			})
		}
	}
}

// effective is the configuration that a source gives.
func effective(t *testing.T, source, text string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	args := []string{"edge", "--print-config"}
	switch source {
	case "flags":
		clitest.Clean(t)
		args = append(args, lines...)
	case "env":
		clitest.Clean(t, lines...)
	default:
		clitest.Clean(t)
		path := filepath.Join(t.TempDir(), source)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		args = append(args, "--configFile", path)
	}
	var stdout, stderr bytes.Buffer
	if code := cli.Execute(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	return stdout.String()
}

// checkContains holds a configuration to a part of it.
func checkContains(t *testing.T, got, want string) {
	t.Helper()
	var whole, part map[string]any
	must.Do(t, errors.Join(yaml.Unmarshal([]byte(got), &whole), yaml.Unmarshal([]byte(want), &part)))
	var check func(at string, whole, part any)
	check = func(at string, whole, part any) {
		fields, ok := part.(map[string]any)
		if !ok {
			if !reflect.DeepEqual(whole, part) {
				t.Errorf("%s: got %v, want %v", at, whole, part)
			}
			return
		}
		found, _ := whole.(map[string]any)
		for name, value := range fields {
			check(at+"."+name, found[name], value)
		}
	}
	check("", whole, part)
}

// TestReferenceExamples: the examples of the reference are the same
// configuration, and are not the defaults.
func TestReferenceExamples(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/reference/edge.md"))(t)
	clitest.Clean(t)
	defaults := clitest.Run(t, "edge --print-config").Stdout
	want := ""
	for _, c := range []struct{ before, source string }{
		{"As a YAML file:\n\n```yaml\n", "in.yaml"},
		{"As a TOML file:\n\n```toml\n", "in.toml"},
		{"As flags:\n\n```sh\nslipway edge \\\n", "flags"},
		{"As environment variables:\n\n```sh\n", "env"},
	} {
		t.Run(c.source, func(t *testing.T) {
			_, text, found := strings.Cut(string(page), c.before)
			if !found {
				t.Fatalf("no %q", c.before)
			}
			text, _, _ = strings.Cut(text, "```")
			if c.source == "flags" {
				text = strings.NewReplacer("\\", "", " ", "").Replace(text)
			}
			got := effective(t, c.source, text)
			want = cmp.Or(want, got)
			if want == defaults || got != want {
				t.Errorf("got\n%s\nthe first example is\n%s\nthe defaults\n%s", got, want, defaults)
			}
		})
	}
}

// TestFoundFile: a file in the user's directory is read without being named.
func TestFoundFile(t *testing.T) {
	clitest.Clean(t)
	dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "slipway")
	must.Do(t, os.Mkdir(dir, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "edge.toml"), []byte("log.level = 'warn'"), 0o600))
	if r := clitest.Run(t, "edge --print-config"); r.Code != 0 || !strings.Contains(r.Stdout, "level: warn") {
		t.Errorf("got %+v", r)
	}
}
